"""LCA's EM, SQUAREM and L-BFGS: monotone, and at modes of the NumPyro density."""

import numpy as np
import pytest

from probmetric.inference import lca as inference
from probmetric.inference.solvers.result import Result
from tests.inference.lca.problem import simulated

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module")
def problem():
    return simulated()


def test_zero_weight_pairs_change_nothing(problem):
    pairs, prior, _ = problem
    padded = pairs._replace(
        i=np.append(pairs.i, [0, 0]),
        j=np.append(pairs.j, [0, 1]),
        y=np.append(pairs.y, [0, 1]),
        w=np.append(pairs.w, [0.0, 0.0]),
    )
    a = inference.fit(pairs, prior)
    b = inference.fit(padded, prior)
    np.testing.assert_allclose(a.params.W, b.params.W, rtol=1e-6, atol=1e-8)


@pytest.mark.long
def test_per_anchor_fit_ascends_and_is_stationary(problem):
    pairs, prior, _ = problem
    pairs = pairs._replace(anchor=np.arange(240) % 6)
    slow = inference.fit(
        pairs, prior, solver="em", per_anchor=True, tol=1e-13, max_steps=5000
    )
    fast = inference.fit(pairs, prior, solver="lbfgs", per_anchor=True, tol=1e-9)
    assert slow.result == Result.CONVERGED
    gains = np.diff(slow.trace[: int(slow.n_steps)])
    assert gains.min() > -1e-12 * abs(float(slow.objective))
    np.testing.assert_allclose(slow.objective, fast.objective, rtol=1e-9)
    np.testing.assert_allclose(slow.params.kappa2, fast.params.kappa2, rtol=1e-3)
