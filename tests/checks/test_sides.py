"""Draws that a claim and its wrong forms share."""

import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.sides import stretched


def test_draws_are_made_once_a_problem_and_stretched_about_their_mean():
    asked = []

    @stretched
    def draws(problem: Problem) -> xr.Dataset:
        asked.append(problem.name)
        values = problem.data * np.arange(8.0).reshape(2, 4)
        return xr.Dataset({"a": (("chain", "draw"), values)}, attrs={"method": "svi"})

    one, two = (Problem(f"{k}", None, float(k)) for k in (1, 2))
    plain, wide = draws(one), draws(one, wide=2.0)
    assert asked == ["1"]
    np.testing.assert_array_equal(plain["a"].to_numpy().ravel(), np.arange(8.0))
    np.testing.assert_array_equal(
        wide["a"].to_numpy().ravel(), 2 * np.arange(8.0) - np.mean(np.arange(8.0))
    )
    assert wide.attrs == {"method": "svi"}
    np.testing.assert_array_equal(draws(two)["a"], 2 * plain["a"])
    assert asked == ["1", "2"]
