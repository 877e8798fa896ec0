"""``check_model`` of draws: a right model is adequate; what is wrong is called so."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy.stats import norm

import probmetric as pm
from probmetric.checks.own.criticism import _departure, _predictive

N = 200
X = np.random.default_rng(3).normal(size=(N, 2))


def line(data, width=1.0):
    points, y = data
    w = numpyro.sample("w", dist.Normal(0, width).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", N):
        numpyro.sample("y", dist.Normal(points @ w, s), obs=y)


def verdict(y):
    draws = pm.sample(
        *(line, (X, y)),
        **{"n_draws": 500, "n_chains": 2, "predictive": True, "prior_draws": 1000},
    )
    found = pm.check_model(draws)
    return {p.finding.part: p.verdict for p in found.parts}, str(found)


@pytest.mark.long
def test_each_fault_is_found_in_its_part_and_a_right_model_is_adequate():
    noise = np.random.default_rng(0).normal(size=N)
    right, said = verdict(X @ [1.0, -0.5] + noise)
    assert right == {"prior": "adequate", "predictive": "adequate"}
    assert said.startswith("line against its data: adequate")
    far, _ = verdict(X @ [15.0, 0.0] + noise)
    assert far == {"prior": "conflict", "predictive": "adequate"}
    bent, said = verdict(X @ [1.0, -0.5] + 2 * X[:, 0] ** 2 - 2 + noise)
    assert bent["predictive"] == "conflict"
    assert "Data simulated from the model differ from y" in said


def test_groups_that_are_not_there_are_asked_for_by_the_arguments_that_store_them():
    noisy = X[:, 0] + X[::-1, 1]
    draws = pm.sample(line, (X, noisy), method="laplace", n_draws=50, n_chains=1)
    with pytest.raises(ValueError, match="Sample with prior_draws=1000, predictive=T"):
        pm.check_model(draws)
    with pytest.raises(ValueError, match="fit must be a fitted learner"):
        pm.check_model(X)


def test_a_number_of_which_the_data_say_little_is_no_conflict():
    rng = np.random.default_rng(2)
    vague, sharp = rng.normal(-1.0, 1.1, 4000), rng.normal(-3.5, 0.2, 4000)
    assert abs(_departure(vague)) < 2
    assert _departure(sharp) < -3.3
    assert _departure(np.array([0.5, 1.5])) == pytest.approx(1 / np.sqrt(1 - 0.25))


def test_a_wrong_spread_is_a_quarter_of_the_excess_of_squares():
    """Observations ±3 and ±1 of standard normal numbers: (5 - 1) / 4 = 1."""
    z = norm.ppf((np.arange(99) + 0.5) / 99)
    drawn = np.random.default_rng(0).permuted(np.tile(z / z.std(), (20, 1)), axis=1).T
    groups = {
        "observed_data": xr.Dataset(
            {"y": ("n", np.resize([3.0, -3.0, 1.0, -1.0], 20))}
        ),
        "posterior_predictive": xr.Dataset(
            {"y": (("chain", "draw", "n"), drawn[None])}
        ),
    }
    found = _predictive(xr.DataTree.from_dict(groups), "y")
    assert found.size == pytest.approx(1)
    assert found.p_value == 1 / 100
