"""``LDA`` and ``RCA``: metrics of Gaussian classes with one covariance.

The derivation is ``probmetric.inference.lda``; this file holds no mathematics.
"""

from abc import ABC, abstractmethod
from dataclasses import field
from typing import Any, Literal

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice
from probmetric.data.containers import Labelled
from probmetric.data.inputs import points
from probmetric.data.scaling import Scaler
from probmetric.data.source import Source
from probmetric.estimators._labelled import labelled_data
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import Count, Extended, settings
from probmetric.estimators._streamed import refuse, streamed_classes
from probmetric.inference import lda
from probmetric.inference.gaussian_classes.draws import Exact
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.neighbors.strength import Chosen
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Preprocessor, Purpose, Self, no_type_check


@settings
class _TiedClasses(PairsMixin, BaseEstimator, ABC):
    """What LDA and RCA share: Gaussian classes around one covariance Σ_W."""

    prior_strength: Extended | Literal["cv"] = "cv"
    prior_covariance: ArrayLike | None = None
    standardize: bool = True
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    @abstractmethod
    def _choose(self, data: Labelled, target: np.ndarray) -> Chosen:
        """Choose the strength of the prior."""

    @abstractmethod
    def _learn(
        self, data: Labelled | ClassStatistics, prior: NIWPrior
    ) -> lda.LDAParams:
        """Fit standardised points; the factor is in standardised units."""

    @no_type_check
    def fit(self, X: ArrayLike | Source, y: ArrayLike | None = None) -> Self:
        """Learn from class (or chunk) labels.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Of a source (``pm.open``) nothing is kept; ``prior_strength`` is a number.
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more. None of a
            source, which has its labels.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y)
        data, self.classes_, scaler = labelled_data(self, X, y)
        target = self._target(scaler.scale)
        if isinstance(self.prior_strength, str):
            self.prior_strength_ = self._choose(data, target).strength
        else:
            self.prior_strength_ = float(self.prior_strength)
        prior = lda.shrinkage_prior(target, self.prior_strength_)
        params = self._learn(data, prior)
        self._found = data, prior
        self._set_map(params.factor, scaler, data.X)
        return self._keep(params, scaler)

    def _fit_source(self, source: Source, y: object) -> Self:
        """Learn from the rows of a source, in one pass and one of the labels."""
        folds = isinstance(self.prior_strength, str)
        instead = "a number, such as prior_strength=1, not 'cv',"
        refuse({"prior_strength": (folds, instead)})
        found = streamed_classes(self, source, y, 2)
        self.classes_ = found.classes
        self.prior_strength_ = float(self.prior_strength)
        target = self._target(found.scaler.scale)
        prior = lda.shrinkage_prior(target, self.prior_strength_)
        params = self._learn(found.stats, prior)
        self._found = None
        self.components_ = found.map_of(np.asarray(params.factor))
        self.mean_, self.scale_ = found.scaler
        return self._keep(params, found.scaler)

    def _keep(self, params: lda.LDAParams, scaler: Scaler) -> Self:
        mean, scale = scaler
        self.means_ = np.asarray(params.mean) * scale + mean
        self.covariance_ = np.asarray(params.within) * np.outer(scale, scale)
        self.priors_ = np.asarray(params.weights)
        return self

    def _target(self, scale: np.ndarray) -> np.ndarray:
        """Return the prior mean of Σ_W in standardised units."""
        d = len(scale)
        if self.prior_covariance is None:
            return np.eye(d)
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
        return T

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: picklable, callable on two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())

    def sample(
        self,
        method: Exact = "exact",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw the classes and their metric from the posterior.

        Parameters
        ----------
        method : {"exact"}, default="exact"
            The posterior is a closed form: draws are independent and exact.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 1.
            ``n_draws * n_chains`` draws, one chain.
        seed : int, default=0
        progress : bool, optional
            Without effect.

        Returns
        -------
        DataTree
            Posterior of M (feature, feature_bis), weights (class), mean (class,
            feature) and covariance (all_classes, feature, feature_bis), in input units.

        Notes
        -----
        The prior is that of the fit: Σ_W ~ IW(s + d + 1, s T) with s =
        ``prior_strength_``, at s = 0 improper, at s = ∞ with 10¹⁸ in its place;
        p(μ_c | Σ_W) ∝ ``|Σ_W|^(-1/2)``, class weights uniform. ``covariance_`` and
        ``means_`` are the means of these draws, ``priors_`` the mode, and the learned
        metric that of these numbers, not a mean of M. The prior is improper, so that
        there are no draws of it and no log prior.
        """
        check_choice("method", method, ("exact",))
        check_is_fitted(self)
        if self._found is None:
            raise ValueError(
                "sample: expected a fit to arrays, got one to a source, of which no "
                "rows are kept"
            )
        return lda.sample(
            *self._found,
            Scaler(self.mean_, self.scale_),
            n_components=self._directions(),
            names=getattr(self, "feature_names_in_", None),
            classes=self.classes_,
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
        )

    def _directions(self) -> int | None:
        """Return the rank of a draw of M, None for all of Σ_W⁻¹."""
        return None

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: Exact | None = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the posterior over metrics.

        The labelled points are taken as independent draws from the model, so that
        one set of draws serves both purposes; as far as the classes are Gaussian, of
        one covariance.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``.
        method : {"exact"}, optional
        n_draws : int, optional
            In all. Default: 100; of ``draws``, all.
        seed : int, default=0
        progress : bool, optional
            Without effect.

        Raises
        ------
        ValueError
            For ``purpose="intervals"`` where ``prior_strength_`` is infinite: nothing
            was learned from the points, and draws do not spread.

        Notes
        -----
        Draws are those of the model under the strength that the fit has. That it was
        chosen by the same points is not in their spread, and how often such intervals
        cover was not measured; of ``with_intervals`` with a fixed strength it was.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        if purpose == "intervals" and np.isinf(self.prior_strength_):
            raise ValueError(
                "purpose: expected 'prediction' where prior_strength_ is infinite, got "
                "'intervals': nothing was learned, and draws would have no width; fit "
                "with a number, such as prior_strength=1, or use pm.with_intervals"
            )
        if draws is None:
            n_draws = 100 if n_draws is None else n_draws
            size: Any = {"n_draws": n_draws, "n_chains": 1}
            draws = self.sample(method or "exact", seed=seed, **size)
        return posterior_metric(
            draws, [lda.metrics], purpose, n_draws=n_draws, pairs_independent=True
        )


@settings
class LDA(_TiedClasses):
    """Linear discriminant analysis as a metric: whitened discriminant directions.

    Distances are in units of the spread within classes, in the k directions that tell
    class means apart best. The directions are *not* orthonormal in input space.

    Parameters
    ----------
    n_components : int, optional
        k, 1 to min(C - 1, d), which is the default; of a prior of infinite strength
        the default is all d directions.
    prior_strength : "cv" or float ≥ 0, default="cv"
        s: the covariance within classes has ``prior_covariance`` as its prior mean,
        worth s points. 0 is maximum likelihood, which scikit-learn's
        ``LinearDiscriminantAnalysis(solver="eigen")`` fits, and needs n - C ≥ d. ∞ is
        not to learn it: distances are Euclidean in standardised units, the directions
        that tell classes apart coming first. "cv" chooses among 1, 4, 16, 64, 256
        and ∞ by soft votes of neighbours in five folds (``neighbors.strength``), at
        the cost of some five to fifteen fits.
    prior_covariance : array-like of shape (d, d), optional
        In input units. Default: the identity in standardised units, that is the
        features' total variances.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (k, d)
        In input units; ``components_ Σ_W components_ᵀ`` = I. Signs are not identified.
    eigenvalues_ : array of shape (k,)
        Variance between classes over variance within, falling.
    explained_variance_ratio_ : array of shape (k,)
        Their share of the sum over all min(C - 1, d).
    prior_strength_ : float
        s in use; ∞ where "cv" found nothing worth learning.
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

    def _directions(self) -> int | None:
        return None if self._undivided() else len(self.components_)

    def _undivided(self) -> bool:
        """Whether every direction is kept, as the prior says what each is worth."""
        return self.n_components is None and bool(np.isinf(self.prior_strength_))

    def _choose(self, data: Labelled, target: np.ndarray) -> Chosen:
        k, most = self.n_components, min(len(self.classes_) - 1, len(target))
        k = None if k is None else min(int(k), most)  # More are refused by ``_learn``.
        return lda.choose_strength(data, target, k)

    def _learn(
        self, data: Labelled | ClassStatistics, prior: NIWPrior
    ) -> lda.LDAParams:
        k = self.n_components
        if self._undivided():
            params = lda.whole(data, prior)
        else:
            params = lda.fit(data, prior).params
        between = np.sum(params.eigenvalues)
        params = params if k is None else lda.leading(params, int(k))
        # Means of standardised points are equal up to n roundings, λ is their square.
        n = len(data.X) if isinstance(data, Labelled) else float(np.sum(data.n))
        if between <= (n * np.finfo(float).eps) ** 2:
            raise ValueError("y: expected classes whose means differ, got equal means")
        self.eigenvalues_ = np.asarray(params.eigenvalues)
        self.explained_variance_ratio_ = self.eigenvalues_ / between
        return params


@settings
class RCA(_TiedClasses):
    """Relevant component analysis: whitens the spread within chunks.

    The within-class half of LDA, M = Σ_W⁻¹: classes say which points belong together,
    and nothing about which are apart.

    Parameters
    ----------
    prior_strength : "cv" or float ≥ 0, default="cv"
        s: Σ_W has ``prior_covariance`` as its prior mean, worth s points. 0 is
        maximum likelihood and needs n - C ≥ d; ∞ is not to learn Σ_W. "cv" chooses
        among 1, 4, 16, 64, 256 and ∞ by soft votes of neighbours in five folds
        (``neighbors.strength``), at the cost of some five to fifteen fits.
    prior_covariance : array-like of shape (d, d), optional
        In input units. Default: the features' total variances.
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (d, d)
        A root of Σ_W⁻¹, in input units, with constant columns zero. Identified only up
        to a rotation.
    prior_strength_ : float
        s in use; ∞ where "cv" found nothing worth learning.
    means_, covariance_, priors_ : arrays of shape (c, d), (d, d), (c,)
        Chunk means, Σ_W and weights, in input units.
    classes_ : array of shape (c,)
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RCA().fit(X, y).transform(X).shape
    (150, 4)
    """

    def _choose(self, data: Labelled, target: np.ndarray) -> Chosen:
        return lda.choose_strength(data, target, chunks=True)

    def _learn(
        self, data: Labelled | ClassStatistics, prior: NIWPrior
    ) -> lda.LDAParams:
        weights, mean, within = lda.class_moments(data, prior)
        factor = lda.whitening(within)
        return lda.LDAParams(factor, np.ones(len(factor)), mean, within, weights)
