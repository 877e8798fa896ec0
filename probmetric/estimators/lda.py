"""``LDA`` and ``RCA``: metrics of Gaussian classes with one covariance.

The derivation is ``inference.lda``.
"""

from abc import ABC, abstractmethod
from dataclasses import field
from typing import Literal, cast

import numpy as np
import xarray as xr

from probmetric.arguments import check_choice
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.containers import Labeled
from probmetric.data.scaling import Scaler
from probmetric.estimators._labeled import labeled_data
from probmetric.estimators._learner import Learner, Run, no_rows
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Extended,
    Unknown,
    settings,
)
from probmetric.inference import lda
from probmetric.inference.gaussian_classes.draws import Exact
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.neighbors.strength import Chosen
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self, no_type_check


@settings
class _TiedClasses(PairsMixin, Learner[Exact], ABC):
    _streams = True
    _default_method = "exact"

    prior_strength: Extended | Literal["cv"] = "cv"
    standardize: bool = True
    preprocessor: Preprocessor = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    @abstractmethod
    def _choose(self, data: Labeled, target: np.ndarray) -> Chosen:
        """Choose the strength of the prior."""

    @abstractmethod
    def _learn(self, data: Labeled | ClassStatistics, prior: NIWPrior) -> lda.LDAParams:
        """Fit standardized points; the factor is in standardized units."""

    @no_type_check
    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric from class labels (chunk labels, for RCA).

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Points, or labeled data on disk (``pm.open``). For data on disk, y must be
            None, ``prior_strength`` must be a number, and ``sample`` is not available.
        """
        data, self.classes_, scaler = labeled_data(
            self, cast("ArrayLike", X), y, sample_weight, counts=True
        )
        target = np.eye(len(scaler.scale))
        if isinstance(self.prior_strength, str):
            self.prior_strength_ = self._choose(data._replace(w=None), target).strength
        else:
            self.prior_strength_ = float(self.prior_strength)
        prior = lda.shrinkage_prior(target, self.prior_strength_)
        params = self._learn(data, prior)
        self._found: tuple[Labeled, NIWPrior] | None = data, prior
        self._set_map(params.factor, scaler, data.X)
        return self._store(params, scaler)

    def _store(self, params: lda.LDAParams, scaler: Scaler) -> Self:
        mean, scale = scaler
        self.means_ = np.asarray(params.mean) * scale + mean
        self.covariance_ = np.asarray(params.within) * np.outer(scale, scale)
        self.priors_ = np.asarray(params.weights)
        return self

    def _sample(self, method: str, run: Run) -> xr.DataTree:
        check_choice("method", method, ("exact",))
        if self._found is None:
            raise no_rows("sample")
        return lda.sample(
            *self._found,
            Scaler(self.mean_, self.scale_),
            n_components=self._directions(),
            names=self._names,
            classes=self.classes_,
            **run,
        )

    def _directions(self) -> int | None:
        """Return the rank of a draw of M, or None for the full Σ_W⁻¹."""
        return None

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return lda.metrics(draws)

    def _size(self, n: int, method: str) -> tuple[int, int | None]:
        return n, 1

    def _independent(self) -> bool:
        return True

    def _check_purpose(self, purpose: Purpose) -> None:
        if purpose == "intervals" and np.isinf(self.prior_strength_):
            raise ValueError(
                "purpose must be 'prediction' if prior_strength_ is infinite, got "
                "'intervals'. Nothing was learned from the data, so intervals would "
                "have no width. Fit with a number, such as prior_strength=1, or use "
                "pm.with_intervals."
            )


@settings
class LDA(_TiedClasses):
    """Linear discriminant analysis as a metric: whitened discriminant directions.

    The metric uses the directions that separate class means best. Along each direction,
    the unit of distance is the standard deviation within classes. The directions are
    *not* orthonormal in input space.

    Parameters
    ----------
    n_components : int, optional
        Number k of directions, from 1 to min(C - 1, d) for C classes and d features.
        Default: min(C - 1, d), or d if ``prior_strength_`` is ∞.
    prior_strength : "cv" or float ≥ 0, default="cv"
        Weight of the prior, as a number of points. The covariance within classes is
        shrunk toward the diagonal matrix of feature variances (the identity matrix, if
        ``standardize=False``). "cv" chooses the weight among 1, 4, 16, 64, 256 and ∞ by
        the log loss of ``KNeighborsClassifier`` in five folds, which takes 5 to 15
        times as long as one fit. With ∞, the metric is the Euclidean distance of
        standardized features (or of X, if ``standardize=False``). If ``n_components``
        is set, this distance uses only k discriminant directions. 0 is maximum
        likelihood, as in scikit-learn's ``LinearDiscriminantAnalysis(solver="eigen")``.
        It requires at least d + C points.

    Attributes
    ----------
    components_ : array of shape (k, d)
        Discriminant directions in input units, scaled such that ``components_ @
        covariance_ @ components_.T`` is the identity matrix. Signs are arbitrary.
    eigenvalues_ : array of shape (k,)
        Variance between classes divided by variance within classes, along each
        direction, descending.
    explained_variance_ratio_ : array of shape (k,)
        Eigenvalues divided by the sum of all min(C - 1, d) eigenvalues.
    prior_strength_ : float
        Weight of the prior that was used. ∞ if "cv" chose not to learn a covariance.
    means_, covariance_, priors_ : arrays of shape (c, d), (d, d), (c,)
        Class means, covariance within classes, and class weights, in input units.
    classes_, mean_, scale_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``sample`` makes exact, independent draws (``method="exact"``) of these variables:

    - M (feature, feature_bis), the matrix of the metric,
    - weights (class) and mean (class, feature),
    - covariance (all_classes, feature, feature_bis), the covariance within classes. The
      dimension all_classes has length 1.

    The covariance within classes, Σ_W, has an inverse Wishart prior (a distribution of
    matrices), IW(s + d + 1, s T). Here s is ``prior_strength_``, and T is the diagonal
    matrix toward which the covariance is shrunk. Class weights have a uniform prior.
    The prior density of a class mean is the same everywhere, ``|Σ_W|^(-1/2)`` up to a
    factor. Its integral is infinite, so prior draws and a log prior are not available.

    ``covariance_`` and ``means_`` are posterior means, and ``priors_`` is the posterior
    mode of the class weights. The learned metric is computed from these three
    estimates, and differs from the posterior mean of M.

    ``posterior_metric`` assumes independent points and Gaussian classes with one
    covariance. Its draws ignore the uncertainty of ``prior_strength_``. The coverage of
    its intervals was not measured. For intervals with measured coverage, use
    ``with_intervals`` with a number as ``prior_strength``. See Benchmarks: intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> LDA().fit(X, y).transform(X).shape
    (178, 2)
    """

    n_components: Count | None = field(default=None, kw_only=False)

    def _directions(self) -> int | None:
        return None if self._undivided() else len(self.components_)

    def _undivided(self) -> bool:
        """Check if all directions are used."""
        return self.n_components is None and bool(np.isinf(self.prior_strength_))

    def _choose(self, data: Labeled, target: np.ndarray) -> Chosen:
        k, most = self.n_components, min(len(self.classes_) - 1, len(target))
        k = None if k is None else min(int(k), most)  # ``_learn`` raises for more.
        return lda.choose_strength(data, target, k)

    def _learn(self, data: Labeled | ClassStatistics, prior: NIWPrior) -> lda.LDAParams:
        k = self.n_components
        if self._undivided():
            params = lda.whole(data, prior)
        else:
            params = lda.fit(data, prior).params
        between = np.sum(params.eigenvalues)
        params = params if k is None else lda.leading(params, int(k))
        # Means of standardized points are equal up to n roundings; λ is the square.
        n = len(data.X) if isinstance(data, Labeled) else float(np.sum(data.n))
        if between <= (n * np.finfo(float).eps) ** 2:
            raise ValueError(
                "y: class means must differ, got equal means, so there is no "
                "discriminant direction. Use RCA, or add features."
            )
        self.eigenvalues_ = np.asarray(params.eigenvalues)
        self.explained_variance_ratio_ = self.eigenvalues_ / between
        return params


@settings
class RCA(_TiedClasses):
    """Relevant component analysis: a metric that whitens the variation within chunks.

    Chunks are groups of points with the same label. The matrix of the metric is the
    inverse of the covariance within chunks. RCA does not use differences between
    chunks.

    Parameters
    ----------
    prior_strength : "cv" or float ≥ 0, default="cv"
        Weight of the prior, as a number of points. The covariance within chunks is
        shrunk toward the diagonal matrix of feature variances (the identity matrix, if
        ``standardize=False``). "cv" chooses the weight by cross-validation, as in
        ``LDA``. 0 is maximum likelihood, and requires at least d + C points for d
        features and C chunks. With ∞ no covariance is learned.

    Attributes
    ----------
    components_ : array of shape (d, d)
        Matrix L in input units. LᵀL is the inverse of ``covariance_``. L is unique
        only up to a rotation. Columns of constant features are zero.
    prior_strength_ : float
        Weight of the prior that was used. ∞ if "cv" chose not to learn a covariance.
    means_, covariance_, priors_ : arrays of shape (c, d), (d, d), (c,)
        Chunk means, covariance within chunks, and chunk weights, in input units.
    classes_, mean_, scale_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    For posterior draws and the assumptions of intervals, see the Notes of ``LDA``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RCA().fit(X, y).transform(X).shape
    (150, 4)
    """

    def _choose(self, data: Labeled, target: np.ndarray) -> Chosen:
        return lda.choose_strength(data, target, chunks=True)

    def _learn(self, data: Labeled | ClassStatistics, prior: NIWPrior) -> lda.LDAParams:
        weights, mean, within = lda.class_moments(data, prior)
        factor = lda.whitening(within)
        return lda.LDAParams(factor, np.ones(len(factor)), mean, within, weights)
