"""``validate`` counts claims, and cannot be made to say yes by weakness."""

import numpy as np
import pytest
import xarray as xr

from probmetric.checks.check import Check, Problem
from probmetric.checks.own import calibration
from probmetric.checks.uniformity import Ranks
from probmetric.checks.validation import validate
from probmetric.data.containers import Labeled, Points
from probmetric.metric import Mahalanobis
from probmetric.registry import MODELS, ModelSpec


def draws(loc, n, seed=0):
    x = np.random.default_rng(seed).normal(loc, size=(4, n))
    return xr.Dataset({"x": (("chain", "draw"), x)})


def reference_mean(problem):
    return {"mean": problem.data.X.mean(0)}


MEAN = Check(
    "the mean is the sum over n",
    "exact",
    reference_mean,
    lambda problem: {"mean": problem.data.X.sum(0) / len(problem.data.X)},
    {
        "over n - 1": lambda p: {"mean": p.data.X.sum(0) / (len(p.data.X) - 1)},
        "the sum": lambda p: {"mean": p.data.X.sum(0)},
    },
)

DATA = Points(np.arange(1.0, 9.0).reshape(4, 2))


@pytest.mark.parametrize(
    ("shift", "n_reference", "verdict"),
    [(0.9, 3000, "outside"), (0, 50, "inconclusive")],
)
def test_a_khat_excuses_nothing_else(shift, n_reference, verdict):
    check = Check(
        "near",
        "approximate",
        lambda problem: draws(0, n_reference),
        lambda problem: draws(shift, 3000, 1).assign_attrs(khat=2.0),
        bound=0.3,
    )
    found = validate([check], DATA)
    assert (found.judgements[0].verdict, found.unreliable) == (verdict, 0)
    assert found.exit_code == 1


def test_the_rate_of_a_call_is_shared_by_its_tests():
    def sampled(name):
        args = (name, "exact", lambda p: {"x": 0.0}, lambda p: draws(0, 3000))
        return Check(*args, {"c": lambda p: draws(9, 3000)}, layer="sampling")

    alone = validate([sampled("a")], DATA).judgements[0].table.attrs["alpha"]
    both = validate([sampled("a"), MEAN, sampled("b")], DATA, alpha=0.02)
    assert alone == 0.01
    assert [j.table.attrs.get("alpha") for j in both.judgements] == [0.01, None, 0.01]
    with pytest.raises(ValueError, match="alpha must be"):
        validate([MEAN], DATA, alpha=0.0)


def test_the_only_check_of_a_numpyro_model_runs_under_quick(monkeypatch):
    ranks = Ranks({"mu": np.tile(np.arange(40), 10)}, n_draws=39)
    monkeypatch.setattr(calibration, "simulation", lambda *call: lambda *_, **by: ranks)
    result = validate(lambda data: None, DATA, quick=True)
    assert (result.verdict, result.counts.exact) == ("agree", 1)


def toy(seed):
    X = np.random.default_rng(seed).normal(size=(5, 2))
    return Problem(f"toy {seed}", None, Points(X))


SPEC = ModelSpec(
    name="mean",
    data_kind=Points,
    params=tuple,
    model=None,
    simulate=None,
    fit=lambda data: None,
    to_metric=lambda params: None,
    metric_kind=Mahalanobis,
    toy=toy,
    invariants={},
    checks=(MEAN,),
    from_labels=lambda X, y: Problem("labeled", None, Points(X)),
    summary="",
)


def problems_of(found):
    return [j.problem for j in found.judgements]


def test_a_registered_model_is_checked_on_two_simulated_problems_by_its_name(
    monkeypatch,
):
    monkeypatch.setitem(MODELS, "mean", SPEC)
    assert problems_of(validate("mean", seed=3)) == ["toy 3", "toy 4"]
    assert problems_of(validate("mean", seed=3, quick=True)) == ["toy 3"]


def test_data_may_be_problems_or_labeled():
    labeled = Labeled(DATA.X, np.array([0, 1, 0, 1]))
    assert problems_of(validate(SPEC, labeled)) == ["labeled"]
    assert problems_of(validate(SPEC, toy(7))) == ["toy 7"]
    assert problems_of(validate(SPEC, [toy(1), toy(2)])) == ["toy 1", "toy 2"]
