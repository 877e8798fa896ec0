"""DCA-GM's posterior, by Laplace's approximation, NUTS or a variational guide.

The sampler draws all NumPyro sites in the whitened coordinates of ``dca_gm.fit``. The
reported quantities do not depend on the gauge and the tilts (``dca_gm.likelihood``),
the order of components, or a rotation of the projection. They are the average Fisher
matrix J over the training points, p(c|x) at query points, and the log likelihood. R-hat
and effective sample sizes are meaningful only for these quantities.

The labels of different points are independent observations. At learning rate 1, the
target is therefore an ordinary posterior. ``TARGET`` samples the mixtures θ with A.
``TARGET_A`` samples only A and fixes θ at its mode, which is empirical Bayes. The
posterior of A given θ has no gauge freedom and is nearly Gaussian. But this posterior
is too narrow, because it ignores the uncertainty of θ. (Maximizing over θ for each A
would not give a density.) Laplace's approximation supports only ``TARGET_A``. For (A,
θ) it is inaccurate, because only the priors determine the scale and the tilts of θ.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from probmetric.data.containers import weights
from probmetric.inference.dca_gm.fit import (
    Conditioned,
    White,
    from_white,
    log_prior_parts,
    opening,
    to_white,
    white_joint,
)
from probmetric.inference.dca_gm.likelihood import (
    class_log_probability,
    conditional_log_likelihood,
)
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.sampling.predictive import prior_draws
from probmetric.inference.sampling.target import Call, Target
from probmetric.metric import Mahalanobis
from probmetric.metric.fisher import mean_fisher
from probmetric.models.dca_gm import (
    DCAGMParams,
    DCAGMSites,
    constrain,
    dca_gm,
    log_weight,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


class Asked(NamedTuple):
    """Data of the targets: the posterior, and query points at which to report p(c|x).

    ``queries`` are in input units. ``scale`` are the standard deviations of the
    features, which convert J to input units. ``mode`` has the whitened sites that
    ``TARGET_A`` fixes.
    """

    white: White
    queries: Float[Array, "m d"]
    scale: Float[Array, "d"]
    mode: DCAGMSites


def _log_density(position: DCAGMSites, data: Asked) -> Float[Array, ""]:
    return white_joint(position, data.white)


def _functionals(position: DCAGMSites, data: Asked) -> dict[str, Array]:
    conditioned = data.white.given
    sites = from_white(position, data.white)
    params = constrain(sites, conditioned.prior.present)
    theta = (log_weight(params), params.mu, params.chol)
    J_y = mean_fisher(
        conditioned.data.X @ params.A.T, *theta, weights(conditioned.data)
    )
    L = params.A / data.scale
    return {
        "J": L.T @ J_y @ L,
        "class_probability": jnp.exp(class_log_probability(params, data.queries)),
        "log_likelihood": conditional_log_likelihood(params, conditioned.data),
    }


def _parts(
    position: DCAGMSites, data: Asked
) -> tuple[dict[str, Array], Float[Array, ""]]:
    conditioned = data.white.given
    sites = from_white(position, data.white)
    likelihood = conditional_log_likelihood(
        constrain(sites, conditioned.prior.present), conditioned.data
    )
    return log_prior_parts(
        sites, conditioned.prior
    ), conditioned.learning_rate * likelihood


def _of_A[T](
    function: Callable[[DCAGMSites, Asked], T],
) -> Callable[[Float[Array, "p d"], Asked], T]:
    return lambda A, data: function(data.mode._replace(A=A), data)


def _parts_A(
    A: Float[Array, "p d"], data: Asked
) -> tuple[dict[str, Array], Float[Array, ""]]:
    prior, likelihood = _of_A(_parts)(A, data)
    return {"A": prior["A"]}, likelihood


TARGET = Target(_log_density, _functionals, _parts)
"""Positions are whitened ``DCAGMSites``; data are ``Asked``."""

TARGET_A = Target(_of_A(_log_density), _of_A(_functionals), _parts_A)
"""Positions are whitened A, an array (p, d); data are ``Asked``."""


@numpy_in_numpy_out
def prepare(
    params: DCAGMParams,
    given: Conditioned,
    *,
    queries: Float[Array, "m d"] | None = None,
    scale: Float[Array, "d"] | None = None,
) -> tuple[DCAGMSites, Asked]:
    """Make the start (``position.A`` for ``TARGET_A``) and the data of the targets.

    The default queries are the training points, and the default scale is 1 per feature.
    """
    X = np.asarray(given.data.X)
    position, white = opening(params._replace(fisher=None), given)
    return position, Asked(
        white,
        X if queries is None else queries,
        np.ones(X.shape[1], X.dtype) if scale is None else scale,
        position,
    )


def new_classes(
    probability: Float[np.ndarray, "... c"], *, seed: int
) -> Int[np.ndarray, "..."]:
    """Draw a class code from each row of class probabilities."""
    below = np.cumsum(probability, -1)
    u = np.random.default_rng(seed).uniform(size=(*below.shape[:-1], 1))
    return np.sum(u * below[..., -1:] > below, -1).astype(np.int32)


def draws_of_prior(data: Asked, n: int, *, seed: int) -> dict[str, np.ndarray]:
    """Draw all quantities that ``TARGET`` reports from the prior, shape (1, n, ...)."""
    conditioned = data.white.given
    q = data.mode.log_diag.shape[1]
    covariance = "component" if q > 1 else "class"
    with jax.enable_x64(True):
        args = conditioned.data, conditioned.prior
        options = {"covariance": covariance}
        drawn = prior_draws(Call(dca_gm, args, options), n, seed=seed)
        sites = {name: v[0] for name, v in drawn.items() if name in DCAGMSites._fields}
        reported = _reported(sites, data)
    return {name: np.asarray(value)[None] for name, value in reported.items()}


@jax.jit
def _reported(sites: dict[str, Array], data: Asked) -> dict[str, Array]:
    """Compute the functionals at draws (n, ...) of the model's sites."""
    # In one dimension L has no off-diagonal, and NumPyro has no such site.
    none = jnp.zeros((len(sites["A"]), *data.mode.off_diag.shape), sites["A"].dtype)

    def functionals(sites: DCAGMSites) -> dict[str, Array]:
        return _functionals(to_white(sites, data.white), data)

    return jax.vmap(functionals)(DCAGMSites(**{"off_diag": none, **sites}))


def metrics(draws: xr.DataTree) -> list[Mahalanobis] | None:
    """Make one metric per draw of J; None if the draws have no J.

    Two attributes of ``draws`` are optional. ``n_components`` limits the rank of J.
    With ``prior_share`` w, the metric is M_s, Eq. (1) of ``choice``, in units of
    ``prior_scale`` (0 for constant columns).
    """
    values = joined(draws)
    if "J" not in values:
        return None
    share = float(draws.attrs.get("prior_share", 0.0))
    if share > 0:
        scale = np.atleast_1d(np.asarray(draws.attrs["prior_scale"], float))
        return _mixed(values["J"], share, scale)
    rank = draws.attrs.get("n_components")
    return mahalanobis(values["J"], rank=None if rank is None else int(rank))


def _mixed(
    J: Float[np.ndarray, "s d d"], share: float, scale: Float[np.ndarray, "d"]
) -> list[Mahalanobis]:
    """Compute M_s for every draw of J (in input units), in the units of ``scale``."""
    live = scale > 0
    scaled = J * np.outer(scale, scale)
    level = np.trace(scaled, axis1=1, axis2=2) / live.sum()
    mixed = (1 - share) * scaled + share * level[:, None, None] * np.diag(live * 1.0)
    units = np.where(live, scale, 1.0)
    return [Mahalanobis(metric.factor / units) for metric in mahalanobis(mixed)]
