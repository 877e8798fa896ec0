"""How fast LCA's solvers reach the optimum, counted in map evaluations, not seconds."""

import jax
import numpy as np
import pytest

from probmetric.data.containers import Labeled, Pairs
from probmetric.inference import lca as inference
from probmetric.inference.lca.recipe import Recipe, fit_labeled
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import LCAParams, LCAPrior, simulate

pytestmark = pytest.mark.usefixtures("x64")
# N, d, p, true σ², seed: the fitted σ² come out near .65, .07 and .09 (maths A8).
SIZES = [(400, 5, 2, 0.65, 3), (600, 8, 3, 0.1, 3), (400, 5, 2, 0.098, 405)]


def problem(N, d, p, sigma2, seed, shift=0.0):
    """Simulated pairs with the sizes and noise of maths A8, and a random start."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * N, d)) + shift
    i = np.arange(N)
    truth = LCAParams(rng.normal(size=(p, d)) / np.sqrt(d) * 1.2, np.log(sigma2))
    pairs = simulate(jax.random.key(seed), truth, Pairs(X, i, i + N, None))
    flat = LCAPrior(np.zeros((p, d)), lam=0.0, b_shape=0.0, b_rate=0.0)
    start = LCAParams(rng.normal(size=(p, d)) * 0.3, np.log(np.array(0.3)))
    return pairs._replace(y=np.asarray(pairs.y)), flat, start


def evaluations_to_the_gap(found, optimum, relative):
    """Evaluations when the trace first comes within ``relative`` of the optimum."""
    trace = np.asarray(found.trace[: int(found.n_steps)])
    near = np.flatnonzero(optimum - trace <= relative * abs(optimum))
    assert near.size, "the gap was never reached"
    per_step = int(found.n_evaluations) / int(found.n_steps)
    return int(np.ceil(per_step * (near[0] + 1)))


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_the_default_solver_needs_few_evaluations(size):
    pairs, flat, start = problem(*size)
    best = inference.fit(pairs, flat, init=start, tol=1e-9)
    found = inference.fit(pairs, flat, init=start, max_steps=200)
    assert found.result == Result.CONVERGED
    optimum = float(best.objective)
    assert optimum - float(found.objective) <= 1e-6 * abs(optimum)
    assert evaluations_to_the_gap(found, optimum, 1e-6) <= 60


@pytest.mark.long
def test_the_seeds_em_is_slower_than_the_reduced_one():
    pairs, flat, start = problem(*SIZES[0])
    best = inference.fit(pairs, flat, init=start, tol=1e-9)
    counts = {
        solver: evaluations_to_the_gap(
            inference.fit(
                pairs, flat, init=start, solver=solver, max_steps=5000, tol=1e-10
            ),
            float(best.objective),
            1e-4,
        )
        for solver in ("em", "full_em")
    }
    assert counts["em"] < counts["full_em"]


@pytest.mark.parametrize("d", [16, 64])
def test_distances_are_converged_at_every_number_of_features(d):
    rng = np.random.default_rng(0)
    codes = np.arange(100) % 4
    X = rng.normal(size=(4, d))[codes] + rng.normal(size=(100, d))
    fits = [
        fit_labeled(
            Labeled(X, codes), Recipe(d, n_refresh=0, tol=tol), 10.0
        ).fit.params.W
        for tol in (None, 1e-12)
    ]
    distances, converged = (np.linalg.norm((X[1:] - X[0]) @ W.T, axis=1) for W in fits)
    np.testing.assert_allclose(distances, converged, rtol=2e-6)
