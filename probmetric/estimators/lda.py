"""``LDA`` and ``RCA``: metrics of Gaussian classes with one covariance.

The derivation is ``probmetric.inference.lda``; this file holds no mathematics.
"""

from abc import ABC, abstractmethod
from dataclasses import field

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labelled
from probmetric.data.inputs import points
from probmetric.estimators._labelled import labelled_data
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import Count, NonNegative, settings
from probmetric.inference import lda
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.typing import ArrayLike, Self


@settings
class _TiedClasses(PairsMixin, BaseEstimator, ABC):
    """What LDA and RCA share: Gaussian classes around one covariance Σ_W."""

    prior_strength: NonNegative = 1.0
    prior_covariance: ArrayLike | None = None
    standardize: bool = True
    preprocessor: ArrayLike | None = None

    @abstractmethod
    def _learn(self, data: Labelled, prior: NIWPrior) -> lda.LDAParams:
        """Fit standardised points; the factor is in standardised units."""

    def __sklearn_tags__(self) -> Tags:
        """Say that ``fit`` needs labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from class (or chunk) labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes of at least two members.
        """
        data, self.classes_, scaler = labelled_data(self, X, y)
        mean, scale = scaler
        params = self._learn(data, self._prior(scale))
        self._set_map(params.factor, scaler)
        self.means_ = np.asarray(params.mean) * scale + mean
        self.covariance_ = np.asarray(params.within) * np.outer(scale, scale)
        self.priors_ = np.asarray(params.weights)
        return self

    def _prior(self, scale: np.ndarray) -> NIWPrior:
        """Return the prior of Σ_W in standardised units."""
        strength, d = float(self.prior_strength), len(scale)
        if self.prior_covariance is None:
            return lda.shrinkage_prior(np.eye(d), strength)
        T = points(self.prior_covariance, "prior_covariance")
        if T.shape != (d, d) or not np.allclose(T, T.T):
            raise ValueError(
                f"prior_covariance: expected a symmetric matrix of shape ({d}, {d}), "
                f"got shape {T.shape}"
            )
        T = T / np.outer(scale, scale)
        if np.linalg.eigvalsh(T)[0] <= 0:
            raise ValueError(
                "prior_covariance: expected a positive definite matrix, got a smallest "
                f"eigenvalue of {np.linalg.eigvalsh(T)[0]:.3g} (standardised units)"
            )
        return lda.shrinkage_prior(T, strength)

    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: picklable, callable on two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())


@settings
class LDA(_TiedClasses):
    """Linear discriminant analysis as a metric: whitened discriminant directions.

    Distances are in units of the spread within classes, in the k directions that tell
    class means apart best. The directions are *not* orthonormal in input space.

    Parameters
    ----------
    n_components : int, optional
        k, 1 to min(C - 1, d), which is the default.
    prior_strength : float ≥ 0, default=1
        s: the covariance within classes has ``prior_covariance`` as its prior mean,
        worth s points. 0 is maximum likelihood, which scikit-learn's
        ``LinearDiscriminantAnalysis(solver="eigen")`` fits, and needs n - C ≥ d.
    prior_covariance : array-like of shape (d, d), optional
        In input units. Default: the identity in standardised units, that is the
        features' total variances.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d), optional
        Points that integer pairs of shape (N, 2) refer to, in ``pair_distance``.

    Attributes
    ----------
    components_ : array of shape (k, d)
        In input units; components_ Σ_W components_ᵀ = I. Signs are not identified.
    eigenvalues_ : array of shape (k,)
        Variance between classes over variance within, falling.
    explained_variance_ratio_ : array of shape (k,)
        Their share of the sum over all min(C - 1, d).
    means_, covariance_, priors_ : arrays of shape (c, d), (d, d), (c,)
        Class means, Σ_W and class weights, in input units.
    classes_ : array of shape (c,)
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> LDA().fit(X, y).transform(X).shape
    (178, 2)
    """

    n_components: Count | None = field(default=None, kw_only=False)

    def _learn(self, data: Labelled, prior: NIWPrior) -> lda.LDAParams:
        params, k = lda.fit(data, prior).params, self.n_components
        between = np.sum(params.eigenvalues)
        params = params if k is None else lda.leading(params, int(k))
        # Means of standardised points are equal up to n roundings, λ is their square.
        if between <= (len(data.X) * np.finfo(float).eps) ** 2:
            raise ValueError("y: expected classes whose means differ, got equal means")
        self.eigenvalues_ = np.asarray(params.eigenvalues)
        self.explained_variance_ratio_ = self.eigenvalues_ / between
        return params


@settings
class RCA(_TiedClasses):
    """Relevant component analysis: Mahalanobis' distance of the spread within chunks.

    The within-class half of LDA, M = Σ_W⁻¹: classes say which points belong together,
    and nothing about which are apart.

    Parameters
    ----------
    prior_strength : float ≥ 0, default=1
        s: Σ_W has ``prior_covariance`` as its prior mean, worth s points. 0 is
        maximum likelihood and needs n - C ≥ d.
    prior_covariance : array-like of shape (d, d), optional
        In input units. Default: the features' total variances.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d), optional
        Points that integer pairs of shape (N, 2) refer to, in ``pair_distance``.

    Attributes
    ----------
    components_ : array of shape (d, d)
        A root of Σ_W⁻¹, in input units. Identified only up to a rotation.
    means_, covariance_, priors_ : arrays of shape (c, d), (d, d), (c,)
        Chunk means, Σ_W and weights, in input units.
    classes_ : array of shape (c,)
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_
    """

    def _learn(self, data: Labelled, prior: NIWPrior) -> lda.LDAParams:
        weights, mean, within = lda.class_moments(data, prior)
        factor = lda.whitening(within)
        return lda.LDAParams(factor, np.ones(len(factor)), mean, within, weights)
