"""DCA-GM's posterior, by Laplace's approximation, NUTS or a variational guide.

What is sampled are all sites of the model in the whitened coordinates of
``dca_gm.fit``. What is reported are quantities that the gauge, the tilts, the order of
components and a rotation of the projection leave alone (maths B5): the average Fisher
matrix J over the training points, p(c|x) at points asked for, and the log likelihood.
R-hat and effective sample sizes of anything else mean nothing here.

The labels of different points are independent observations, so at learning rate 1 this
is an ordinary posterior. ``TARGET`` samples the mixtures θ with A. ``TARGET_A`` holds θ
at its mode, an empirical-Bayes posterior of A alone (maths B8): no gauge is left and it
is near a Gaussian, but what is unknown of θ is left out and it is too narrow. A θ
maximised again for each A would be no density. Laplace's approximation serves the
second only: on the toy problem that of (A, θ) has means off by up to 7 posterior
standard deviations and a k-hat of 1, because θ's scale and tilts are held by its priors
alone.
"""

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
from probmetric.inference.sampling.target import Target
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
    """The data of the targets: the posterior, where to report p(c|x), input units.

    ``scale`` (d,) are the standard deviations that features were divided by; J is
    reported in input units. ``mode`` are the whitened sites that ``TARGET_A`` holds.
    """

    white: White
    queries: Float[Array, "m d"]
    scale: Float[Array, "d"]
    mode: DCAGMSites


def _log_density(position: DCAGMSites, data: Asked) -> Float[Array, ""]:
    return white_joint(position, data.white)


def _functionals(position: DCAGMSites, data: Asked) -> dict[str, Array]:
    given = data.white.given
    sites = from_white(position, data.white)
    params = constrain(sites, given.prior.present)
    theta = (log_weight(params), params.mu, params.chol)
    J_y = mean_fisher(given.data.X @ params.A.T, *theta, weights(given.data))
    L = params.A / data.scale
    return {
        "J": L.T @ J_y @ L,
        "class_probability": jnp.exp(class_log_probability(params, data.queries)),
        "log_likelihood": conditional_log_likelihood(params, given.data),
    }


def _parts(
    position: DCAGMSites, data: Asked
) -> tuple[dict[str, Array], Float[Array, ""]]:
    given = data.white.given
    sites = from_white(position, data.white)
    likelihood = conditional_log_likelihood(
        constrain(sites, given.prior.present), given.data
    )
    return log_prior_parts(sites, given.prior), given.learning_rate * likelihood


def _parts_A(
    position: Float[Array, "p d"], data: Asked
) -> tuple[dict[str, Array], Float[Array, ""]]:
    prior, likelihood = _parts(data.mode._replace(A=position), data)
    return {"A": prior["A"]}, likelihood


def _log_density_A(position: Float[Array, "p d"], data: Asked) -> Float[Array, ""]:
    return _log_density(data.mode._replace(A=position), data)


def _functionals_A(position: Float[Array, "p d"], data: Asked) -> dict[str, Array]:
    return _functionals(data.mode._replace(A=position), data)


TARGET = Target(_log_density, _functionals, _parts)
"""Positions are whitened ``DCAGMSites``; data are ``Asked``."""

TARGET_A = Target(_log_density_A, _functionals_A, _parts_A)
"""Positions are whitened A, an array (p, d); data are ``Asked``."""


@numpy_in_numpy_out
def prepare(
    params: DCAGMParams,
    given: Conditioned,
    *,
    queries: Float[Array, "m d"] | None = None,
    scale: Float[Array, "d"] | None = None,
) -> tuple[DCAGMSites, Asked]:
    """Return a position and the data for ``sample(TARGET, data, start=position)``.

    For ``TARGET_A`` start at ``position.A``.

    Parameters
    ----------
    params : DCAGMParams
        Where to start: the mode, as ``fit`` finds it.
    given : Conditioned
        Data, prior and learning rate.
    queries : array of shape (m, d), optional
        Where to report p(c|x). Default: the training points.
    scale : array of shape (d,), optional
        Default: ones.
    """
    X = np.asarray(given.data.X)
    position, white = opening(params._replace(fisher=None), given)
    asked = Asked(
        white,
        X if queries is None else queries,
        np.ones(X.shape[1], X.dtype) if scale is None else scale,
        position,
    )
    return position, asked


def new_classes(
    probability: Float[np.ndarray, "... c"], *, seed: int
) -> Int[np.ndarray, "..."]:
    """Draw a class code by each row of class probabilities."""
    below = np.cumsum(probability, -1)
    u = np.random.default_rng(seed).uniform(size=(*below.shape[:-1], 1))
    return np.sum(u * below[..., -1:] > below, -1).astype(np.int32)


def draws_of_prior(data: Asked, n: int, *, seed: int) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of the prior of all that ``TARGET`` reports."""
    given = data.white.given
    q = data.mode.log_diag.shape[1]
    covariance = "component" if q > 1 else "class"
    with jax.enable_x64(True):
        args = given.data, given.prior
        options = {"covariance": covariance}
        found = prior_draws(dca_gm, args, options, n, seed=seed)
        names = [name for name in DCAGMSites._fields if name in found]
        sites = {name: found[name][0] for name in names}
        reported = _reported(sites, data)
    return {name: np.asarray(value)[None] for name, value in reported.items()}


@jax.jit
def _reported(sites: dict[str, Array], data: Asked) -> dict[str, Array]:
    """Return the functionals at draws (n, ...) of the model's sites."""
    # In one dimension L has no off-diagonal, and NumPyro no site of it.
    none = jnp.zeros((len(sites["A"]), *data.mode.off_diag.shape), sites["A"].dtype)

    def one(sites: DCAGMSites) -> dict[str, Array]:
        return _functionals(to_white(sites, data.white), data)

    return jax.vmap(one)(DCAGMSites(**{"off_diag": none, **sites}))


def metrics(draws: xr.DataTree) -> list[Mahalanobis] | None:
    """Return one metric a draw of J; None where none was drawn.

    The attribute ``n_components`` of draws, where they have it, bounds J's rank. With
    ``prior_share``, w, the metric is M_s, Eq. (1) of ``choice``, in the units of
    ``prior_scale`` (d,), which is 0 for a column that does not vary.
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
    """Return M_s of every draw of J, which is in input units.

    Mixed and factored in the units of ``scale``, as the fit is: in input units entries
    of M differ as the squares of units do, and small ones would be rounding.
    """
    live = scale > 0
    scaled = J * np.outer(scale, scale)
    level = np.trace(scaled, axis1=1, axis2=2) / live.sum()
    mixed = (1 - share) * scaled + share * level[:, None, None] * np.diag(live * 1.0)
    units = np.where(live, scale, 1.0)
    return [Mahalanobis(metric.factor / units) for metric in mahalanobis(mixed)]
