"""Predictions of Gaussian classes: predictive densities, class probabilities, ``fit``.

The predictive density of a class is Eq. (2) of ``gaussian_classes.posterior``. For a
row with missing entries it is the density of the observed entries x_o:

    x ~ t_df(m, S)   implies   x_o ~ t_df(m_o, S_oo).                             (1)
"""

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.data.containers import Labeled
from probmetric.densities.classes import (
    ClassDensities,
    class_log_densities,
    log_student,
)
from probmetric.densities.gaussian import chol_seen
from probmetric.inference.gaussian_classes.missing import fit_missing
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    is_diagonal,
    is_mean,
    log_evidence,
    mode,
    posterior,
    statistics,
)
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import cholesky_of, logdet_chol
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


@numpy_in_numpy_out
def predictive(post: ClassPosterior) -> ClassDensities:
    """Compute the Student-t predictive densities of the classes.

    If ``post`` averages over completions, each density is a mixture over completions.

    Raises
    ------
    ValueError
        If the covariance is diagonal. A product of univariate Student-t densities is
        not a multivariate Student-t density.
    """
    return predictive_of(jnp, post)


def predictive_of(xp: ModuleType, post: ClassPosterior) -> ClassDensities:
    """Compute ``predictive`` by NumPy or by JAX."""
    if is_diagonal(post):
        raise ValueError("covariance must be 'full' or 'tied', got 'diagonal'.")
    each = post if is_mean(post) else jax.tree.map(lambda a: a[None], post)
    s, c, d = each.mean.shape
    df = xp.broadcast_to(each.nu - d + 1, each.kappa.shape)
    scale = xp.sqrt((each.kappa + 1) / (each.kappa * df))
    factor = cholesky_of(xp, each.Psi) * scale[..., None, None]
    return ClassDensities(
        log_prior=xp.log(each.alpha[0]) - xp.log(xp.sum(each.alpha[0])),
        log_mix=xp.full((c, s), -np.log(s), factor.dtype),
        loc=xp.swapaxes(each.mean, 0, 1),
        factor=xp.swapaxes(factor, 0, 1),
        inv_df=1 / df.T,
    )


def _diagonal_log_densities(post: ClassPosterior, x: Array) -> Array:
    observed = ~jnp.isnan(x)
    scale2 = post.Psi * ((post.kappa + 1) / (post.kappa * post.nu))[:, None]
    white = (jnp.where(observed, x, 0.0) - post.mean) / jnp.sqrt(scale2)
    each = log_student(white[..., None], post.nu[:, None], 1) - 0.5 * jnp.log(scale2)
    return jnp.sum(jnp.where(observed, each, 0.0), -1)


def _partly_log_densities(classes: ClassDensities, x: Array) -> Array:
    """Compute the log density of the observed entries by class, Eq. (1)."""

    def log_density(loc: Array, factor: Array, inv_df: Array) -> Array:
        L, delta, observed = chol_seen(x, loc, factor @ factor.T)
        white = solve_triangular(L, delta, lower=True)
        density = log_student(white, 1 / inv_df, jnp.sum(observed))
        return density - 0.5 * logdet_chol(L)

    return jax.vmap(log_density)(
        classes.loc[:, 0], classes.factor[:, 0], classes.inv_df[:, 0]
    )


@numpy_in_numpy_out
def predict_log_proba(
    post: ClassPosterior, X: Float[Array, "n d"], *, missing: bool = False
) -> Float[Array, "n c"]:
    """Compute log P(class | x, data) with all parameters integrated out.

    With ``missing=True``, NaN entries are integrated out exactly, at a cost of n c d³.
    Otherwise the result is NaN for rows with NaN.
    """
    return _predict(post, jnp.asarray(X), missing)


@jax.jit(static_argnames="missing")
def _predict(post: ClassPosterior, X: Array, missing: bool) -> Array:
    if is_mean(post):
        each = jax.vmap(lambda completion: _log_joint(completion, X, missing))(post)
        return jax.nn.log_softmax(logsumexp(each, 0), -1)
    return jax.nn.log_softmax(_log_joint(post, X, missing), -1)


def _log_joint(post: ClassPosterior, X: Array, missing: bool) -> Array:
    log_prior = jnp.log(post.alpha) - jnp.log(jnp.sum(post.alpha))
    if is_diagonal(post):
        each = jax.vmap(lambda x: _diagonal_log_densities(post, x))(X)
        bad = jnp.any(jnp.isnan(X), 1, keepdims=True)
        each = each if missing else jnp.where(bad, jnp.nan, each)
    else:
        classes = predictive(post)
        densities = _partly_log_densities if missing else class_log_densities
        each = jax.lax.map(lambda x: densities(classes, x), X, batch_size=256)
    return log_prior + each


@numpy_in_numpy_out
def fit(
    data: Labeled, prior: NIWPrior, *, n_classes: int, covariance: Covariance = "full"
) -> Fit:
    """Compute the posterior mode of (weights, μ, Σ); ``objective`` is the log evidence.

    The fit needs no iteration, because the prior is conjugate. If entries are missing,
    the fit uses EM (``gaussian_classes.missing.fit_missing``), and the objective is the
    log joint density at the mode.

    Parameters
    ----------
    data : Labeled
        NaN for missing entries.
    prior : NIWPrior
        Prior with α + n > 1 in every class.
    n_classes : int
    covariance : {"full", "tied", "diagonal"}, default="full"

    Returns
    -------
    Fit
        ``params`` is a ``GaussianClassesParams``.

    Examples
    --------
    The prior mean is 4 and counts as κ = 2 points:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> X, y = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> prior = NIWPrior(np.array([4.0]), np.eye(1), kappa=2.0, nu=3.0)
    >>> params = gaussian_classes.fit(Labeled(X, y), prior, n_classes=2).params
    >>> params.weights.tolist(), params.mean.tolist()
    ([0.5, 0.5], [[2.5], [5.5]])
    """
    if np.isnan(np.asarray(data.X)).any():
        return fit_missing(data, prior, n_classes=n_classes, covariance=covariance)
    stats = statistics(data, n_classes)
    post = posterior(stats, prior, covariance=covariance)
    return Fit.closed(mode(post), log_evidence(stats, prior, covariance=covariance))
