"""LCA's posterior density for samplers: the pooled log joint density.

The NumPyro model is per pair; this evaluates the same density (a test holds value and
gradient equal) at a cost that does not depend on the number of y = 1 pairs. Positions
are {W, log_sigma2}; reported is what the likelihood identifies: M, b and log σ².
"""

from typing import Any

import numpy as np

from probmetric.data.containers import Pairs
from probmetric.inference.lca.laplace import laplace
from probmetric.inference.lca.likelihood import objective, to_params
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.sampling.target import Gaussian, Target
from probmetric.models.lca import LCAParams, LCAPrior, identified


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    return {**identified(to_params(at)), "log_sigma2": at["log_sigma2"]}


TARGET = Target(objective, _functionals)
"""Of positions {W, log_sigma2} and data (statistics, prior, learning rate)."""


def target_data(
    pairs: Pairs, prior: LCAPrior, learning_rate: float
) -> tuple[Statistics, LCAPrior, Any]:
    """Return what ``TARGET`` is evaluated on: statistics, prior, learning rate."""
    stats = prepare(pairs)
    dtype = stats.T.dtype
    prior = LCAPrior(*(np.asarray(v, dtype) for v in prior))
    return stats, prior, np.asarray(learning_rate, dtype)


def start(
    params: LCAParams,
    data: tuple[Statistics, LCAPrior, Any],
    *,
    quotient: bool = False,
) -> Gaussian:
    """Return the Laplace approximation at the mode.

    By default the whole covariance, rotations included, for NUTS's start and mass
    matrix: a prior centred off zero pins them. With ``quotient`` the rotations are
    left out (``lca.laplace``), for draws.
    """
    found = laplace(params, *data, quotient=quotient)
    return Gaussian(position(params), found.root)


def position(params: LCAParams) -> dict[str, Any]:
    """Return parameters as a position of ``TARGET``."""
    return {"W": np.asarray(params.W), "log_sigma2": np.asarray(params.log_sigma2)}
