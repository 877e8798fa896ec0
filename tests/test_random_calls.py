"""Random hostile calls of the public API, few of the many that the tool makes."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import probmetric as pm

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import exact_neighbours as exact
import random_calls as tool
from random_inputs import Call
from random_learners import LEARNERS

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
# Other families compile programs of their own, for minutes: the script makes them all.
CHEAP = ("nearest", "mahalanobis", "kneighbors", "evaluate", "stored", "votes")


def cheap(seed, n):
    """The first n calls of a seed that compile little, by their numbers."""
    drawn = ((i, np.random.default_rng([seed, i])) for i in range(10 * n))
    some = [i for i, rng in drawn if tool.family_of(rng).__name__ in CHEAP]
    return [(i, tool.draw(seed, i)) for i in some[:n]]


def ordinary(k=2):
    return Call(
        "nearest",
        "ordinary points",
        lambda: pm.nearest(pm.Mahalanobis(np.eye(3)), X[:3], X, k),
        (X,),
        lambda r: exact.wrong_neighbours(np.eye(3), X[:3], X, k, r[1]),
    )


@pytest.mark.long
def test_sixty_random_calls_answer_rightly_or_refuse():
    outcomes = {(i, call.text): tool.judge(call) for i, call in cheap(seed=5, n=60)}
    bad = {key: o for key, o in outcomes.items() if o.kind in tool.BAD}
    assert not bad
    kinds = [o.kind for o in outcomes.values()]
    assert kinds.count("finite") >= 15
    assert kinds.count("refused") >= 10


@pytest.mark.parametrize(
    "name, kind", [("prior_strength_", "finite"), ("components_", "SILENT")]
)
def test_infinity_is_silent_unless_it_is_documented(name, kind):
    fitted = pm.LDA()
    setattr(fitted, name, np.array(np.inf))
    assert tool.judge(Call("LDA", "a fit", lambda: fitted, (X,))).kind == kind


def test_every_learner_is_called():
    known = {name for spec in pm.MODELS.values() for name in spec.class_names()}
    forgotten = sorted(known - LEARNERS.keys() - {"TripletEmbedding"})  # Of numbers.
    assert not forgotten, "add a line for each to LEARNERS of tools/random_learners.py"


def test_a_call_depends_on_seed_and_number_alone():
    first, again, other = (tool.draw(*at).text for at in ((1, 7), (1, 7), (2, 7)))
    assert first == again != other


def test_an_ordinary_call_is_finite():
    assert tool.judge(ordinary()) == ("finite", "")


def test_a_nan_in_a_result_is_silent():
    assert tool.judge(tool.broken(ordinary(), "nan")).kind == "SILENT"


def test_swapped_neighbours_are_wrong():
    assert tool.judge(tool.broken(ordinary(), "swap")).kind == "WRONG"


def test_complex_input_that_is_taken_is_silent():
    call = ordinary()._replace(run=lambda: 1.0, given=(X + 5j,), check=None)
    assert tool.judge(call).kind == "SILENT"


def test_a_call_without_end_is_slow():
    def forever():
        while True:
            pass

    call = ordinary()._replace(run=forever)
    assert tool.judge(call, limit=0.05).kind == "slow"


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("k: expected 1 to 3, got 4"), "refused"),
        (RuntimeError("LDA: NONFINITE after 0 steps; standardize=True"), "refused"),
        (RuntimeError("NONFINITE"), "badly named"),
        (ValueError("could not convert"), "badly named"),
        (IndexError("tuple index out of range"), "badly named"),
    ],
)
def test_an_error_is_a_refusal_if_it_names_an_argument(error, kind):
    def fail():
        raise error

    assert tool.judge(ordinary()._replace(run=fail)).kind == kind


@pytest.mark.parametrize("how", tool.BREAKS)
def test_the_script_exits_with_1_when_broken(how, monkeypatch, capsys):
    monkeypatch.setattr(tool, "draw", lambda seed, i: ordinary())
    assert tool.main(["--calls", "2"]) == 0
    assert tool.main(["--calls", "2", "--break", how]) == 1
    assert "--seed 1 --only 1" in capsys.readouterr().out


@pytest.mark.parametrize("power", [-1074, -500, 500, 1020])
def test_exact_neighbours_do_not_depend_on_the_scale(power):
    P = np.array([[0.0], [1.0], [3.0], [8.0]]) * 2.0**power
    P = P if power < 1000 else P / 16
    found = np.array([[0, 1], [1, 0]])
    assert exact.wrong_neighbours([[1.0]], P[:2], P, 2, found) is None
    assert exact.wrong_neighbours([[1.0]], P[:2], P, 2, found[:, ::-1]) is not None


def test_the_lower_index_of_equal_points_comes_first():
    P = np.array([[0.0], [1.0], [1.0]])
    eye, q = [[1.0]], [[0.9]]
    assert exact.wrong_neighbours(eye, q, P, 2, [[1, 2]]) is None
    assert exact.wrong_neighbours(eye, q, P, 2, [[2, 1]]) is not None
    assert exact.wrong_neighbours(eye, q, P, 1, [[2]]) is not None


def test_points_within_rounding_may_change_places():
    P = np.array([[1.0], [1.0 + 2.0**-52], [9.0]])
    assert exact.wrong_neighbours([[0.3]], [[-3.0]], P, 2, [[1, 0]]) is None


@pytest.mark.parametrize("root", [False, True])
def test_a_figure_is_wrong_beyond_its_rounding(root):
    D, bound = exact.squared([[Fraction(3)]], [Fraction(1)], [Fraction(3)])
    value = 6.0 if root else 36.0
    assert exact.wrong_figure(value, D, bound, root=root) is None
    assert exact.wrong_figure(value * (1 + 1e-13), D, bound, root=root) is not None
    assert exact.wrong_figure(np.inf, D, bound, root=root) is not None
