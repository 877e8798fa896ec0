"""Generalized dissimilarity model (GDM): dissimilarity of two sites by covariates.

The similarity of two sites x, x' with d covariates is the probability that both sites
share a randomly drawn unit. A unit is a species under Sørensen's index, and an
individual under the Bray-Curtis index. The curve s_f of covariate f is monotone: the
sum of I-splines I_fk with heights θ_fk ≥ 0 (``metric.splines``). With b ≥ 0 as the
intercept,

    log P(shared) = -t,    t = b + Σ_f |s_f(x_f) - s_f(x'_f)|                       (1)
                             = b + Σ_fk θ_fk |I_fk(x_f) - I_fk(x'_f)|,             (2)

because the splines of a curve all change in the same direction. The number y of shared
units among m units is binomial:

    log p(y) = log C(m, y) - y t + (m - y) log(1 - e^{-t}).                         (3)

t is linear in (b, θ), so the log likelihood, Eq. (3), is concave in (b, θ). θ and b
have half-normal priors. With ``coordinates``, t also has the term Σ_k θ_Dk
I_k(geographic distance), with the last row of θ and of the knots.

The units of a pair are not independent given t, and pairs share sites. The posterior
under Eq. (3) is therefore too narrow, and ``inference.gdm`` resamples sites.

References
----------
Ferrier, Manion, Elith and Richardson, Diversity and Distributions 13 (2007), for
(1)-(2); Woolley, Foster, O'Hara, Wintle and Dunstan, "Characterising uncertainty in
generalized dissimilarity models", Methods in Ecology and Evolution 8 (2017), for (3)
and weights on sites; White, Gelfand and others (2023) for priors, with another
likelihood (Gaussian errors of log dissimilarities).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.data.containers import Pairs, checked_rows
from probmetric.metric import Link, SplineCityBlock
from probmetric.metric.splines import Coordinates, gaps, i_splines
from probmetric.models._sample import sample
from probmetric.models.distributions import drawn
from probmetric.models.lca import observation
from probmetric.precision import numpy_in_numpy_out, on_host, one_program
from probmetric.typing import Array, Numeric

__all__ = ["GDMParams", "GDMPrior", "gdm", "simulate", "to_metric"]


class GDMParams(NamedTuple):
    """Intercept b (), and heights θ (d, k) and knots (d, k) of the I-splines."""

    b: Float[Array, ""] | float
    theta: Float[Array, "d k"]
    knots: Float[Array, "d k"]
    coordinates: Coordinates | None = None


class GDMPrior(NamedTuple):
    """Half-normal priors of the heights of the splines and of the intercept.

    ``scale`` is the scale of the heights, and ``b_scale`` of the intercept. The
    ``knots`` (d, k) are set from the data (quantiles of each covariate). With
    ``coordinates``, their last row belongs to the geographic distance of two sites.
    """

    knots: Float[Array, "d k"]
    scale: Float[Array, ""] | float = 1.0
    b_scale: Float[Array, ""] | float = 1.0
    coordinates: Coordinates | None = None


def _exponent(
    b: Numeric, theta: Array, of: "GDMParams | GDMPrior", pairs: Pairs
) -> Array:
    """Return t of Eq. (2), (N,), with the knots and coordinates ``of`` a model."""
    X, knots = jnp.asarray(pairs.X), jnp.asarray(of.knots)
    apart = gaps(X, jnp.asarray(pairs.i), jnp.asarray(pairs.j), knots, of.coordinates)
    return b + jnp.sum(apart * theta, (-1, -2))


def gdm(pairs: Pairs, prior: GDMPrior, *, learning_rate: Numeric = 1.0) -> None:
    """Define the generative model of shared units (NumPyro).

    A unit is an individual, or a species for presence data. y is the number of shared
    units among ``trials`` units of two sites, or 0 or 1 without ``trials``.

    The named variables (which NumPyro calls sites too) are ``y`` and:

    * ``b`` (), the intercept.
    * ``theta`` (d, k), heights of the I-splines, which add up to the curves.
    * ``height`` (d,), the total increase of each curve, computed from ``theta``.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> pairs = Pairs(np.array([[0.0], [1.0]]), *np.array([[0], [1]]), y=None)
    >>> sample, prior = Predictive(gdm, num_samples=3), GDMPrior(np.array([[0.0, 1.0]]))
    >>> sample(jax.random.key(0), pairs, prior)["height"].shape
    (3, 1)
    """
    pairs, prior = jax.tree.map(jnp.asarray, (pairs, prior))
    b = sample("b", dist.HalfNormal(prior.b_scale))
    each = dist.HalfNormal(prior.scale).expand(list(prior.knots.shape))
    theta = sample("theta", each.to_event(2))
    numpyro.deterministic("height", height(theta, prior.knots))
    t = _exponent(b, theta, prior, pairs)
    with numpyro.plate("pair", len(pairs.i)):
        sample("y", observation(-t, pairs, learning_rate), obs=pairs.y)


@numpy_in_numpy_out
@one_program
def height(
    theta: Float[Array, "*s d k"], knots: Float[Array, "d k"]
) -> Float[Array, "*s d"]:
    """Return the total increase Σ_k θ_fk of each curve (splines of width > 0)."""
    last = jnp.asarray(knots)
    top = i_splines(last[:, -1], last)
    return jnp.sum(jnp.asarray(theta) * top, -1)


@numpy_in_numpy_out
def simulate(key: jax.Array, params: GDMParams, pairs: Pairs) -> Pairs:
    """Simulate the shared units of the same pairs, with the same data weights.

    Examples
    --------
    >>> i, j, trials = np.array([[0, 0], [0, 1], [9, 9]])
    >>> pairs = Pairs(np.array([[0.0], [1.0]]), i, j, y=None, trials=trials)
    >>> params = GDMParams(0.0, np.full((1, 2), 50.0), np.array([[0.0, 1.0]]))
    >>> simulate(jax.random.key(0), params, pairs).y.tolist()
    [9, 0]
    """
    pairs = checked_rows(pairs)
    log_p = on_host(_log_probability(params, pairs._replace(y=None)))
    return pairs._replace(y=drawn(observation(log_p, pairs), key))


@one_program
def _log_probability(params: GDMParams, pairs: Pairs) -> Array:
    return -_exponent(params.b, jnp.asarray(params.theta), params, pairs)


def to_metric(params: GDMParams) -> SplineCityBlock:
    """Return the learned metric. Its P(same) is the expected similarity of two sites.

    Examples
    --------
    >>> params = GDMParams(np.array(0.7), np.ones((1, 2)), np.array([[0.0, 4.0]]))
    >>> metric, x = to_metric(params), np.zeros(1)
    >>> round(float(metric.same_probability(x, x)), 4)  # e^{-b}
    0.4966
    """
    link = Link(b=params.b, scale=np.ones((), np.asarray(params.knots).dtype))
    return SplineCityBlock(params.knots, params.theta, link, params.coordinates)
