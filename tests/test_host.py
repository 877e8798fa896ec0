"""Little algebra has the values of one program whether NumPy computes it or JAX."""

from functools import partial

import jax
import numpy as np
import pytest

from probmetric.inference.dca_gm import likelihood
from probmetric.inference.gaussian_classes import posterior as posteriors
from probmetric.inference.gaussian_classes.local_metric import student_metric
from probmetric.linalg import cholesky_of
from probmetric.models import dca_gm as story
from probmetric.models.gaussian_classes import NIWPrior, to_densities

RNG = np.random.default_rng(0)
C, K, P, D = 3, 2, 2, 4


def spd(*shape):
    A = RNG.normal(size=(*shape, shape[-1] + 2))
    return A @ np.swapaxes(A, -1, -2)


PRIOR = NIWPrior(RNG.normal(size=D), spd(D), *np.array([0.7, D + 1.5, 1.3]))
STATS = posteriors.ClassStatistics(
    np.array([5.0, 0.0, 9.0]), RNG.normal(size=(C, D)), spd(C, D)
)
POST = posteriors.posterior(STATS, PRIOR)
SEVERAL = jax.tree.map(lambda a: np.stack([a, 1.1 * a]), POST)
PARAMS = story.DCAGMParams(
    RNG.normal(size=(P, D)),
    np.log([0.2, 0.3, 0.5]),
    np.log([[0.4, 0.6], [1.0, 1e-300], [0.9, 0.1]]),
    RNG.normal(size=(C, K, P)),
    np.linalg.cholesky(spd(C, K, P)),
    fisher=spd(P),
)
SITES = story.unconstrain(PARAMS)
PRESENT = np.array([[True, True], [True, False], [True, True]])

CASES = {
    "posterior": (posteriors.posterior, STATS, PRIOR),
    "tied": (
        partial(posteriors.posterior, covariance="tied"),
        STATS,
        PRIOR,
    ),
    "evidence": (posteriors.log_evidence, STATS, PRIOR),
    "diagonal evidence": (
        partial(posteriors.log_evidence, covariance="diagonal"),
        STATS,
        PRIOR,
    ),
    "mean": (posteriors.posterior_mean, POST),
    "mean of several": (posteriors.posterior_mean, SEVERAL),
    "student": (student_metric, POST),
    "student of several": (student_metric, SEVERAL),
    "densities": (to_densities, posteriors.posterior_mean(POST)),
    "constrain": (story.constrain, SITES, PRESENT),
    "unconstrain": (story.unconstrain, PARAMS),
    "gauge": (likelihood.apply_gauge, PARAMS, RNG.normal(size=(P, P))),
    "fixed gauge": (likelihood.fix_gauge, PARAMS),
    "metric": (story.to_metric, PARAMS),
    "subspace": (partial(story.to_metric, kind="subspace"), PARAMS),
}


def with_nan(args):
    """Return the arguments with NaN in the last entry of the last array of numbers."""
    leaves, tree = jax.tree.flatten(args)
    at = max(k for k, leaf in enumerate(leaves) if leaf.dtype.kind == "f")
    leaves[at] = leaves[at].copy()
    leaves[at].flat[-1] = np.nan
    return jax.tree.unflatten(tree, leaves)


def in_float32(args):
    narrow = {"f": np.float32}
    return jax.tree.map(lambda a: a.astype(narrow.get(a.dtype.kind, a.dtype)), args)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_numpy_computes_what_a_program_does(name):
    function, *args = CASES[name]
    program = jax.jit(function)
    for given in (args, with_nan(args)):
        with jax.enable_x64(True):
            wanted = jax.tree.leaves(program(*given))
        found = jax.tree.leaves(function(*given))
        for value, other in zip(found, wanted, strict=True):
            assert type(value) is np.ndarray
            assert value.dtype == other.dtype
            np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-12)
    narrow = in_float32(args)
    for value in jax.tree.leaves(function(*narrow)):
        assert value.dtype != np.float64
        assert not any(np.shares_memory(value, a) for a in jax.tree.leaves(narrow))


def test_a_constant_of_a_callers_program_is_part_of_it():
    mean = jax.jit(lambda k: posteriors.posterior_mean(POST).mean[k])(1)
    np.testing.assert_allclose(mean, POST.mean[1], rtol=1e-6)


def test_numpys_factor_is_that_of_the_mean_of_both_triangles_or_an_error():
    S = np.array([[4.0, 1.0], [3.0, 9.0]])
    L = cholesky_of(np, S)
    np.testing.assert_allclose(L @ L.T, (S + S.T) / 2, rtol=1e-15)
    with pytest.raises(np.linalg.LinAlgError):
        cholesky_of(np, np.array([[1.0, 0.0], [0.0, np.nan]]))
