"""The traced L-BFGS: known minima, honest codes, the same under vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, rosen

from probmetric.inference.solvers.lbfgs_traced import minimize as minimize_traced
from probmetric.inference.solvers.result import Result

pytestmark = pytest.mark.usefixtures("x64")


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@jax.jit
def solve(start):
    return minimize_traced(
        jax.value_and_grad(rosenbrock), start, max_steps=200, tol=1e-12
    )


STARTS = np.random.default_rng(0).normal(size=(4, 5))


def test_it_finds_the_minimum_of_rosenbrocks_valley_in_as_few_evaluations_as_scipy():
    for start in STARTS:
        found = solve(start)
        assert int(found.result) == Result.CONVERGED
        # Tolerance: a gap of 1e-12, of a function with curvature ≥ 0.2 there.
        scipy = minimize(rosen, start, method="L-BFGS-B", jac=False)
        assert float(found.value) <= scipy.fun + 1e-10
        assert int(found.n_evaluations) < 150
        trace = np.asarray(found.trace)[: int(found.n_steps)]
        assert np.all(np.diff(trace) <= 1e-12)
        np.testing.assert_allclose(trace[-1], found.value)


@pytest.mark.long
def test_side_by_side_is_one_after_the_other():
    together = jax.vmap(solve)(STARTS)
    for k, start in enumerate(STARTS):
        alone = solve(start)
        np.testing.assert_allclose(together.x[k], alone.x, atol=1e-5)
        assert int(together.result[k]) == Result.CONVERGED


def test_the_estimated_gap_is_that_of_a_quadratic():
    H = jnp.diag(jnp.array([1.0, 4.0, 9.0]))
    quadratic = jax.value_and_grad(lambda x: 0.5 * x @ H @ x)
    found = minimize_traced(quadratic, jnp.ones(3), max_steps=50, tol=1e-8)
    assert int(found.result) == Result.CONVERGED
    assert float(found.value) < 1e-7  # the gap, within ten of its estimate


def test_bad_ends_are_told_by_their_codes():
    short = minimize_traced(
        jax.value_and_grad(rosenbrock), STARTS[0], max_steps=3, tol=1e-12
    )
    assert int(short.result) == Result.MAX_STEPS
    assert int(short.n_steps) == 3
    nowhere = minimize_traced(
        jax.value_and_grad(lambda x: jnp.sum(jnp.log(x))), -jnp.ones(2), max_steps=3,
        tol=1e-12,
    )  # fmt: skip
    assert int(nowhere.result) == Result.NONFINITE


def test_a_step_out_of_the_domain_is_halved():
    def barrier(x):
        return jnp.sum(x - jnp.log(x))  # NaN where x < 0; least at 1

    found = minimize_traced(jax.value_and_grad(barrier), 40 * jnp.ones(2), max_steps=99,
                     tol=1e-10)  # fmt: skip
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
