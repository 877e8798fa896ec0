"""Hierarchical LCA: a metric for each group of pairs, partially pooled.

Pairs are in groups (subjects, sites, batches). Both points of a pair are in one group.
The model, with g = 1..G and ``models.lca`` inside each group:

1.  the common linear map W ~ N(W₀, c²/λ) entry by entry; the intercept b ~ Gamma(a, r);
2.  ω ~ HalfNormal(s), the *spread* between groups;
3.  W_g = W + ω c E_g, the entries of E_g standard normal;                         (1)
4.  a pair of group g with difference δ coincides with probability exp(-t),
    t = b + ‖W_g δ‖²/(2τ²), τ² = 1 + 2σ² = e^{2b/p}.                               (2)

b is common to all groups, because it describes the labels of identical points. If all
distances of a group are larger, its W_g is larger.

With ω → ∞, each group has a separate metric with a flat prior. At ω = 1/√p the term
ωcE_gδ of W_gδ has the same root mean square length as W₀δ, where W₀ = cI. E of a new
group is drawn from its prior.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.data.containers import Pairs, checked_rows, refuse_trials, weights
from probmetric.metric import Mahalanobis
from probmetric.models._sample import sample
from probmetric.models.distributions import drawn
from probmetric.models.lca import (
    Coincidence,
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    sample_common,
)
from probmetric.models.lca import identified as identified_of
from probmetric.models.lca import to_metric as metric_of
from probmetric.precision import numpy_in_numpy_out, on_host, one_program
from probmetric.typing import Array, Numeric

__all__ = [
    "HierarchicalLCAParams",
    "HierarchicalLCAPrior",
    "hierarchical_lca",
    "simulate",
    "to_metric",
]


class HierarchicalLCAParams(NamedTuple):
    """Common linear map, maps of G groups, latent noise, and spread of the groups.

    ``W`` (p, d) is the common map, and ``W_groups`` (G, p, d) are the maps of groups.
    ``log_sigma2`` is the log variance of the latent noise. ``spread`` ≥ 0 is the
    standard deviation of an entry of a group's map around W, in units of the prior
    scale of W.
    """

    W: Float[Array, "p d"]
    W_groups: Float[Array, "G p d"]
    log_sigma2: Float[Array, ""]
    spread: Float[Array, ""]


class HierarchicalLCAPrior(NamedTuple):
    """Prior of the common map and of the differences between groups.

    ``common`` is the ``LCAPrior`` of the common linear map W and of the intercept b,
    with ``lam`` > 0. An entry of a group's map has standard deviation ωc around W,
    where c is ``common.c``. The spread ω is half-normal with scale ``spread``. By
    default, ω < 1 with 95% probability.
    """

    common: LCAPrior
    spread: Float[Array, ""] | float = 0.5


def hierarchical_lca(
    pairs: Pairs,
    prior: HierarchicalLCAPrior,
    *,
    n_groups: int,
    learning_rate: Numeric = 1.0,
) -> None:
    """Define the generative model of the labels of pairs in groups (NumPyro).

    The named variables (NumPyro sites) are:

    * ``W`` (p, d), the common linear map.
    * ``log_b`` (), the log of the intercept b = -log P(same) of identical points.
    * ``spread`` () and ``E`` (G, p, d): the map of group g is W + ``spread`` · c · E_g,
      where c is ``prior.common.c``.
    * ``y``, the labels.
    * Computed from the others: the matrices ``M`` (d, d) of the common metric and
      ``M_group`` (G, d, d) of the groups, and ``b``.

    Parameters
    ----------
    pairs : Pairs
        ``anchor`` is the group of each pair, 0..G-1.
    prior : HierarchicalLCAPrior
    n_groups : int
        Number G of groups. A group without pairs is a new group: its map is drawn from
        the distribution of maps around W.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> i, prior = jnp.array([0]), HierarchicalLCAPrior(LCAPrior(jnp.eye(2)))
    >>> pairs = Pairs(jnp.eye(2), i, i + 1, y=None, anchor=i)
    >>> sample = Predictive(hierarchical_lca, num_samples=3)
    >>> sample(jax.random.key(0), pairs, prior, n_groups=4)["M_group"].shape
    (3, 4, 2, 2)
    """
    refuse_trials(pairs, "hierarchical_lca")
    pairs = jax.tree.map(jnp.asarray, pairs)
    W, _, sigma2 = sample_common(prior.common)
    spread = sample("spread", dist.HalfNormal(prior.spread))
    zero = jnp.zeros((n_groups, *W.shape), W.dtype)
    E = sample("E", dist.Normal(zero, 1.0).to_event(3))
    W_groups = W + spread * prior.common.width * E  # Eq. (1)
    numpyro.deterministic("M_group", W_groups.mT @ W_groups / (1 + 2 * sigma2))
    with numpyro.plate("pair", len(pairs.i)):
        delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])
        g = jnp.einsum("npd,nd->np", W_groups[pairs.anchor], delta)
        t = coincidence_exponent(jnp.sum(g**2, -1), sigma2, 1.0, W.shape[0])  # Eq. (2)
        sample("y", Coincidence(-t, weights(pairs), learning_rate), obs=pairs.y)


@numpy_in_numpy_out
def simulate(key: jax.Array, params: HierarchicalLCAParams, pairs: Pairs) -> Pairs:
    """Simulate labels for the same pairs and groups, with the same data weights.

    Examples
    --------
    >>> W, i = jnp.eye(1), jnp.array([0, 0])
    >>> params = HierarchicalLCAParams(W, jnp.stack([0 * W, W]), jnp.log(1e-12), 1.0)
    >>> X, group = jnp.array([[0.0], [9.0]]), jnp.array([0, 1])
    >>> pairs = Pairs(X, i, i + 1, y=None, anchor=group)
    >>> simulate(jax.random.key(0), params, pairs).y.tolist()  # P: 1 and e^{-40.5}
    [1, 0]
    """
    pairs = checked_rows(pairs)
    rows = pairs.X[pairs.i], pairs.X[pairs.j]
    log_p = on_host(_log_probability(params, *rows, pairs.anchor))
    return pairs._replace(y=drawn(Coincidence(log_p), key))


@one_program
def _log_probability(
    params: HierarchicalLCAParams, A: Array, B: Array, group: Array | None
) -> Array:
    W = jnp.asarray(params.W_groups)[group]
    g = jnp.einsum("npd,nd->np", W, jnp.subtract(A, B))
    sigma2, p = jnp.exp(params.log_sigma2), params.W.shape[0]
    return -coincidence_exponent(jnp.sum(g**2, -1), sigma2, 1.0, p)


@numpy_in_numpy_out
def identified(params: HierarchicalLCAParams) -> dict[str, Array]:
    """Return M, ``M_group`` (G, d, d), b and the spread."""
    W, eta = params.W_groups, 1 + 2 * jnp.exp(params.log_sigma2)
    common = identified_of(LCAParams(params.W, params.log_sigma2))
    return {**common, "M_group": W.mT @ W / eta, "spread": params.spread}


def to_metric(params: HierarchicalLCAParams, group: int | None = None) -> Mahalanobis:
    """Return the metric of a group, or by default the common metric.

    At distance D, P(same) is exp(-(b + D²/2)), with one intercept b for all groups.

    Examples
    --------
    >>> W = jnp.eye(1)
    >>> params = HierarchicalLCAParams(W, jnp.stack([W, 2 * W]), jnp.log(1.5), 0.5)
    >>> round(float(to_metric(params, group=1).factor[0, 0]), 4)  # 2/√(1 + 3)
    1.0
    """
    W = params.W if group is None else params.W_groups[group]
    return metric_of(LCAParams(W, params.log_sigma2))
