"""The posterior of LCA with an effect for samplers: log ω unconstrained.

A position is {W, log_b, E or z, spread} with ``spread`` = log ω. Its log density is

    log p(y, W, log b, effect | ω) + log p(ω) + log ω,                             (1)

where the first term is Eq. (1) of ``effects.groups`` or Eq. (1) of ``effects.points``.
Eq. (1) is the log density of the NumPyro model in unconstrained coordinates. With
groups, its cost does not depend on the number of y = 1 pairs. The reported quantities
are M, b and the spread, and either M_group, or b of each point and of a new point.

The likelihood is invariant to a common rotation H of the maps, but the priors are not.
The posterior of W therefore has several modes, which are mirror images of different
heights. If the map is well determined, chains may not move between the modes
(``lca.target``). All chains start at one mode, on the side of W₀. The draws represent
other modes only if chains move to them.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from probmetric.inference.effects import groups, points
from probmetric.inference.effects.profile import log_half_normal
from probmetric.inference.lca.likelihood import log_priors
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.sampling.target import Arrays, Target
from probmetric.models import hierarchical_lca, point_effects
from probmetric.typing import Scalar


def _target(
    effect: str,
    log_joint: Callable[[Arrays, Any], Scalar],
    log_likelihood: Callable[[Arrays, Any], Scalar],
    identified: Callable[[Arrays, Any], Arrays],
) -> Target:
    """Return the target of functions of {W, log_b, effect, spread = ω} and the data."""

    def constrained(at: Arrays) -> Arrays:
        return {**at, "spread": jnp.exp(at["spread"])}

    def density(at: Arrays, data: Any) -> Scalar:
        on_spread = log_half_normal(jnp.exp(at["spread"]), data[1].spread)
        return log_joint(constrained(at), data) + on_spread + at["spread"]

    def functionals(at: Arrays, data: Any) -> Arrays:
        return identified(constrained(at), data)

    def parts(at: Arrays, data: Any) -> tuple[Arrays, Scalar]:
        params, value = lca_params({"W": at["W"], "log_b": at["log_b"]}), at[effect]
        on_spread = log_half_normal(jnp.exp(at["spread"]), data[1].spread)
        priors = {
            **log_priors(params, data[1].common),
            "spread": jnp.asarray(on_spread),
            effect: -0.5 * jnp.sum(value**2) - 0.5 * value.size * np.log(2 * np.pi),
        }
        return priors, log_likelihood(constrained(at), data)

    density.__qualname__ = f"effects_density_{effect}"  # Checkpoints compare the name.
    return Target(density, functionals, parts)


GROUP_TARGET = _target(
    "E",
    lambda at, data: groups.log_joint(at, *data),
    lambda at, data: (
        data[2] * groups.log_likelihood(groups.to_params(at, data[1]), data[0])
    ),
    lambda at, data: hierarchical_lca.identified(groups.to_params(at, data[1])),
)
"""Target with positions {W, log_b, E, spread} and data (statistics, prior, rate)."""

POINT_TARGET = _target(
    "z",
    lambda at, data: points.log_joint(at, *data),
    lambda at, data: points.log_likelihood(at, data[0]),
    lambda at, data: point_effects.identified(points.to_params(at)),
)
"""Target with positions {W, log_b, z, spread} and data (rows, prior)."""
