"""DCA-GM's posterior, by Laplace's approximation, NUTS or a variational guide.

What is sampled are all sites of the model in the whitened coordinates of ``dca_gm``.
What is reported are quantities that the gauge, the tilts, the order of components and
a rotation of the projection leave alone (maths B5): the average Fisher matrix J over
the training points, p(c|x) at points asked for, and the log likelihood. R-hat and
effective sample sizes of anything else mean nothing here.

The labels of different points are independent observations, so at learning rate 1 this
is an ordinary posterior. θ is sampled with A: a θ maximised for each A is no density
(maths B8). Several modes are the rule with more than one component in a class; Laplace
sees one of them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data import weights
from probmetric.inference.dca_gm import (
    Conditioned,
    White,
    from_white,
    to_white,
    white_coordinates,
    white_joint,
)
from probmetric.inference.dca_gm_likelihood import (
    class_log_probability,
    conditional_log_likelihood,
)
from probmetric.inference.sampling_target import Target
from probmetric.linalg import psd_factor
from probmetric.metric import Mahalanobis
from probmetric.metric._class_fisher import mean_fisher
from probmetric.models.dca_gm import (
    DCAGMParams,
    DCAGMSites,
    constrain,
    log_weight,
    unconstrain,
)
from probmetric.typing import Array

__all__ = ["TARGET", "Asked", "metrics", "prepare"]


class Asked(NamedTuple):
    """The data of ``TARGET``: the posterior, where to report p(c|x), input units.

    ``scale`` (d,) are the standard deviations that features were divided by; J is
    reported in input units.
    """

    white: White
    queries: Float[Array, "m d"]
    scale: Float[Array, "d"]


def _log_density(position: DCAGMSites, data: Asked) -> Float[Array, ""]:
    return white_joint(position, data.white)


def _functionals(position: DCAGMSites, data: Asked) -> dict[str, Any]:
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


TARGET = Target(_log_density, _functionals)
"""Positions are whitened ``DCAGMSites``; data are ``Asked``."""


def prepare(
    params: DCAGMParams,
    given: Conditioned,
    *,
    queries: Float[Array, "m d"] | None = None,
    scale: Float[Array, "d"] | None = None,
) -> tuple[DCAGMSites, Asked]:
    """Return a position and the data for ``sample(TARGET, data, start=position)``.

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
    given = jax.tree.map(jnp.asarray, given)
    white = white_coordinates(given)
    X = given.data.X
    asked = Asked(
        white,
        X if queries is None else jnp.asarray(queries),
        jnp.ones(X.shape[1], X.dtype) if scale is None else jnp.asarray(scale),
    )
    begin = jax.tree.map(jnp.asarray, params._replace(fisher=None))
    return to_white(unconstrain(begin), white), asked


def metrics(J: Float[np.ndarray, "s d d"], p: int) -> list[Mahalanobis]:
    """Return one metric a draw of J; ``p`` bounds its rank."""
    with jax.enable_x64(True):
        # J has rank p: the rounding of its d - p zero eigenvalues may be negative.
        factors = jax.vmap(lambda M: psd_factor(M, tol=1e-10))(jnp.asarray(J))
        return [Mahalanobis(L) for L in np.asarray(factors[:, :p])]
