"""Gaussian classes with one covariance: the model behind LDA and RCA.

The model is ``models.gaussian_classes`` with ``covariance="tied"``. The classes share
one covariance Σ ~ IW(ν, Ψ) (inverse Wishart). Class means are μ_c | Σ ~ N(m, Σ/κ), and
points x | y ~ N(μ_y, Σ). ``inference.lda`` derives the discriminant directions U and
the matrix M = U Uᵀ of the metric.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Labeled
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    NIWPrior,
    gaussian_classes,
)
from probmetric.models.gaussian_classes import simulate as simulate_classes
from probmetric.typing import Array, Numeric

__all__ = ["LDAParams", "model", "simulate", "to_metric"]


class LDAParams(NamedTuple):
    """The classes and the directions that separate them.

    Attributes
    ----------
    factor : array of shape (k, d)
        Discriminant directions in rows, in decreasing order of ``eigenvalues``. The
        sign of a row is arbitrary. The matrix of the metric is factorᵀ factor.
    eigenvalues : array of shape (k,)
        Ratio ≥ 0 of the between-class to the within-class variance along each row of
        ``factor``.
    mean, within, weights : arrays of shape (c, d), (d, d) and (c,)
        Class means, covariance within classes, and class weights.
    """

    factor: Float[Array, "k d"]
    eigenvalues: Float[Array, "k"]
    mean: Float[Array, "c d"]
    within: Float[Array, "d d"]
    weights: Float[Array, "c"]


def to_metric(params: LDAParams) -> Mahalanobis:
    """Return the learned metric, whose linear map is ``params.factor``.

    Examples
    --------
    >>> one, mean = np.ones((1, 1)), np.array([[-1.0], [1.0]])
    >>> params = LDAParams(one / 2, np.ones(1), mean, 4 * one, np.array([0.5, 0.5]))
    >>> to_metric(params).transform(mean).tolist()  # In sd within classes
    [[-0.5], [0.5]]
    """
    return Mahalanobis(params.factor)


def model(
    data: Labeled, prior: NIWPrior, *, n_classes: int, learning_rate: Numeric = 1.0
) -> None:
    """Define the generative model: Gaussian classes with one covariance (NumPyro).

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> prior = NIWPrior(np.zeros(1), np.eye(1), kappa=1.0, nu=2.0)
    >>> sample, X = Predictive(model, num_samples=3), np.zeros((5, 1), np.float32)
    >>> sample(jax.random.key(0), Labeled(X, None), prior, n_classes=2)["chol"].shape
    (3, 1, 1, 1)
    """
    gaussian_classes(
        data, prior, n_classes=n_classes, covariance="tied", learning_rate=learning_rate
    )


def simulate(key: jax.Array, params: LDAParams, data: Labeled) -> Labeled:
    """Draw a class and a point for each row of ``data``.

    Examples
    --------
    >>> one, mean = np.ones((1, 1)), np.array([[-9.0], [9.0]])
    >>> params = LDAParams(one, np.ones(1), mean, one, np.array([0.5, 0.5]))
    >>> drawn = simulate(jax.random.key(0), params, Labeled(np.zeros((5, 1)), None))
    >>> bool(((drawn.X[:, 0] > 0) == (drawn.y == 1)).all())
    True
    """
    chol = np.linalg.cholesky(np.asarray(params.within))[None]
    return simulate_classes(
        key, GaussianClassesParams(params.weights, params.mean, chol), data
    )
