"""The posterior of LCA with point effects for samplers: log ω free.

Positions are {W, log_b, z, spread} with ``spread`` = log ω, of density

    log p(y, W, log b, z | ω) + log p(ω) + log ω,                                  (1)

the first of Eq. (1) of ``point_effects.likelihood``: that of the NumPyro model on the
real line. Reported are M, b, b of each point and of new ones, and the spread.

The likelihood is that of HW for any orthogonal H, the prior is not: the posterior of W
has mirror images of other heights, between which chains need not cross where the map is
well determined (``lca.target``). All chains start at one mode, on the sheet of W₀.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from probmetric.inference.point_effects.fit import SpreadPosterior
from probmetric.inference.point_effects.likelihood import (
    log_likelihood,
    log_prior,
    log_prior_of_spread,
    to_params,
)
from probmetric.inference.sampling.target import Gaussian, Target
from probmetric.models.point_effects import identified


def _constrained(at: dict[str, Any]) -> dict[str, Any]:
    return {**at, "spread": jnp.exp(at["spread"])}


def _parts(at: Any, data: Any) -> tuple[dict[str, Any], Any]:
    """Return the log prior of each site, and the log likelihood."""
    rows, prior = data
    sites = _constrained(at)
    on_spread = log_prior_of_spread(sites["spread"], prior)
    return {**log_prior(at, prior), "spread": on_spread}, log_likelihood(sites, rows)


def _log_density(at: Any, data: Any) -> Any:
    prior, likelihood = _parts(at, data)
    return sum(prior.values()) + at["spread"] + likelihood  # Eq. (1)


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    del data
    return identified(to_params(_constrained(at)))


TARGET = Target(_log_density, _functionals, _parts)
"""Of positions {W, log_b, z, spread} and data (rows, prior)."""


def start(found: SpreadPosterior) -> Gaussian:
    """Return a Gaussian at the mode of the median spread: where NUTS starts.

    The spread of log ω is that of its grid; it is taken as independent of the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import point_effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> params = point_effects.fit(pairs, prior, spread=2.0).params
    >>> problem = params, point_effects.rows_of(pairs), prior
    >>> found = point_effects.spread_posterior(*problem, n_grid=1)
    >>> begin = point_effects.start(found)
    >>> sorted(begin.mean), round(float(np.exp(begin.mean["spread"])), 6)
    (['W', 'log_b', 'spread', 'z'], 2.0)
    """
    middle = int(np.searchsorted(np.cumsum(found.probability), 0.5))
    mode, log = found.modes[middle], np.log(found.spread)
    sd = np.sqrt(found.probability @ (log - found.probability @ log) ** 2)
    at = {**mode.at, "spread": np.asarray(log[middle])}
    own = mode.root
    m, q = mode.at["W"].size, len(own)
    # Rows of a position by name: W, log b, log ω, z.
    order = np.r_[: m + 1, q, m + 1 : q]
    R = np.zeros((q + 1, q + 1))
    R[:q, :q], R[q, q] = own, max(float(sd), 0.05)
    return Gaussian(at, R[order])
