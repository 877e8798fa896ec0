"""``judge`` chooses the right comparison and can always say no."""

import numpy as np
import pytest
import xarray as xr

from probmetric.checks.check import Check, Problem, judge, uniform
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.data.containers import Points

PROBLEM = Problem("toy", params=None, data=Points(np.zeros((1, 1))))


def constant(value):
    return lambda problem: value


def draws(loc=0.0, scale=1.0, n=3000, seed=0, **attrs):
    x = np.random.default_rng(seed).normal(loc, scale, size=(4, n))
    return xr.Dataset({"x": (("chain", "draw"), x)}, attrs=attrs)


def exact(reference, estimate, control=None, **options):
    return Check(
        "claim",
        "exact",
        constant(reference),
        constant(estimate),
        {"wrong": constant(control)},
        **options,
    )


def approximate(reference, estimate, bound):
    return Check("claim", "approximate", constant(reference), constant(estimate),
                 bound=bound)  # fmt: skip


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_never_agrees(bad):
    check = exact({"a": np.ones(2)}, {"a": np.array([1.0, bad])}, rtol=1.0)
    assert judge(check, PROBLEM).attrs["verdict"] == "disagree"


def test_the_level_of_a_judgment_and_the_shift_of_its_check_are_used():
    of_draws = exact({"x": 0.0}, draws(), tol=0.25)
    of_ranks = Check("c", "exact", uniform, constant(Ranks({"a": np.arange(100)}, 99)),
                     {"wrong": constant(None)})  # fmt: skip
    attributes = judge(of_draws, PROBLEM, alpha=0.2).attrs
    assert (attributes["alpha"], attributes["tol"]) == (0.2, 0.25)
    assert attributes["z_crit"] == pytest.approx(1.2815515655446004)  # Φ⁻¹(0.9)
    assert judge(of_ranks, PROBLEM, alpha=0.2).attrs["alpha"] == 0.2
    turned = judge(exact(draws(), {"x": 0.0}, tol=0.25), PROBLEM, alpha=0.2).attrs
    assert (turned["alpha"], turned["tol"]) == (0.2, 0.25)


def test_mean_and_spread_of_an_approximation_stand_beside_those_of_its_reference():
    near, far = draws(), draws(0.1, 1.1, seed=1)
    whole = judge(approximate(near, far, 0.3), PROBLEM)
    table = whole.sel(entry="mean of x")
    sides = float(table["reference"]), float(table["estimate"])
    assert sides == pytest.approx([float(near["x"].mean()), float(far["x"].mean())])
    table = whole.sel(entry="log sd of x")
    sides = float(table["reference"]), float(table["estimate"])
    assert sides == pytest.approx([float(near["x"].std()), float(far["x"].std())], 1e-3)
    assert float(table["error"]) == pytest.approx(np.log(sides[1] / sides[0]))


@pytest.mark.parametrize(
    "reference, gap, error, word",
    [
        (1e-18, 2e-19, 2e-19, "agree"),  # The absolute tolerance decides.
        (1e-18, 2e-7, 2e-7, "disagree"),
        (1e3, 1e-4, 1e-7, "agree"),  # The relative one does.
        (1e3, 1.0, 1e-3, "disagree"),
    ],
)
def test_an_error_is_absolute_where_the_absolute_tolerance_decides(
    reference, gap, error, word
):
    args = {"a": reference}, {"a": reference + gap}
    table = judge(exact(*args, rtol=1e-6, atol=1e-7), PROBLEM)
    assert float(table["error"][0]) == pytest.approx(error, rel=1e-6)
    assert table.attrs["verdict"] == word


def test_uniform_ranks_agree_and_leaning_ranks_disagree():
    rng = np.random.default_rng(0)
    flat = Ranks({"a": rng.integers(0, 100, 400)}, 99)
    lean = Ranks({"a": np.minimum(99, rng.integers(0, 100, 400) + 10)}, 99)
    check = exact(None, flat, lean)
    check = Check("c", "exact", uniform, check.estimate, check.controls)
    assert judge(check, PROBLEM).attrs["verdict"] == "agree"
    assert judge(check, PROBLEM, control="wrong").attrs["verdict"] == "disagree"


def test_the_detectable_shift_of_ranks_is_that_of_normal_posteriors():
    # Posterior N(m, 1), draws shifted by the detectable size: power 0.9 on the mean.
    rng = np.random.default_rng(1)
    n, size, found = 400, None, 0
    for _ in range(100):
        truth = rng.normal(size=n)
        shift = 0.0 if size is None else size
        x = rng.normal(shift, size=(99, n))
        table = uniformity(Ranks({"a": np.sum(x < truth, 0)}, 99))
        found += size is not None and str(table["verdict"].to_numpy()[0]) == "disagree"
        size = float(table["detectable"][0])
    assert 0.75 * 99 <= found < 99  # 0.9 stated; 5 standard errors below


def test_a_given_reference_is_not_evaluated_again():
    calls = []

    def reference(problem):
        calls.append(problem)
        return {"a": 1.0}

    check = Check("c", "exact", reference, constant({"a": 1.0}), {"w": constant(0)})
    judge(check, PROBLEM, reference={"a": 1.0})
    assert not calls


def standard(n=3000, seed=0):
    """Independent draws with mean exactly 0 and sd exactly 1."""
    x = np.random.default_rng(seed).normal(size=(4, n))
    return (x - x.mean()) / x.std(ddof=1)


@pytest.mark.parametrize("entry, errors", [("mean of x", 1.0), ("log sd of x", 0.5)])
@pytest.mark.parametrize(
    "away, word",
    [(-4.5, "outside"), (-1.5, "inconclusive"), (1.5, "inconclusive"), (4.5, "within")],
)
def test_an_approximation_is_inconclusive_where_three_errors_reach_across_its_bound(
    entry, errors, away, word
):
    # Both moved by exactly .3: shift and log ratio. Their Monte Carlo errors are those
    # of independent normal draws: √(1/n + 1/n), and √(1/2n + 1/2n), n = 12,000.
    theirs, ours = standard(), 0.3 + np.exp(0.3) * standard(seed=1)
    mcse = np.sqrt(errors * 2 / theirs.size)
    if entry == "mean of x":  # The error of the wider draws' mean is wider as well.
        mcse *= np.sqrt((1 + np.exp(0.6)) / 2)
    dims = ("chain", "draw")
    one, two = (xr.Dataset({"x": (dims, a)}) for a in (theirs, ours))
    table = judge(approximate(one, two, 0.3 + away * mcse), PROBLEM).sel(entry=entry)
    assert float(table["error"]) == pytest.approx(0.3, abs=1e-12)
    assert str(table["verdict"].to_numpy()) == word
