"""Problems shared by LCA's tests: simulated pairs, and the NumPyro density."""

import jax
import numpy as np

from probmetric.data.containers import Pairs
from probmetric.models.lca import LCAParams, LCAPrior, simulate


def flat_prior(W):
    return LCAPrior(np.zeros_like(W), lam=0.0, b_shape=0.0, b_rate=0.0)


def simulated():
    """A simulated problem: 80 points, 240 pairs, p = d = 3, true W and σ²."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 3)) + 2.0
    i, j = rng.integers(0, 80, (2, 240))
    truth = LCAParams(
        np.array([[1.0, 0.2, 0.0], [0.0, 0.8, -0.3], [0.2, 0.0, 0.4]]), np.array(-1.5)
    )
    with jax.enable_x64(True):
        pairs = simulate(jax.random.key(3), truth, Pairs(X, i, j, None))
        pairs = pairs._replace(w=rng.uniform(0.5, 1.5, 240), y=np.asarray(pairs.y))
    prior = LCAPrior(0.6 * np.eye(3), c=0.6, lam=4.0)
    return pairs, prior, truth
