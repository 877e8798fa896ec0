"""A fit in closed form says that it took no steps, and whether it is a number."""

import numpy as np
import pytest

from probmetric.inference.solvers.result import Fit, Result


@pytest.mark.parametrize(
    "objective, result",
    [(-2.5, Result.CONVERGED), (np.nan, Result.NONFINITE), (np.inf, Result.NONFINITE)],
)
def test_a_closed_fit_converges_where_its_objective_is_finite(objective, result):
    fit = Fit.closed((), np.float32(objective))
    assert (int(fit.result), int(fit.n_steps), fit.trace.size) == (int(result), 0, 0)
    assert fit.objective.dtype == fit.trace.dtype == np.float32
