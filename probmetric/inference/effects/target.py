"""The posterior of LCA with an effect for samplers: log ω unconstrained.

A position is {W, log_b, E or z, spread} with ``spread`` = log ω. Its log density is

    log p(y, W, log b, effect | ω) + log p(ω) + log ω,                             (1)

where the first term is Eq. (1) of ``effects.groups`` or Eq. (1) of ``effects.points``.
Eq. (1) is the log density of the NumPyro model in unconstrained coordinates. With
groups, its cost does not depend on the number of y = 1 pairs. The reported quantities
are M, b and the spread, and either M_group, or b of each point and of a new point.

The likelihood is invariant to a common rotation H of the maps, the priors are not. The
posterior of W has mirror images of different heights, and chains need not cross
between them if the map is well determined (``lca.target``). All chains start at one
mode, on the sheet of W₀. Other sheets are represented only if chains cross to them.
"""

import jax.numpy as jnp
import numpy as np

from probmetric.inference.effects import groups, points
from probmetric.inference.effects.fit import SpreadPosterior
from probmetric.inference.effects.groups import GroupData
from probmetric.inference.effects.points import PointData
from probmetric.inference.effects.profile import log_half_normal
from probmetric.inference.lca.likelihood import log_priors
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.sampling.target import Arrays, Gaussian, Target
from probmetric.models import hierarchical_lca, point_effects
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.typing import Scalar

type Prior = HierarchicalLCAPrior | PointEffectsPrior


def _constrained(at: Arrays) -> Arrays:
    return {**at, "spread": jnp.exp(at["spread"])}


def _on_spread(at: Arrays, prior: Prior) -> Scalar:
    """Return log p(ω) + log ω."""
    return log_half_normal(jnp.exp(at["spread"]), prior.spread) + at["spread"]


def _log_priors(at: Arrays, name: str, prior: Prior) -> Arrays:
    """Return the log prior density of each site."""
    params = lca_params({"W": at["W"], "log_b": at["log_b"]})
    effect = at[name]
    return {
        **log_priors(params, prior.common),
        "spread": jnp.asarray(log_half_normal(jnp.exp(at["spread"]), prior.spread)),
        name: -0.5 * jnp.sum(effect**2) - 0.5 * effect.size * np.log(2 * np.pi),
    }


def _group_density(at: Arrays, data: GroupData) -> Scalar:
    return groups.log_joint(_constrained(at), *data) + _on_spread(at, data[1])


def _group_parts(at: Arrays, data: GroupData) -> tuple[Arrays, Scalar]:
    stats, prior, rate = data
    params = groups.to_params(_constrained(at), prior)
    likelihood = rate * groups.log_likelihood(params, stats)
    return _log_priors(at, "E", prior), likelihood


def _group_functionals(at: Arrays, data: GroupData) -> Arrays:
    return hierarchical_lca.identified(groups.to_params(_constrained(at), data[1]))


def _point_density(at: Arrays, data: PointData) -> Scalar:
    return points.log_joint(_constrained(at), *data) + _on_spread(at, data[1])


def _point_parts(at: Arrays, data: PointData) -> tuple[Arrays, Scalar]:
    rows, prior = data
    likelihood = points.log_likelihood(_constrained(at), rows)
    return _log_priors(at, "z", prior), likelihood


def _point_functionals(at: Arrays, data: PointData) -> Arrays:
    del data
    return point_effects.identified(points.to_params(_constrained(at)))


GROUP_TARGET = Target(_group_density, _group_functionals, _group_parts)
"""Of positions {W, log_b, E, spread} and data (statistics, prior, learning rate)."""

POINT_TARGET = Target(_point_density, _point_functionals, _point_parts)
"""Of positions {W, log_b, z, spread} and data (rows, prior)."""


def start(posterior: SpreadPosterior) -> Gaussian:
    """Return the Gaussian at the mode given the median spread, as the start of NUTS.

    The standard deviation of log ω is computed on its grid and is at least 0.05. log ω
    is independent of the other coordinates.

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
    >>> posterior = point_effects.spread_posterior(*problem, n_grid=1)
    >>> begin = point_effects.start(posterior)
    >>> sorted(begin.mean), round(float(np.exp(begin.mean["spread"])), 6)
    (['W', 'log_b', 'spread', 'z'], 2.0)
    """
    middle = int(np.searchsorted(np.cumsum(posterior.probability), 0.5))
    mode, log = posterior.modes[middle], np.log(posterior.spread)
    assert mode.factors is not None  # A cell with probability has a mode.
    mean = posterior.probability @ log
    sd = np.sqrt(posterior.probability @ (log - mean) ** 2)
    root = mode.factors.root
    q, m = len(root), mode.at["W"].size
    R = np.zeros((q + 1, q + 1))
    R[:q, :q], R[q, q] = root, max(float(sd), 0.05)
    # Rows of R are (W, log b, effect, log ω); rows of a position are sorted by name.
    (effect,) = mode.at.keys() - {"W", "log_b"}
    rows = {"W": np.arange(m), "log_b": [m], effect: np.arange(m + 1, q), "spread": [q]}
    order = np.concatenate([rows[name] for name in sorted(rows)])
    return Gaussian({**mode.at, "spread": np.asarray(log[middle])}, R[order])
