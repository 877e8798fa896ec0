"""The posterior of Gaussian classes given rows with missing entries (NaN).

Data augmentation starts at the mode of ``gaussian_classes.missing`` and alternates

    x_m | x_o, θ:   x = x̃ + ΣJ(x - x̃)_o,   x̃ ~ N(μ, Σ),                            (1)
    θ | X:          an exact draw from the NIW posterior of the completed rows,    (2)

where J is the inverse of Σ_oo and zero elsewhere. Step (1) does not change x_o. The
vector x - μ - ΣJ(x - μ)_o has the covariance Σ - ΣJΣ of x_m given x_o. Given the
observed entries, the posterior is the mean of the NIW posteriors over completions. The
predictive density of a class is the mean of the Student-t densities of these
posteriors. ``complete`` returns S NIW posteriors, ``THIN`` sweeps apart. The mean of
this Markov chain converges to the posterior as S grows.

References
----------
Tanner and Wong, JASA 82 (1987); Schafer, "Analysis of Incomplete Multivariate Data"
(1997), ch. 5.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from probmetric.data.containers import Labeled
from probmetric.densities.gaussian import chol_seen
from probmetric.inference.gaussian_classes.missing import (
    covariances_of,
    expected_statistics,
    fill_with_means,
    fit_missing,
)
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    draw,
    posterior,
    statistics,
)
from probmetric.inference.gaussian_classes.prior import evidence_prior
from probmetric.models.gaussian_classes import (
    Covariance,
    GaussianClassesParams,
    NIWPrior,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

START_TOL = 1e-4
"""Relative gap to the mode: sufficient to choose a prior or start a chain."""

N_COMPLETIONS, WARM_UP, THIN = 24, 100, 10
"""Posteriors returned, sweeps before the first, and sweeps between two."""


def evidence_prior_missing(
    data: Labeled,
    n_classes: int,
    *,
    covariance: Covariance = "full",
    alpha: float | int = 1.0,
) -> NIWPrior:
    """Choose an NIW prior by the expected evidence if entries are missing.

    The evidence of the observed entries has no closed form. The function first fills
    missing entries with class means and chooses ``evidence_prior`` for the filled rows.
    Under this first prior it computes the mode and the expected statistics at the mode.
    The result is ``evidence_prior`` for the expected statistics.
    """
    options = {"covariance": covariance, "alpha": alpha}
    filled = statistics(fill_with_means(data, n_classes), n_classes)
    first = evidence_prior(filled, **options)
    mode = fit_missing(
        data, first, n_classes=n_classes, covariance=covariance, tol=START_TOL
    )
    return evidence_prior(expected_statistics(mode.params, data), **options)


def _fill(key: jax.Array, params: GaussianClassesParams, data: Labeled) -> Labeled:
    """Draw the missing entries given the observed ones and θ, Eq. (1)."""
    mean, S = jnp.asarray(params.mean), jnp.asarray(covariances_of(params))
    chol = jnp.broadcast_to(params.chol, S.shape)

    def row(parts: tuple[Array, Array, Array]) -> Array:
        x, y, noise = parts
        drawn = mean[y] + chol[y] @ noise
        L, e, observed = chol_seen(x, drawn, S[y])
        return jnp.where(observed, x, drawn + S[y] @ cho_solve((L, True), e))

    noise = jax.random.normal(key, data.X.shape, data.X.dtype)
    rows = jax.lax.map(row, (data.X, data.y, noise), batch_size=256)
    return data._replace(X=rows)


@numpy_in_numpy_out
def complete(
    key: jax.Array,
    data: Labeled,
    prior: NIWPrior,
    start: GaussianClassesParams,
    *,
    covariance: Covariance = "full",
    n_completions: int = N_COMPLETIONS,
    warm_up: int = WARM_UP,
    thin: int = THIN,
) -> ClassPosterior:
    """Draw completions of rows by Eqs. (1) and (2), and compute their NIW posteriors.

    ``start`` is, for example, the mode from ``fit_missing``. A sweep costs n d³. Data
    weights are not supported, because a weighted row has no completion.
    """
    if data.w is not None:
        raise ValueError(
            "data.w must be None with missing entries, got weights. Remove the weights."
        )
    data = data._replace(X=jnp.asarray(data.X), y=jnp.asarray(data.y))
    options = (covariance, n_completions, warm_up, thin)
    return _complete(key, data, prior, start, *options)


@partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _complete(
    key: jax.Array,
    data: Labeled,
    prior: NIWPrior,
    start: GaussianClassesParams,
    covariance: Covariance,
    n_completions: int,
    warm_up: int,
    thin: int,
) -> ClassPosterior:
    c = len(start.weights)

    def sweep(
        params: GaussianClassesParams, key: jax.Array
    ) -> tuple[GaussianClassesParams, ClassPosterior]:
        key_x, key_theta = jax.random.split(key)
        stats = statistics(_fill(key_x, params, data), c)
        post = posterior(stats, prior, covariance=covariance)
        return jax.tree.map(lambda a: a[0], draw(key_theta, post, 1)), post

    def several(
        params: GaussianClassesParams, keys: jax.Array
    ) -> tuple[GaussianClassesParams, ClassPosterior]:
        params, posts = jax.lax.scan(sweep, params, keys)
        return params, jax.tree.map(lambda a: a[-1], posts)

    key_warm, key_draws = jax.random.split(key)
    params, _ = jax.lax.scan(sweep, start, jax.random.split(key_warm, warm_up))
    keys = jax.random.split(key_draws, (n_completions, thin))
    return jax.lax.scan(several, params, keys)[1]
