"""Gaussian classes of one covariance: the model behind LDA and RCA.

The story is that of ``models.gaussian_classes`` with ``covariance="tied"``: the classes
share one Σ ~ IW(ν, Ψ), μ_c | Σ ~ N(m, Σ/κ) and x | y ~ N(μ_y, Σ). What is learned from
it, the directions U and the metric M = U Uᵀ, is derived in ``inference.lda``.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Labelled
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.gaussian_classes import gaussian_classes as story
from probmetric.models.gaussian_classes import simulate as simulate_classes
from probmetric.typing import Array


class LDAParams(NamedTuple):
    """The classes and the directions that tell them apart.

    Attributes
    ----------
    factor : array of shape (k, d)
        Uᵀ of Eq. (4) of ``inference.lda``, rows by falling λ; each identified up to
        its sign.
    eigenvalues : array of shape (k,)
        λ ≥ 0: variance between classes over variance within, along each row.
    mean : array of shape (c, d)
        m_c.
    within : array of shape (d, d)
        Σ_W.
    weights : array of shape (c,)
        π_c.
    """

    factor: Float[Array, "k d"]
    eigenvalues: Float[Array, "k"]
    mean: Float[Array, "c d"]
    within: Float[Array, "d d"]
    weights: Float[Array, "c"]


def to_metric(params: LDAParams) -> Mahalanobis:
    """Return the learned metric M = UUᵀ."""
    return Mahalanobis(params.factor)


def model(
    data: Labelled, prior: NIWPrior, *, n_classes: int, learning_rate: Any = 1.0
) -> None:
    """Write the generative model: Gaussian classes with one covariance (NumPyro)."""
    story(
        data,
        prior,
        n_classes=n_classes,
        covariance="tied",
        learning_rate=learning_rate,
    )


def simulate(key: Any, params: LDAParams, data: Labelled) -> Labelled:
    """Draw as many classes and points as ``data`` has."""
    chol = np.linalg.cholesky(np.asarray(params.within))[None]
    return simulate_classes(
        key, GaussianClassesParams(params.weights, params.mean, chol), data
    )
