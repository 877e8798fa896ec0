"""The posterior of hierarchical LCA for samplers: stacked by group, log ω free.

Positions are {W, log_b, E, spread} with ``spread`` = log ω, of density

    log p(y, W, log b, E | ω) + log p(ω) + log ω,                                  (1)

the first of Eq. (1) of ``hierarchical_lca.likelihood``. It is that of the NumPyro model
on the real line, at a cost that does not depend on the number of y = 1 pairs. Reported
are M of the common map, M_group, b and the spread.

The likelihood is that of HW_g for any orthogonal H, the priors are not: posteriors of
W and W_g have mirror images of other heights, between which chains need not cross where
maps are well determined (``lca.target``). All chains start at one mode, on the sheet of
W₀; what is said of the other sheets is what they cross to.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import block_diag

from probmetric.inference.hierarchical_lca.evidence import root
from probmetric.inference.hierarchical_lca.fit import SpreadPosterior
from probmetric.inference.hierarchical_lca.likelihood import (
    log_joint,
    log_likelihood,
    log_prior_of_spread,
    to_params,
)
from probmetric.inference.lca.likelihood import log_prior
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.sampling.target import Gaussian, Target
from probmetric.models.hierarchical_lca import identified


def _constrained(at: dict[str, Any]) -> dict[str, Any]:
    return {**at, "spread": jnp.exp(at["spread"])}


def _log_density(at: Any, data: Any) -> Any:
    stats, prior, rate = data
    sites = _constrained(at)
    on_spread = log_prior_of_spread(sites["spread"], prior) + at["spread"]
    return log_joint(sites, stats, prior, rate) + on_spread


def _parts(at: Any, data: Any) -> tuple[dict[str, Any], Any]:
    """Return the log prior of each site, and the log likelihood."""
    stats, prior, rate = data
    sites = _constrained(at)
    params = lca_params({"W": at["W"], "log_b": at["log_b"]})
    flat = (
        {"lam": jnp.zeros_like(prior.common.lam)},
        {"b_shape": jnp.zeros_like(prior.common.b_shape)},
    )
    log_b, W = (
        jnp.asarray(log_prior(params, prior.common._replace(**f))) for f in flat
    )
    E = at["E"]
    return {
        "W": W,
        "log_b": log_b,
        "spread": log_prior_of_spread(sites["spread"], prior),
        "E": -0.5 * jnp.sum(E**2) - 0.5 * E.size * np.log(2 * np.pi),
    }, rate * jnp.asarray(log_likelihood(to_params(sites, prior), stats))


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    return identified(to_params(_constrained(at), data[1]))


TARGET = Target(_log_density, _functionals, _parts)
"""Of positions {W, log_b, E, spread} and data (statistics, prior, learning rate)."""


def start(found: SpreadPosterior) -> Gaussian:
    """Return a Gaussian at the mode of the median spread: where NUTS starts.

    The spread of log ω is that of its grid; it is taken as independent of the rest.
    """
    middle = int(np.searchsorted(np.cumsum(found.probability), 0.5))
    mode = found.modes[middle]
    log = np.log(found.spread)
    mean = found.probability @ log
    sd = np.sqrt(found.probability @ (log - mean) ** 2)
    at = {**mode.at, "spread": np.asarray(log[middle])}
    factors: Any = mode.factors  # There where the probability is.
    R: Any = block_diag(root(factors), max(float(sd), 0.05))
    q, k = len(factors.shared), len(R) - 1
    # Rows of a position by name: E, W, log b, log ω.
    return Gaussian(at, R[np.r_[q:k, :q, k]])
