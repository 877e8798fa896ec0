"""The log joint density of hierarchical LCA, from statistics stacked by group.

Symbols as ``models.hierarchical_lca``. Given the maps W_g and b the groups are LCA
problems of their own, so the statistics of ``lca.statistics`` are gathered for each and
stacked: all leaves have G in front, rows padded by pairs of weight zero. With
ℓ_g of Eq. (2) of ``lca.likelihood``, W_g = W + ωcE_g and q = pd + 1,

    log p(y, W, log b, E | ω) = η Σ_g ℓ_g(W_g, b) + log N(W; W₀, c²/λ)
                                + log p(log b) + Σ_g log N(E_g; 0, I).            (1)

In (W, log b, E) it has no end at ω = 0, where it is LCA's and E its prior's. In the
coordinates (W, log b, W_g) instead the density of W_g is N(W, ω²c²), and the joint one
of (W_g, ω) grows without bound as ω → 0 at W_g = W: a joint mode with ω says nothing
about ω. So ω is found by its marginal density (``hierarchical_lca.evidence``).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from probmetric.data.containers import Pairs, refuse_trials
from probmetric.data.padding import host_weights, pad_rows
from probmetric.inference.lca.likelihood import log_likelihood as lca_likelihood
from probmetric.inference.lca.likelihood import log_prior as lca_prior
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
)
from probmetric.models.lca import LCAParams
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


def n_groups_of(pairs: Pairs, n_groups: int | None = None) -> int:
    """Return the number of groups, by default one more than the largest code.

    Raises
    ------
    ValueError
        For pairs without groups; fewer groups than their codes say.
    """
    if pairs.anchor is None:
        raise ValueError("pairs.anchor: expected the group of each pair, got None")
    if n_groups is not None and isinstance(pairs.anchor, Tracer):
        return n_groups
    least = int(np.max(np.asarray(pairs.anchor))) + 1
    if n_groups is not None and n_groups < least:
        raise ValueError(
            f"n_groups: expected at least {least}, one for each group of the pairs, "
            f"got {n_groups}"
        )
    return least if n_groups is None else n_groups


def stacked(pairs: Pairs, n_groups: int | None = None) -> Statistics:
    """Return the statistics of each group, stacked; rows are a power of two.

    Parameters
    ----------
    pairs : Pairs
        With labels y in {0, 1} and groups ``anchor`` in 0..G-1.
    n_groups : int, optional
        G. Default: one more than the largest code.

    Raises
    ------
    ValueError
        For pairs without labels or groups.
    """
    refuse_trials(pairs, "hierarchical_lca")
    n = n_groups_of(pairs, n_groups)
    anchor, w = np.asarray(pairs.anchor), host_weights(pairs)
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    y = None if pairs.y is None else np.asarray(pairs.y)
    found: list[Statistics] = []
    for group in range(n):
        at = np.flatnonzero((anchor == group) & (w > 0))
        own = Pairs(np.asarray(pairs.X), i[at], j[at], None if y is None else y[at])
        found.append(prepare(own._replace(w=w[at]), by_points=False))
    size = 1 << max(3, (max(len(one.w) for one in found) - 1).bit_length())
    padded = [
        one._replace(**{k: pad_rows(getattr(one, k), size) for k in ("X", "same", "w")})
        for one in found
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *padded)


def of_groups(params: HierarchicalLCAParams) -> LCAParams:
    """Return the parameters of LCA of every group, W and log σ² with G in front."""
    xp: Any = np if isinstance(params.W_groups, np.ndarray) else jnp
    log_sigma2 = xp.broadcast_to(params.log_sigma2, len(params.W_groups))
    return LCAParams(params.W_groups, log_sigma2, xp.ones_like(log_sigma2))


def to_params(at: dict[str, Any], prior: HierarchicalLCAPrior) -> HierarchicalLCAParams:
    """Map {W, log_b, E, spread} to parameters; ``spread`` is ω itself."""
    common = lca_params({"W": at["W"], "log_b": at["log_b"]})
    W_groups = at["W"] + at["spread"] * prior.common.width * at["E"]
    return HierarchicalLCAParams(at["W"], W_groups, common.log_sigma2, at["spread"])


@numpy_in_numpy_out
def log_likelihood(
    params: HierarchicalLCAParams, stats: Statistics
) -> Float[Array, ""]:
    """Return the log likelihood of the labels of all groups, natural log."""
    return jnp.sum(jnp.asarray(jax.vmap(lca_likelihood)(of_groups(params), stats)))


def log_joint(
    at: dict[str, Any],
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: Any = 1.0,
) -> Any:
    """Return the log joint density given ω (Eq. 1), of {W, log_b, E, spread}."""
    params, E = to_params(at, prior), at["E"]
    common = lca_params({"W": at["W"], "log_b": at["log_b"]})
    normal = -0.5 * jnp.sum(E**2) - 0.5 * E.size * np.log(2 * np.pi)
    likelihood = learning_rate * log_likelihood(params, stats)
    return likelihood + lca_prior(common, prior.common) + normal


def objective(at: dict[str, Any], data: Any) -> Any:
    """Return Eq. (1) at {W, log_b, E} and data (statistics, prior, η, ω)."""
    stats, prior, rate, spread = data
    return log_joint({**at, "spread": spread}, stats, prior, rate)


def log_prior_of_spread(spread: Any, prior: HierarchicalLCAPrior) -> Any:
    """Return log p(ω), half-normal, for ω ≥ 0: a density of ω."""
    s = prior.spread
    xp: Any = np if isinstance(spread, float | np.ndarray) else jnp
    return 0.5 * np.log(2 / np.pi) - xp.log(s) - 0.5 * (spread / s) ** 2
