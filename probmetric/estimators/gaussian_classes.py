"""``GaussianClasses``: Bayes classifier of Gaussians with integrated parameters.

The model is ``models.gaussian_classes``. The closed forms are in
``inference.gaussian_classes.posterior``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypedDict, cast

import jax
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.containers import Labeled
from probmetric.data.padding import bucket, pad_rows
from probmetric.data.scaling import Scaler, constant_columns, standardize_features
from probmetric.data.truth import BaseRates, TellsClasses, at_base_rates, shift_to
from probmetric.data.unlabeled import leave_out
from probmetric.estimators._labeled import (
    Finite,
    check_labeled,
    checked_rows,
    remember_rows,
    report,
    required,
    weighted_rows,
)
from probmetric.estimators._learner import ClassProbabilities, Learner, Run, no_rows
from probmetric.estimators._settings import (
    Positive,
    RandomState,
    Unknown,
    check_settings,
    settings,
)
from probmetric.inference.gaussian_classes.choice import (
    EXCESS,
    Strengths,
    choose_prior,
    prior_of,
    statistics_of,
)
from probmetric.inference.gaussian_classes.completions import (
    START_TOL,
    complete,
    evidence_prior_missing,
)
from probmetric.inference.gaussian_classes.draws import Exact, sample
from probmetric.inference.gaussian_classes.local_metric import posterior_metrics
from probmetric.inference.gaussian_classes.missing import fit_missing
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    ClassStatistics,
    posterior_mean,
)
from probmetric.inference.gaussian_classes.predict import predict_log_proba
from probmetric.inference.gaussian_classes.prior import learn_statistics
from probmetric.linalg_scaled import no_nan
from probmetric.metric import Dissimilarity, LocalMahalanobis
from probmetric.metric.feature_names import blocks_of, with_names
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Purpose, Self, no_type_check


class ClassFit(NamedTuple):
    """Results of a fit of ``GaussianClasses`` or ``GLML``, in scaled units.

    If entries are missing, ``stats`` is None, and ``posterior`` has a leading axis for
    the imputed data sets. ``points`` are in input units, and ``data`` are scaled. After
    a fit to data on disk, ``points`` and ``data`` are empty. ``constant`` marks columns
    that do not vary.
    """

    points: Float[np.ndarray, "n d"]
    data: Labeled
    classes: np.ndarray
    codes: Int[np.ndarray, "n"]
    scaler: Scaler
    stats: ClassStatistics | None
    prior: NIWPrior
    posterior: ClassPosterior
    log_evidence: float
    constant: Bool[np.ndarray, "d"]
    strengths: Strengths | None = None


class _Options(TypedDict):
    covariance: Covariance
    alpha: float


def check_varied(prior: NIWPrior, n: int) -> None:
    """Raise if the points do not vary within the classes."""
    if np.isnan(prior.kappa):
        raise ValueError(
            "X must vary within classes, got only classes with one row or with equal "
            f"rows (n_samples = {n}). Add rows."
        )


@settings
class GaussianLearner(TellsClasses, Learner[Exact]):
    """Base of ``GaussianClasses`` and ``GLML``: posterior of Gaussian classes."""

    _streams = True
    _default_method = "exact"

    prior: Literal["cv", "evidence"] = "cv"
    covariance: Covariance = "full"
    alpha: Positive = 1.0
    missing: Literal["error", "integrate"] = "error"
    standardize: bool = True
    random_state: RandomState = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "integrate"
        return tags

    @property
    def _options(self) -> _Options:
        return {"covariance": self.covariance, "alpha": float(self.alpha)}

    def _fit_classes(
        self, X: ArrayLike, y: ArrayLike, seed: int, w: ArrayLike | None = None
    ) -> ClassFit:
        """Scale the points, choose the prior, and compute the posterior."""
        finite: Finite = "allow-nan" if self.missing == "integrate" else True
        y, X, w = leave_out(self.unlabeled, y, X, w)
        checked = check_labeled(self, X, y, finite=finite, smallest=1)
        points, classes, codes, weights = weighted_rows(*checked, w, smallest=1)
        if weights is not None and np.isnan(points).any():
            raise ValueError(
                "sample_weight must be None if X has missing entries, got weights. "
                "Impute the entries, or omit sample_weight"
            )
        Z, scaler = standardize_features(
            points,
            self._names,
            standardize=bool(self.standardize),
            times=weights,
            blocks=blocks_of(self),
        )
        data, options, c = Labeled(Z, codes, weights), self._options, len(classes)
        remember_rows(self, Labeled(points, codes, weights))
        prior = strengths = None
        if np.isnan(points).any():
            stats, evidence = None, np.nan
            prior = evidence_prior_missing(data, c, **options)
            check_varied(prior, len(points))
            shape = self.covariance
            start = fit_missing(
                data, prior, n_classes=c, tol=START_TOL, covariance=shape
            )
            report(start, "missing entries")
            with jax.enable_x64(True):
                key = jax.random.key(seed)
                post = complete(key, data, prior, start.params, covariance=shape)
            post, prior = to_numpy((post, prior))
        else:
            if self.prior == "cv":
                prior, strengths, _ = choose_prior(data, c, **options)
            stats = statistics_of(Z, codes, c, weights)
            if weights is not None and strengths is not None:
                prior = prior_of(stats, strengths, **options)
            stats, prior, post, evidence = to_numpy(
                learn_statistics(stats, prior, **options)
            )
            check_varied(prior, len(points))
        return ClassFit(
            points,
            data,
            classes,
            codes,
            scaler,
            stats,
            prior,
            post,
            float(evidence),
            constant_columns(points),
            strengths,
        )

    def _set_classes(self, fitted: ClassFit) -> None:
        self._found = fitted
        self.classes_ = fitted.classes
        self.prior_, self.posterior_ = fitted.prior, fitted.posterior
        self.log_evidence_ = fitted.log_evidence

    def _in_input_units(self, metric: LocalMahalanobis) -> LocalMahalanobis:
        scaler = self._found.scaler
        metric = metric.rescaled(scaler.scale, scaler.mean)
        if not self.standardize:
            return metric
        # Constant columns have no part in a distance.
        return replace(metric, frame=metric.frame * ~self._found.constant)

    def _check_purpose(self, purpose: Purpose) -> None:
        strengths = self._found.strengths
        if purpose != "intervals" or strengths is None:
            return
        if strengths.excess == EXCESS[0]:
            raise ValueError(
                "purpose must be 'prediction' for this fit, got 'intervals'. "
                "Intervals would be too narrow, because the chosen prior fixes the "
                f"covariances (prior_.nu = {float(self._found.prior.nu):.0f}). Fit "
                "with prior='evidence'."
            )

    def _independent(self) -> bool:
        return True

    def _metrics_of(self, draws: xr.DataTree) -> Sequence[Dissimilarity] | None:
        return None

    def _drawn(self, method: str, run: Run, **options: Any) -> xr.DataTree:
        check_choice("method", method, ("exact",))
        fitted = self._found
        if not len(fitted.points):
            raise no_rows("sample")
        return sample(
            fitted.posterior,
            fitted.scaler,
            Labeled(fitted.points, fitted.codes, fitted.data.w),
            names=self._names,
            arguments={"prior": fitted.prior, "covariance": self.covariance},
            classes=fitted.classes,
            **run,
            **options,
        )


@settings
class GaussianClasses(ClassProbabilities, GaussianLearner):
    """Classify by Gaussian classes, averaged over the posterior of their parameters.

    Use this class to classify. Use ``GLML`` for a local metric computed from the
    Gaussians. A prior, chosen from the data, shrinks means and covariances of the
    classes. (The prior is normal-inverse-Wishart. The predictive density of each class,
    averaged over the posterior, is a Student-t.)

    Parameters
    ----------
    prior : {"cv", "evidence"}, default "cv"
        - "cv" chooses the prior by the log loss of held-out points in five folds (fewer
          if a class has fewer points). It tries 280 priors, from one fixed diagonal
          covariance for all classes to a free covariance for each class. "cv" takes
          about 5 fits. With fewer than 300 points, folds are repeated three times (15
          fits). If "cv" chooses a prior that fixes the covariance, draws vary too
          little for intervals.
        - "evidence" chooses the prior by the marginal likelihood (``log_evidence_``)
          among 216 priors. It needs no folds, but is overconfident if a class has no
          more points than features. It is always used if entries are missing.
    covariance : {"full", "tied", "diagonal"}, default "full"
        Covariances of the Gaussians. "full": one covariance for each class. "tied": one
        covariance for all classes. "diagonal": independent features within each class.
    alpha : float > 0, default 1
        Number of points that the prior adds to each class, for the class frequencies
        (concentration of a Dirichlet prior).
    class_prior : array-like of shape (c,), or mapping, optional
        Class frequencies in the population to predict, in the order of ``classes_`` or
        as a mapping from class to frequency. Default: the training frequencies. Class
        probabilities are multiplied by population frequency / training frequency, and
        normalized.
    missing : {"error", "integrate"}, default "error"
        Treatment of NaN. "error" raises an error. "integrate" assumes that entries are
        missing at random, and averages over 24 random imputations of the training rows.
        Rows to predict are not imputed: a prediction uses only the observed entries.
    random_state : int, RandomState or None
        Seed of the imputations. Not used if all rows are complete.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_prior_ : array of shape (c,)
        Posterior mean of the class weights.
    means_ : array of shape (c, d)
    covariances_ : array of shape (c, d, d), or (1, d, d) when tied
        Posterior means, in input units.
    prior_ : NIWPrior
    log_evidence_ : float
        Log marginal likelihood: log density of the scaled training data, averaged over
        ``prior_``. Use it to compare values of ``covariance`` on the same data, with
        ``prior="evidence"``. NaN if entries are missing.
    posterior_ : ClassPosterior
        Parameters of the posterior, in scaled units. If entries are missing, every
        array has a leading axis of length 24, for the imputations.
    n_features_in_, feature_names_in_

    Notes
    -----
    Probabilities may be inaccurate if classes are far from Gaussian. See Benchmarks:
    few_classes.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> GaussianClasses().fit(X, y).predict(X[:3]).tolist()
    [0, 0, 0]
    """

    class_prior: BaseRates = None

    @no_type_check
    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Compute the posterior given labeled points (exact for complete rows).

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Points, or labeled data on disk (``pm.open``) with ``y=None``. A class can
            have fewer points than features, and even only one point. For data on disk,
            ``prior="cv"`` uses a random sample of about 50,000 rows, the same in every
            fit. All other computations use all rows.
        """
        check_settings(self)
        seed = int(check_random_state(self.random_state).randint(2**31))
        points, labels = cast("ArrayLike", X), required(self, y)
        return self._store(self._fit_classes(points, labels, seed, sample_weight))

    def _store(self, fitted: ClassFit) -> Self:
        self._set_classes(fitted)
        self._scaler = fitted.scaler
        mean = to_numpy(posterior_mean(self.posterior_))
        scale = fitted.scaler.scale
        self.class_prior_ = mean.weights
        shift_to(self.class_prior, self.classes_, mean.weights)
        self.means_ = fitted.scaler.mean + scale * mean.mean
        factor = scale[:, None] * mean.chol
        self.covariances_ = factor @ np.swapaxes(factor, 1, 2)
        return self

    @with_names
    def sample(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        method: Exact = "exact",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
        log_prior: bool = False,
        predictive: bool = False,
        prior_draws: int | None = None,
    ) -> xr.DataTree:
        """Draw class weights, means and covariances from the posterior.

        Parameters
        ----------
        method : {"exact"}, default="exact"
            Independent, exact draws.
        n_chains : int, optional
            Factor that multiplies ``n_draws``. Default: 1.
        log_prior : bool, default=False
            Whether to store the log prior and the log likelihood of each draw, which
            ``az.psense_summary`` uses.

        Returns
        -------
        DataTree
            Posterior draws of weights (class), mean (class, feature) and covariance
            (class, feature, feature_bis), in input units.
        """
        check_is_fitted(self)
        run = Run(n_draws=n_draws, n_chains=n_chains, seed=seed, progress=progress)
        groups = {"predictive": predictive, "prior_draws": prior_draws}
        return self._drawn(method, run, log_prior=log_prior, **groups)

    @with_names
    def posterior_metric(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        purpose: Purpose,
        *,
        method: Exact | None = None,
        n_draws: int = 24,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return one local metric for each posterior draw of the class Gaussians.

        A local metric has a matrix for each query point. The matrix removes the bias of
        votes of neighbors, as in ``GLML(rule="min_norm", gamma=0)``. ``purpose`` does
        not change the draws. Labeled points are assumed to be independent. Intervals
        contain the true distance less often than their nominal probability, especially
        with few points. See Benchmarks: local_intervals.

        Parameters
        ----------
        method : {"exact"}, optional
        n_draws : int, default=24
            Number of metrics.
        seed : int, default=0
            ``sample`` with the same seed and number of draws returns the same draws.

        Raises
        ------
        ValueError
            If ``purpose="intervals"`` and ``prior="cv"`` chose a prior with 10⁶ or more
            degrees of freedom (``prior_.nu``), because it fixes the covariance.
        """
        self._check(purpose)
        check_choice("method", method or "exact", ("exact",))
        n = check_number("n_draws", n_draws, 1, whole=True)
        drawn = posterior_metrics(self.posterior_, seed, n)[1]
        return PosteriorMetric(
            [self._in_input_units(metric) for metric in drawn],
            purpose,
            pairs_independent=True,
            source="exact",
        )

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute log P(class | x), shape (n, c), columns in order of ``classes_``."""
        check_is_fitted(self)
        integrate = self.missing == "integrate"
        points = checked_rows(self, X, finite="allow-nan" if integrate else True)
        with np.errstate(over="ignore"):  # ``no_nan`` raises.
            Z = (points - self._scaler.mean) / self._scaler.scale
        if self.standardize:  # Constant columns carry no information on the class.
            Z[:, self._found.constant] *= 0.0
        partly = integrate and bool(np.isnan(Z).any())
        n = len(Z)
        Z = pad_rows(Z, bucket(n))  # A few sizes, to avoid compilation.
        with jax.enable_x64(True):
            log_p = np.asarray(predict_log_proba(self.posterior_, Z, missing=partly))
        log_p = no_nan(log_p[:n], "X", points)
        shift = shift_to(self.class_prior, self.classes_, self.class_prior_)
        return at_base_rates(log_p, shift)
