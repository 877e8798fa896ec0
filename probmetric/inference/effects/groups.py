"""The log joint density of hierarchical LCA, from statistics stacked by group.

The symbols are defined in ``models.hierarchical_lca``. Given the maps W_g and b, each
group is an LCA problem. The statistics of ``lca.statistics`` are therefore computed for
each group and stacked: every array has a leading axis G, and rows are padded by pairs
of weight zero. With ℓ_g of Eq. (2) of ``lca.likelihood`` and W_g = W + ωcE_g,

    log p(y, W, log b, E | ω) = η Σ_g ℓ_g(W_g, b) + log N(W; W₀, c²/λ)
                                + log p(log b) + Σ_g log N(E_g; 0, I).            (1)

In (W, log b, E) this density is bounded at ω = 0, where it is LCA's density times the
prior of E. In the coordinates (W, log b, W_g) the density of W_g is N(W, ω²c²), and the
joint density of (W_g, ω) grows without bound as ω → 0 at W_g = W. A joint mode over ω
is therefore meaningless, and ω is fitted by its marginal density (``effects.fit``).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Pairs, refuse_trials
from probmetric.data.padding import host_weights, pad_rows
from probmetric.inference.lca.likelihood import log_likelihood as lca_likelihood
from probmetric.inference.lca.likelihood import log_prior as lca_prior
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.sampling.target import Arrays
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
)
from probmetric.models.lca import LCAParams, log_b_of
from probmetric.typing import Array, Scalar

type GroupData = tuple[Statistics, HierarchicalLCAPrior, Scalar]
"""Stacked statistics, prior and learning rate."""


def stacked(pairs: Pairs, n_groups: int | None = None) -> Statistics:
    """Return the stacked statistics of the groups; rows are padded to powers of two."""
    refuse_trials(pairs, "hierarchical_lca")
    if pairs.anchor is None:
        raise ValueError("pairs.anchor must be the group of each pair, got None.")
    anchor, w = np.asarray(pairs.anchor), host_weights(pairs)
    least = int(anchor.max()) + 1
    if n_groups is not None and n_groups < least:
        raise ValueError(
            f"n_groups must be at least {least}, the number of groups in "
            f"pairs.anchor, got {n_groups}."
        )
    X, i, j = np.asarray(pairs.X), np.asarray(pairs.i), np.asarray(pairs.j)
    y = None if pairs.y is None else np.asarray(pairs.y)
    groups: list[Statistics] = []
    for group in range(n_groups or least):
        k = np.flatnonzero((anchor == group) & (w > 0))
        inside = Pairs(X, i[k], j[k], None if y is None else y[k], w[k])
        groups.append(prepare(inside, by_points=False))
    size = 1 << max(3, (max(len(stats.w) for stats in groups) - 1).bit_length())
    padded = [
        stats._replace(
            X=pad_rows(stats.X, size),
            w=pad_rows(stats.w, size),
        )
        for stats in groups
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *padded)


def to_params(at: Arrays, prior: HierarchicalLCAPrior) -> HierarchicalLCAParams:
    """Map {W, log_b, E, spread} to parameters; ``spread`` is ω."""
    common = lca_params({"W": at["W"], "log_b": at["log_b"]})
    W_groups = at["W"] + at["spread"] * prior.common.width * at["E"]
    return HierarchicalLCAParams(at["W"], W_groups, common.log_sigma2, at["spread"])


def position(params: HierarchicalLCAParams, prior: HierarchicalLCAPrior) -> Arrays:
    """Map parameters to a position {W, log_b, E}; E is 0 if ω is 0."""
    W, W_groups = np.asarray(params.W), np.asarray(params.W_groups)
    step = float(params.spread) * float(prior.common.width)
    E = (W_groups - W) / step if step else np.zeros_like(W_groups)
    log_b = log_b_of(np.asarray(params.log_sigma2), len(W))
    return {"W": W, "log_b": np.asarray(log_b, W.dtype), "E": E}


def log_likelihood(
    params: HierarchicalLCAParams, stats: Statistics
) -> Float[Array, ""]:
    """Return the log likelihood of the labels of all groups, natural log."""
    log_sigma2 = jnp.broadcast_to(params.log_sigma2, len(params.W_groups))
    groups = LCAParams(params.W_groups, log_sigma2, jnp.ones_like(log_sigma2))
    return jnp.sum(jnp.asarray(jax.vmap(lca_likelihood)(groups, stats)))


def log_joint(
    at: Arrays,
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: Scalar = 1.0,
) -> Scalar:
    """Return the log joint density given ω (Eq. 1), at {W, log_b, E, spread}."""
    params, E = to_params(at, prior), at["E"]
    common = lca_params({"W": at["W"], "log_b": at["log_b"]})
    normal = -0.5 * jnp.sum(E**2) - 0.5 * E.size * np.log(2 * np.pi)
    likelihood = learning_rate * log_likelihood(params, stats)
    return likelihood + lca_prior(common, prior.common) + normal


def objective(at: Arrays, data: tuple[GroupData, Array]) -> Scalar:
    """Return the log joint density, Eq. (1), at {W, log_b, E}; ``data`` includes ω."""
    (stats, prior, rate), spread = data
    return log_joint({**at, "spread": spread}, stats, prior, rate)
