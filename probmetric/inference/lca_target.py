"""LCA's posterior as the samplers see it: the pooled log joint density.

The NumPyro model is per pair; this evaluates the same density (a test holds value and
gradient equal) at a cost that does not depend on the number of y = 1 pairs. Positions
are {W, log_sigma2}; reported are the identified M and b, and the log likelihood.
"""

from typing import Any

import jax.numpy as jnp

from probmetric.data import Pairs
from probmetric.inference.lca_laplace import laplace
from probmetric.inference.lca_likelihood import log_likelihood, objective, to_params
from probmetric.inference.lca_statistics import Statistics, prepare
from probmetric.inference.sampling_target import Gaussian, Target
from probmetric.models.lca import LCAParams, LCAPrior, identified

__all__ = ["TARGET", "start", "target_data"]


def _functionals(position: Any, data: Any) -> dict[str, Any]:
    params = to_params(position)
    return {
        **identified(params),
        "W": params.W,
        "log_sigma2": params.log_sigma2,
        "log_likelihood": log_likelihood(params, data[0]),
    }


TARGET = Target(objective, _functionals)
"""W is stored for its metric; only M, b and the log likelihood are identified."""


def target_data(
    pairs: Pairs, prior: LCAPrior, learning_rate: float
) -> tuple[Statistics, LCAPrior, Any]:
    """Return what ``TARGET`` is evaluated on: statistics, prior, learning rate."""
    stats = prepare(pairs)
    dtype = stats.T.dtype
    prior = LCAPrior(*(jnp.asarray(v, dtype) for v in prior))
    return stats, prior, jnp.asarray(learning_rate, dtype)


def start(params: LCAParams, data: tuple[Statistics, LCAPrior, Any]) -> Gaussian:
    """Return the Laplace approximation at the mode, NUTS's start and mass matrix.

    The whole covariance, rotations included: a prior centred off zero pins them.
    """
    found = laplace(params, *data, quotient=False)
    mode = {
        "W": jnp.asarray(params.W),
        "log_sigma2": jnp.asarray(params.log_sigma2),
    }
    return Gaussian(mode, jnp.asarray(found.root))
