"""Log posterior density of the two-stage mixture for samplers.

The log density is the log joint density of groups, which EM maximizes. The coordinates
are the unconstrained coordinates of the NumPyro model, with the Jacobians of its
bijections. With W = L Lᵀ and groups of n_i instances with mean x̄_i and residuals e_ij,

    log p(X_i | k) = log N(x̄_i; μ, B + W/n_i) - ½ Σ_j |L⁻¹ e_ij|²
                     - ½ (n_i - 1)(d log 2π + log|W|) - ½ d log n_i,              (1)

with one factorization of B + W/n per distinct size n. The number of instances enters
the cost of a gradient only through the product of the residuals with L⁻¹. (The
coordinates of ``two_stage.groups`` are not used, because they have no derivative at W =
αΣ.)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int
from numpyro import distributions as dist
from numpyro.distributions import constraints

from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import as_groups
from probmetric.densities.gaussian import log_normal, log_peak
from probmetric.inference.mixture.prior import log_beta, log_inverse_wishart, log_prior
from probmetric.inference.sampling.target import Arrays, Target
from probmetric.inference.two_stage.groups import GroupData, group_data
from probmetric.inference.two_stage.groups_missing import (
    GroupRows,
    group_rows,
    log_rows,
)
from probmetric.models.two_stage import (
    TwoStageParams,
    TwoStagePrior,
    invariant,
    proportional,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

_POSITIVE: Any = dist.biject_to(constraints.positive_definite)
_BIJECTIONS: dict[str, Any] = {
    "weights": dist.biject_to(constraints.simplex),
    "between": _POSITIVE,
    "within": _POSITIVE,
    "covariances": _POSITIVE,
    "alpha": dist.biject_to(constraints.unit_interval),
}


class Fitted(NamedTuple):
    """A fit for samplers: data, prior, EM solution, and whether α is fixed.

    If ``prior`` is None, the prior is flat and cannot be sampled. ``alpha`` is the
    fixed share α for single instances, which do not identify α. If ``alpha`` is None, α
    is sampled (``proportional``), or W and B are free.
    """

    data: Points | Pairs | Groups
    prior: TwoStagePrior | None
    params: TwoStageParams
    proportional: bool
    alpha: float | None


class Pooled(NamedTuple):
    """Groups by distinct size: sizes (U,), and the groups of each size."""

    groups: GroupData
    sizes: Float[Array, "U"]
    members: tuple[Int[Array, "_"], ...]


type Data = tuple[Pooled | GroupRows, Any, Array | None]
"""Data of the target: groups, the prior and the fixed α."""


def pack(fitted: Fitted) -> Data:
    """Pack the data of the target: groups, the prior and the fixed α."""
    data = as_groups(fitted.data)
    if np.isnan(np.asarray(data.X)).any():
        groups = group_rows(data)
    else:
        sums = group_data(data)
        sizes, which = np.unique(sums.size, return_inverse=True)
        members = tuple(np.flatnonzero(which == u) for u in range(len(sizes)))
        groups = Pooled(sums, sizes, members)
    alpha = None if fitted.alpha is None else np.asarray(fitted.alpha)
    return groups, fitted.prior, alpha


def _log_pooled(params: TwoStageParams, data: Pooled) -> Float[Array, "G k"]:
    g, d = data.groups, params.means.shape[1]

    def of_component(log_c: Array, mean: Array, W: Array, B: Array) -> Array:
        L = jnp.linalg.cholesky(W)
        e = solve_triangular(L, g.residual.T, lower=True)
        scatter = jax.ops.segment_sum(jnp.sum(e**2, 0), g.owner, len(g.size))
        rest = (g.size - 1) * log_peak(L) - 0.5 * (d * jnp.log(g.size) + scatter)
        roots = jnp.linalg.cholesky(B + W / data.sizes[:, None, None])
        of_mean = jnp.zeros(len(g.size), mean.dtype)
        for root, rows in zip(roots, data.members, strict=True):
            of_mean = of_mean.at[rows].set(log_normal(root, g.mean[rows] - mean))
        return log_c + of_mean + rest

    parts = params.means, params.within, params.between
    return jax.vmap(of_component)(jnp.log(params.weights), *parts).T


@numpy_in_numpy_out
@jax.jit
def log_units(params: TwoStageParams, groups: Pooled | GroupRows) -> Float[Array, "G"]:
    """Compute log p(X_i) of every group."""
    missing = isinstance(groups, GroupRows)
    log_p = log_rows(params, groups) if missing else _log_pooled(params, groups)
    return logsumexp(log_p, -1)


def _params(sites: Arrays, alpha: Array | None) -> TwoStageParams:
    if "within" in sites:
        return TwoStageParams(**sites)
    share = sites.get("alpha", alpha)
    mixture = sites["weights"], sites["means"], sites["covariances"]
    return proportional(*mixture, share)


def _constrained(at: Arrays) -> tuple[Arrays, Array | float]:
    """Compute the model's sites and the log Jacobian of the map to the sites."""
    sites, log_jacobian = dict(at), 0.0
    for name, value in at.items():  # A fixed order; the order of a set may change.
        if name in _BIJECTIONS:
            sites[name] = _BIJECTIONS[name](value)
            log_det = _BIJECTIONS[name].log_abs_det_jacobian(value, sites[name])
            log_jacobian = log_jacobian + jnp.sum(log_det)
    return sites, log_jacobian


@jax.jit
def _unconstrained(sites: Arrays) -> Arrays:
    return {
        name: _BIJECTIONS[name].inv(value) if name in _BIJECTIONS else value
        for name, value in sites.items()
    }


@numpy_in_numpy_out
def position(fitted: Fitted) -> Arrays:
    """Map the EM solution to the unconstrained coordinates of each NumPyro site."""
    p = TwoStageParams(*map(np.asarray, fitted.params))
    sites: Arrays = {"weights": p.weights, "means": p.means}
    if fitted.proportional:
        total = p.within + p.between
        sites["covariances"] = total
        if fitted.alpha is None:
            sites["alpha"] = p.within[0, 0, 0] / total[0, 0, 0]
    else:
        sites |= {"within": p.within, "between": p.between}
    return _unconstrained(sites)


def _log_density(at: Arrays, data: Data) -> Array:
    prior, likelihood = _parts(at, data)
    return _constrained(at)[1] + likelihood + sum(prior.values())


def _parts(at: Arrays, data: Data) -> tuple[Arrays, Array]:
    """Compute the log prior of (c, μ, B or Σ) as one term, and the log likelihood."""
    groups, prior, alpha = data
    sites, _ = _constrained(at)
    params = _params(sites, alpha)
    g = groups if isinstance(groups, GroupRows) else groups.groups
    spread = sites["between" if "within" in sites else "covariances"]
    parts = {"components": log_prior(params.weights, params.means, spread, prior)}
    if "alpha" in sites:
        parts["alpha"] = log_beta(sites["alpha"], prior)
    if "within" in sites:
        df, scale = prior.within_df, prior.within_scale
        of_W = jax.vmap(lambda W: log_inverse_wishart(W, df, scale))
        parts["within"] = jnp.sum(of_W(params.within))
    return parts, g.w @ log_units(params, groups)


def _functionals(at: Arrays, data: Data) -> Arrays:
    sites, _ = _constrained(at)
    params = _params(sites, data[2])
    alpha = {"alpha": sites["alpha"]} if "alpha" in sites else {}
    return {**params._asdict(), **alpha, **invariant(params)}


TARGET = Target(_log_density, _functionals, _parts)
"""Positions are unconstrained sites of the model; data are (groups, prior, α)."""
