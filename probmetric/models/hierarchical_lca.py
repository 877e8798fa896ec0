"""Hierarchical LCA: a metric for each group of pairs, partially pooled.

Pairs come in groups (subjects, sites, batches), both points of a pair in the same one.
The story, with g = 1..G and ``models.lca`` inside each group:

1.  W ~ N(W₀, c²/λ) entry by entry, the common map; b ~ Gamma(a, r);
2.  ω ~ HalfNormal(s), the *spread*: how far groups lie from each other;
3.  W_g = W + ω c E_g, the entries of E_g standard normal;                         (1)
4.  a pair of group g coincides with probability exp(-t),
    t = b + ‖W_g δ‖²/(2τ²), τ² = 1 + 2σ² = e^{2b/p}.                               (2)

b is common: it is the share of identical points that do not coincide, a property of the
labels; a group whose distances are all larger has a larger W_g.

ω = 0 is LCA, one metric; ω → ∞ is a metric for each group without a common one, where
its prior is flat. c is the size of W₀ = cI, so ω is the prior sd of an entry of W_g
around W in units of the Euclidean map: at ω = 1/√p the part ωcE_g of W_gδ is as long,
in root mean square, as W₀δ. Of a new group E is drawn from its prior.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions.transforms import ExpTransform

from probmetric.data.containers import Pairs, refuse_trials, weights
from probmetric.metric import Mahalanobis
from probmetric.models.lca import (
    Coincidence,
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    log_sigma2_of,
)
from probmetric.models.lca import identified as identified_of
from probmetric.models.lca import to_metric as metric_of
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


class HierarchicalLCAParams(NamedTuple):
    """Maps W (p, d) and W_g (G, p, d), log σ² (), and the spread ω ≥ 0."""

    W: Float[Array, "p d"]
    W_groups: Float[Array, "G p d"]
    log_sigma2: Float[Array, ""]
    spread: Float[Array, ""]


class HierarchicalLCAPrior(NamedTuple):
    """``LCAPrior`` of the common W and of b, with lam > 0; ω ~ HalfNormal(spread).

    The default scale ½ says: with 95 % probability entries of group maps differ from
    the common one by less (in sd) than the entries on the diagonal of W₀ = cI.
    """

    common: LCAPrior
    spread: Float[Array, ""] | float = 0.5


def hierarchical_lca(
    pairs: Pairs,
    prior: HierarchicalLCAPrior,
    *,
    n_groups: int,
    learning_rate: Any = 1.0,
) -> None:
    """Write the generative model of the labels of pairs in groups (NumPyro).

    Sites: ``W`` (p, d), ``log_b`` (), ``spread`` (), ``E`` (G, p, d), ``y``.
    Deterministic: ``M`` (d, d) of the common map, ``M_group`` (G, d, d), ``b``.

    Parameters
    ----------
    pairs : Pairs
        ``anchor`` holds the group of each pair, 0..G-1; ``y=None`` simulates. Data
        weights enter the observation's own distribution.
    prior : HierarchicalLCAPrior
    n_groups : int
        G. Groups without pairs are new groups: their E is drawn from its prior.
    learning_rate : float, default=1
        Power η on the likelihood.
    """
    refuse_trials(pairs, "hierarchical_lca")
    pairs = jax.tree.map(jnp.asarray, pairs)
    common = prior.common
    width = common.width / jnp.sqrt(common.lam)
    W: Any = numpyro.sample("W", dist.Normal(common.mean, width).to_event(2))
    b = dist.Gamma(common.b_shape, common.b_rate)
    log_b: Any = numpyro.sample(
        "log_b", dist.TransformedDistribution(b, ExpTransform().inv)
    )
    spread: Any = numpyro.sample("spread", dist.HalfNormal(prior.spread))
    zero = jnp.zeros((n_groups, *W.shape), W.dtype)
    E: Any = numpyro.sample("E", dist.Normal(zero, 1.0).to_event(3))
    W_groups = W + spread * common.width * E  # Eq. (1)
    sigma2 = jnp.exp(log_sigma2_of(log_b, W.shape[0]))
    numpyro.deterministic("M", W.T @ W / (1 + 2 * sigma2))
    numpyro.deterministic("M_group", W_groups.mT @ W_groups / (1 + 2 * sigma2))
    numpyro.deterministic("b", jnp.exp(log_b))
    with numpyro.plate("pair", len(pairs.i)):
        delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])
        g = jnp.einsum("npd,nd->np", W_groups[pairs.anchor], delta)
        t = coincidence_exponent(jnp.sum(g**2, -1), sigma2, 1.0, W.shape[0])  # Eq. (2)
        y = Coincidence(-t, weights(pairs), learning_rate)
        numpyro.sample("y", y, obs=pairs.y)


@numpy_in_numpy_out
def simulate(key: Any, params: HierarchicalLCAParams, pairs: Pairs) -> Pairs:
    """Draw labels for given pairs in given groups; data weights stay as they are."""
    delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])
    g = jnp.einsum("npd,nd->np", jnp.asarray(params.W_groups)[pairs.anchor], delta)
    sigma2, p = jnp.exp(params.log_sigma2), params.W.shape[0]
    t = coincidence_exponent(jnp.sum(g**2, -1), sigma2, 1.0, p)
    return pairs._replace(y=Coincidence(-t).sample(key))


@numpy_in_numpy_out
def identified(params: HierarchicalLCAParams) -> dict[str, Any]:
    """Return what the likelihood identifies, with the spread, and the common M (d, d).

    ``M_group`` (G, d, d), ``b`` () and ``spread`` ().
    """
    W, eta = params.W_groups, 1 + 2 * jnp.exp(params.log_sigma2)
    common = identified_of(LCAParams(params.W, params.log_sigma2))
    return {**common, "M_group": W.mT @ W / eta, "spread": params.spread}


def to_metric(params: HierarchicalLCAParams, group: int | None = None) -> Mahalanobis:
    """Return the common metric, or that of a group, in units of the link."""
    W = params.W if group is None else params.W_groups[group]
    return metric_of(LCAParams(W, params.log_sigma2))
