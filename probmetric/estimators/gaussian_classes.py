"""``GaussianClasses``: Bayes' classifier of Gaussians with all parameters integrated.

The model is ``probmetric.models.gaussian_classes``, the closed forms
``probmetric.inference.gaussian_classes.posterior``; this file holds no mathematics.
"""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Labelled
from probmetric.data.padding import bucket, pad_rows
from probmetric.data.scaling import Scaler, constant_columns, standardise
from probmetric.data.source import Source, sample_rows
from probmetric.data.truth import TellsClasses
from probmetric.data.unlabeled import leave_out
from probmetric.estimators._labelled import (
    Finite,
    check_labelled,
    checked_rows,
    report,
    required,
)
from probmetric.estimators._settings import (
    Positive,
    RandomState,
    check_settings,
    settings,
)
from probmetric.estimators._streamed import Refused, refuse, streamed_classes
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
from probmetric.metric import LocalMahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Purpose, no_type_check


class ClassFit(NamedTuple):
    """What both estimators of Gaussian classes learn, in scaled units.

    ``stats`` is None where entries are missing; ``posterior`` is then a mean over
    completions. ``points`` alone are in input units, ``data`` is them scaled; of a
    source there are none. ``constant`` says which columns did not vary.
    """

    points: Float[np.ndarray, "n d"]
    data: Labelled
    classes: np.ndarray
    codes: Int[np.ndarray, "n"]
    scaler: Scaler
    stats: ClassStatistics | None
    prior: NIWPrior
    posterior: ClassPosterior
    log_evidence: float
    constant: Bool[np.ndarray, "d"]
    strengths: Strengths | None = None


def fit_classes(estimator: Any, X: ArrayLike, y: ArrayLike, seed: int) -> ClassFit:
    """Validate, scale, choose the prior as ``estimator.prior`` says; the posterior.

    Exact for whole rows; a mean over completions, drawn with ``seed``, where entries
    are missing and ``estimator.missing`` is "integrate".

    Raises
    ------
    ValueError
        On NaN that is not to be integrated out, one class, columns that are empty or
        all constant, or points that are all equal within their classes.
    """
    integrate = estimator.missing == "integrate"
    finite: Finite = "allow-nan" if integrate else True
    y, X = leave_out(estimator.unlabeled, y, X)
    points, classes, codes = check_labelled(estimator, X, y, finite=finite, smallest=1)
    names = getattr(estimator, "feature_names_in_", None)
    Z, scaler = standardise(points, names, standardize=bool(estimator.standardize))
    data = Labelled(Z, codes)
    options: Any = {"covariance": estimator.covariance}
    alpha = float(estimator.alpha)
    partly, strengths = bool(np.isnan(points).any()), None
    if partly:
        stats, post, evidence = None, None, np.nan
        prior = evidence_prior_missing(data, len(classes), alpha=alpha, **options)
    else:
        prior = None
        if estimator.prior == "cv":
            prior, strengths, _ = choose_prior(
                data, len(classes), alpha=alpha, **options
            )
        stats = statistics_of(Z, codes, len(classes))
        stats, prior, post, evidence = to_numpy(
            learn_statistics(stats, prior, alpha=alpha, **options)
        )
    _check_varied(prior, len(points))
    if post is None:
        start = fit_missing(
            data, prior, n_classes=len(classes), tol=START_TOL, **options
        )
        report(start, "missing entries")
        with jax.enable_x64(True):
            key = jax.random.key(seed)
            post = complete(key, data, prior, start.params, **options)
        post, prior = to_numpy((post, prior))
    parts = points, data, classes, codes, scaler, stats, prior, post
    return ClassFit(*parts, float(evidence), constant_columns(points), strengths)


def _check_varied(prior: NIWPrior, n: int) -> None:
    """Raise where no prior could be had."""
    if np.isnan(prior.kappa):
        raise ValueError(
            "X: expected points that vary within the classes (n_samples = "
            f"{n}), got classes of equal points or one member each"
        )


def fit_source(
    estimator: Any, source: Source, y: object, options: Refused | None = None
) -> ClassFit:
    """Fit the rows of a source as ``fit_classes`` does, by their statistics.

    One pass, one of the labels and, where ``estimator.prior`` is "cv", one of the
    sample (``data.source.sample_rows``, seed 0) that chooses the strengths of the
    prior; all else is of all rows.

    Parameters
    ----------
    estimator : GaussianClasses or GLML
    source : Source
    y : None
    options : dict, optional
        Further options to refuse, as ``_streamed.refuse``.

    Raises
    ------
    ValueError
        For missing entries, for weights where folds are to choose, and as
        ``fit_classes``.
    """
    folds, integrate = estimator.prior == "cv", estimator.missing == "integrate"
    refuse({"missing": (integrate, "'error'"), **(options or {})})
    if folds and source.weighted:
        raise ValueError(
            "prior: expected 'evidence' with a source whose rows have weights, got "
            "'cv', whose folds count every row once"
        )
    found = streamed_classes(estimator, source, y, 1)
    stats, c = found.stats, len(found.classes)
    how: Any = {"covariance": estimator.covariance, "alpha": float(estimator.alpha)}
    prior, strengths = None, None
    if folds:
        X, codes, _ = sample_rows(source, classes=found.classes)
        Z = (X - found.inside.mean) / found.inside.scale
        prior, strengths, _ = choose_prior(Labelled(Z, codes), c, **how)
        if not np.isnan(prior.kappa):
            prior = prior_of(stats, strengths, **how)
    with jax.enable_x64(True):
        learned = to_numpy(learn_statistics(stats, prior, **how))
    _check_varied(learned.prior, found.n)
    none = np.zeros((0, len(found.constant)))
    return ClassFit(
        none,
        Labelled(none, np.zeros(0, int)),
        found.classes,
        np.zeros(0, int),
        found.scaler,
        learned.stats,
        learned.prior,
        learned.posterior,
        float(learned.log_evidence),
        found.constant,
        strengths,
    )


def refuse_streamed(found: ClassFit, name: str) -> None:
    """Raise for what needs the rows of the fit, where they came from a source."""
    if not len(found.points):
        raise ValueError(
            f"{name}: expected a fit to arrays, got one to a source, of which no rows "
            "are kept"
        )


def fit_rows(
    estimator: Any, found: ClassFit, rows: Int[np.ndarray, "m"]
) -> ClassFit | None:
    """Fit some rows, with the strengths of the prior that all chose.

    None where their prior cannot be had. No program is compiled for it: statistics are
    computed on the host, and their shapes are those of all rows.
    """
    options: Any = {"covariance": estimator.covariance, "alpha": float(estimator.alpha)}
    X, prior = np.asarray(found.data.X)[rows], None
    stats = statistics_of(X, found.codes[rows], len(found.classes))
    if found.strengths is not None:
        prior = prior_of(stats, found.strengths, **options)
    stats, prior, post, evidence = to_numpy(learn_statistics(stats, prior, **options))
    if np.isnan(prior.kappa):
        return None
    return found._replace(
        stats=stats, prior=prior, posterior=post, log_evidence=float(evidence)
    )


def draws_of(estimator: Any, **how: Any) -> xr.DataTree:
    """Return draws of what ``fit_classes`` found; further arguments as ``sample``."""
    found: ClassFit = estimator._found
    return sample(
        found.posterior,
        found.scaler,
        Labelled(found.points, found.codes),
        names=getattr(estimator, "feature_names_in_", None),
        arguments={"prior": found.prior, "covariance": estimator.covariance},
        classes=found.classes,
        **how,
    )


def refuse_known(found: ClassFit, purpose: str) -> None:
    """Raise where intervals are asked for and covariances were taken for known."""
    if purpose == "intervals" and found.strengths is not None:
        if found.strengths.excess == EXCESS[0]:
            raise ValueError(
                "purpose: expected 'prediction' where held-out points chose a prior "
                "that takes the covariance for known (prior_.nu = "
                f"{float(found.prior.nu):.0f}), got 'intervals': what is not known of "
                "it would be left out; fit with prior='evidence'"
            )


def in_input_units(
    estimator: Any, found: ClassFit, metric: LocalMahalanobis
) -> LocalMahalanobis:
    """Return a local metric of scaled points as one of the points given."""
    metric = metric.rescaled(found.scaler.scale, found.scaler.mean)
    if not estimator.standardize:
        return metric
    # What did not vary takes no part in a distance.
    return replace(metric, frame=metric.frame * ~found.constant)


@settings
class GaussianClasses(TellsClasses, BaseEstimator):
    """Bayes classifier with one Gaussian per class, parameters integrated out.

    With a normal-inverse-Wishart prior, whose three numbers are chosen by the data,
    the predictive density of a class is a Student-t. It is the generative side of
    ``GLML`` on its own, and on average over eight data sets of 20 to 160 points at
    least as good: use this to classify, ``GLML`` for a metric.

    Parameters
    ----------
    prior : {"cv", "evidence"}, default "cv"
        How the prior is chosen. "cv": by the log loss of held-out points in five folds
        (fewer where a class has fewer members), among 280 priors from one diagonal
        covariance for all classes, known beforehand, to a free one a class
        (``inference.gaussian_classes.choice``); some 15 folds below 300 points, five
        from there on. Chosen for prediction, it may take the covariance for known:
        draws then vary less than is known.
        "evidence": the default before 0.2, the largest evidence among 216 priors made
        of the pooled covariance of the same points; it is over-confident where a class
        has no more points than there are features. With missing entries the prior is
        always that of the evidence.
    covariance : {"full", "tied", "diagonal"}, default "full"
        A covariance a class, one for all, or independent features.
    alpha : float > 0, default 1
        Dirichlet concentration of the class weights.
    missing : {"error", "integrate"}, default "error"
        What a NaN means. "integrate": it is an entry missing at random. Predictions
        are those of the entries that are there, exactly; in ``fit`` the posterior is a
        mean over 24 completions of the rows, drawn by data augmentation.
    standardize : bool, default True
        Centre and scale the features inside ``fit``.
    random_state : int, RandomState or None
        For completions; whole rows need no random numbers.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

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
        log p(X, y) in scaled units, all parameters integrated out, under ``prior_``:
        with ``prior="evidence"`` what ``covariance`` can be chosen by on the same
        data. NaN where entries are missing.
    posterior_ : ClassPosterior
        In scaled units, as the prior. With missing entries every array has a leading
        axis of completions.
    n_features_in_, feature_names_in_

    Notes
    -----
    With 20, 40, 80 and 160 labels the log loss of ``predict_proba`` was .071, .057,
    .075 and .083 below that of the Euclidean metric's soft votes (.071 ± .026 over all;
    eleven sets, three splits, ``benchmarks/results/few_classes.md``), and at each size
    below that of scikit-learn's LDA with Ledoit-Wolf shrinkage. By set it was above
    those votes on breast_cancer (+.06), and above that LDA on none. By set and size it
    was above the votes by .2 on waveform at 40 and usps_8x8 at 80. Nothing is promised
    where classes are far from Gaussian.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> GaussianClasses().fit(X, y).predict(X[:3]).tolist()
    [0, 0, 0]
    """

    prior: Literal["cv", "evidence"] = "cv"
    covariance: Covariance = "full"
    alpha: Positive = 1.0
    missing: Literal["error", "integrate"] = "error"
    standardize: bool = True
    random_state: RandomState = None
    unlabeled: Any = "warn"

    def __sklearn_tags__(self) -> Tags:
        """Say that NaN is accepted where it is integrated out."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "integrate"
        return tags

    @no_type_check
    def fit(
        self, X: ArrayLike | Source, y: ArrayLike | None = None
    ) -> "GaussianClasses":
        """Take the posterior of labelled points, exact for whole rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            May have fewer points in a class than features, down to one. Of a source
            (``pm.open``) no row is kept: one pass, and one of the labels.
            ``prior="cv"`` takes one more: the prior's three numbers are chosen on about
            50,000 rows, drawn by hash of their numbers (on all, where they are no
            more), and all else is of all rows.
        y : array-like of shape (n,)
            None of a source, which has its labels.
        """
        check_settings(self)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if isinstance(X, Source):
            found = self._found = fit_source(self, X, y)
        else:
            found = self._found = fit_classes(self, X, required(self, y), seed)
        self.classes_, self._scaler = found.classes, found.scaler
        self.prior_, self.posterior_ = found.prior, found.posterior
        self.log_evidence_ = found.log_evidence
        mean = to_numpy(posterior_mean(self.posterior_))
        scale = found.scaler.scale
        self.class_prior_ = mean.weights
        self.means_ = found.scaler.mean + scale * mean.mean
        factor = scale[:, None] * mean.chol
        self.covariances_ = factor @ np.swapaxes(factor, 1, 2)
        return self

    def sample(
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
            The posterior is a closed form: draws are independent and exact.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 1.
            ``n_draws * n_chains`` draws, one chain.
        seed : int, default=0
        progress : bool, optional
            Without effect.
        log_prior : bool, default=False
            Store the densities of prior and likelihood: ``log_prior`` and
            ``log_likelihood``, for power scaling.
        predictive : bool, default=False
            Store new points of the classes observed under every draw,
            ``posterior_predictive``; n d numbers a draw. ``pm.check_model`` takes draws
            with all three.
        prior_draws : int, optional
            So many draws of the prior and of points under them: ``prior``,
            ``prior_predictive``. The prior's numbers were chosen on the data, as
            ``prior`` says. Default: none.

        Returns
        -------
        DataTree
            Posterior of weights (class), mean (class, feature) and covariance (class,
            feature, feature_bis), in input units.
        """
        check_choice("method", method, ("exact",))
        check_is_fitted(self)
        refuse_streamed(self._found, "sample")
        return draws_of(
            self,
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            log_prior=log_prior,
            predictive=predictive,
            prior_draws=prior_draws,
        )

    @with_names
    def posterior_metric(
        self,
        purpose: Purpose,
        *,
        method: Exact | None = None,
        n_draws: int = 24,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the local metric of each of some draws of the class Gaussians.

        It is that of ``GLML(rule="min_norm", gamma=0)``: nothing is tuned on
        neighbours. The labelled points are taken as independent draws from the model,
        so that one set of draws serves both purposes; as far as the classes are
        Gaussian. Intervals cover less than their name, above all with few points:
        figures are with ``GLML.posterior_metric``.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        method : {"exact"}, optional
        n_draws : int, default=24
            In all.
        seed : int, default=0
            Of the draws, which are those of ``sample`` with this seed and number.
        progress : bool, optional
            Without effect.

        Raises
        ------
        ValueError
            For ``purpose="intervals"`` where ``prior="cv"`` chose to take the
            covariance for known (``prior_.nu`` of 10⁶ and more).
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_choice("method", method or "exact", ("exact",))
        check_is_fitted(self)
        refuse_known(self._found, purpose)
        n = check_number("n_draws", n_draws, 1, whole=True)
        drawn = posterior_metrics(self.posterior_, seed, n)[1]
        return PosteriorMetric(
            [in_input_units(self, self._found, metric) for metric in drawn],
            purpose,
            pairs_independent=True,
            source="exact",
        )

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return log P(class | x) with all parameters integrated out."""
        check_is_fitted(self)
        integrate = self.missing == "integrate"
        points = checked_rows(self, X, finite="allow-nan" if integrate else True)
        with np.errstate(over="ignore"):  # Refused below.
            Z = (points - self._scaler.mean) / self._scaler.scale
        if self.standardize:  # What did not vary says nothing of the class.
            Z[:, self._found.constant] *= 0.0
        partly = integrate and bool(np.isnan(Z).any())
        n = len(Z)  # In few sizes: most other numbers of points compile nothing.
        Z = pad_rows(Z, bucket(n))
        with jax.enable_x64(True):
            found = np.asarray(predict_log_proba(self.posterior_, Z, missing=partly))
        return no_nan(found[:n], "X", points)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return P(class | x)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class, the first in sorted order of equals."""
        best = self.predict_log_proba(X).argmax(1)
        return self.classes_[best]
