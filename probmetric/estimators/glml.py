"""``GLML``: neighbours under a metric that removes the leading bias at every query.

The model is ``probmetric.models.gaussian_classes``, the local metrics
``probmetric.inference.gaussian_classes.local_metric``; this file holds no mathematics:
it checks the options and turns class densities into metrics in input units.
"""

from dataclasses import field, replace
from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice
from probmetric.data.source import Source
from probmetric.data.truth import TellsClasses
from probmetric.estimators._labelled import checked_rows, report, required
from probmetric.estimators._settings import (
    Count,
    Extended,
    Natural,
    Positive,
    RandomState,
    Share,
    check_settings,
    settings,
)
from probmetric.estimators._streamed import Refused
from probmetric.estimators.gaussian_classes import (
    ClassFit,
    draws_of,
    fit_classes,
    fit_rows,
    fit_source,
    in_input_units,
    refuse_known,
    refuse_streamed,
)
from probmetric.inference.gaussian_classes.draws import Exact, metrics
from probmetric.inference.gaussian_classes.local_metric import (
    EUCLID,
    LogEuclidean,
    choose_by_folds,
    choose_gamma,
    log_euclidean,
    posterior_metrics,
    with_euclids_distance,
)
from probmetric.inference.gaussian_classes.mixtures import fit_mixtures, mixture_prior
from probmetric.inference.gaussian_classes.posterior import plug_in
from probmetric.metric import LocalMahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.metric.local import Rule
from probmetric.models.gaussian_classes import (
    Covariance,
    GaussianClassesParams,
    to_metric,
)
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Purpose, no_type_check


def check_options(estimator: Any) -> None:
    """Raise for combinations of options that mean nothing."""
    expected, n_draws = estimator.rule == "expected_bias", estimator.n_draws
    mixtures = estimator.n_components > 1
    if (estimator.densities == "mle" or mixtures) and (n_draws or expected):
        which = "n_components > 1" if mixtures else "densities='mle'"
        raise ValueError(
            "n_draws: expected 0, and a rule other than 'expected_bias', with "
            f"{which}, got {n_draws} and {estimator.rule!r}"
        )
    if mixtures and (estimator.densities, estimator.covariance) != (
        "posterior",
        "full",
    ):
        raise ValueError(
            "n_components: expected 1 with densities other than 'posterior' or a "
            f"covariance other than 'full', got {estimator.n_components}"
        )
    if expected and n_draws < 2:
        raise ValueError(
            f"n_draws: expected at least 2 with rule='expected_bias', got {n_draws}"
        )


def whole_rows(
    found: ClassFit,
) -> tuple[Float[np.ndarray, "m d"], Int[np.ndarray, "m"]]:
    """Return the points that can be neighbours, those without NaN, and their codes."""
    whole = ~np.isnan(found.points).any(1)
    members = np.bincount(found.codes[whole], minlength=len(found.classes))
    if (members == 0).any():
        raise ValueError(
            "X: expected a row without NaN in every class, since only whole rows are "
            f"neighbours, got none in {found.classes[members == 0].tolist()}"
        )
    return found.points[whole], found.codes[whole]


def _point_densities(
    estimator: Any, found: ClassFit, seed: int
) -> GaussianClassesParams | None:
    """Return densities at one value of their parameters, where these are asked for."""
    if estimator.densities == "mle":
        if found.stats is None:
            raise ValueError(
                "densities: expected 'posterior' with missing entries, got 'mle'"
            )
        params = plug_in(found.stats, shrinkage=float(estimator.shrinkage))
        if not np.isfinite(params.chol).all():
            raise ValueError(
                "shrinkage: expected above 0 for classes of at most d = "
                f"{found.points.shape[1]} points, got {estimator.shrinkage}"
            )
        return params
    if estimator.n_components == 1:
        return None
    k = int(estimator.n_components)
    prior = mixture_prior(found.prior, k)
    options = {"n_classes": len(found.classes), "n_components": k, "seed": seed}
    mixtures = fit_mixtures(found.data, prior, **options)
    report(mixtures, "mixtures within classes")
    return mixtures.params


def learn_metrics(
    estimator: Any, found: ClassFit, seed: int
) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
    """Return the metric of the densities, and one a posterior draw; scaled units."""
    params = _point_densities(estimator, found, seed)
    drawn: list[LocalMahalanobis] = []
    if params is None:
        base, drawn = posterior_metrics(
            found.posterior, seed, int(estimator.n_draws), rule=estimator.rule
        )
    else:
        base = to_numpy(to_metric(params, rule=estimator.rule))
    return base, drawn


TUNING_DRAWS = 8
"""Draws whose votes are averaged while γ is chosen."""


@settings
class GLML(TellsClasses, BaseEstimator):
    """Generative Local Metric Learning: nearest neighbours under per-query metrics.

    Gaussian classes say how the densities curve around a query; the metric weighs
    directions so that, to second order, the neighbours' classes are distributed as at
    the query itself. Votes are averaged over posterior draws of the Gaussians, which
    was better than the metric of the predictive densities at every size tried.

    Parameters
    ----------
    n_neighbors : int, default 5
        As ``KNeighborsClassifier``.
    votes : {"soft", "count"}, default "soft"
    rule : str, default "min_norm"
        "min_norm": nearest to the pooled metric; "zero_bias": Eq. (10) of the paper;
        "regularised"; "expected_bias": least expected squared bias over the draws,
        one metric; "fisher": information of the class posterior, a baseline.
    gamma : "cv", "loo" or float ≥ 0, default "cv"
        Share of the pooled Mahalanobis metric; ∞ is that metric alone. "cv": of the
        Euclidean metric of scaled features, ∞, 10, 3, 1, .3, .1 and 0 the first that
        loses at most two standard errors to the best, by soft votes in folds; at the
        cost of some 15 fits (5 from 300 points on). "loo": of these γ the
        best leave-one-out log score, by densities that have seen the point: the
        default before 0.2, and what "cv" means with missing entries,
        ``densities="mle"`` or mixtures.
    densities : {"posterior", "mle"}, default "posterior"
        "mle": the paper's maximum likelihood Gaussians, shrunk by ``shrinkage``; needs
        ``n_draws=0`` and whole rows.
    shrinkage : float in [0, 1], default 0.1
        With "mle": Σ = (1 - a)Σ̂ + a tr(Σ̂)/d · I.
    prior : {"cv", "evidence"}, default "cv"
        How the prior of the Gaussians is chosen, as in ``GaussianClasses``; "evidence"
        was the default before 0.2.
    covariance : {"full", "tied", "diagonal"}, default "full"
    n_components : int ≥ 1, default 1
        More: every class is a mixture of that many normals, of which a posterior mode
        is found by EM; needs ``n_draws=0``. ``prior_`` and ``posterior_`` remain those
        of single Gaussians, from which the components' prior follows.
    n_draws : int ≥ 0, default 24
        Posterior draws to average votes over; 0 uses the Student-t predictive
        densities alone, many times cheaper.
    alpha : float > 0, default 1
        Dirichlet concentration of the class weights.
    missing : {"error", "integrate"}, default "error"
        What a NaN in ``fit`` means. "integrate": an entry missing at random, integrated
        out of the class densities (``GaussianClasses``); such rows serve the densities
        and are never returned as neighbours. Queries are always whole rows.
    standardize : bool, default True
    random_state : int, RandomState or None
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    classes_ : array of shape (c,)
    metric_ : LocalMahalanobis
        Of the predictive densities (or as ``rule`` and ``densities`` say), input units.
    draws_ : list of LocalMahalanobis
        One a posterior draw; empty with ``n_draws=0``.
    gamma_ : float
    frame_ : {"pooled", "identity"}
        What γ is a share of. "identity": "cv" found nothing worth learning, and the
        metric is the Euclidean one of scaled features (``gamma_`` is ∞).
    gamma_scores_ : array or None
        Held-out log scores, of γ in falling order from ∞, with "cv" after that of the
        Euclidean metric; None for a given γ.
    classifier_ : KNeighborsClassifier
        Not after a fit to a source.
    prior_, posterior_, log_evidence_
        As ``GaussianClasses``, in scaled units.
    n_features_in_, feature_names_in_

    Notes
    -----
    With 20, 40, 80 and 160 labels the log loss of its votes minus that of the Euclidean
    metric's was +.010, -.011, -.058 and -.061 (-.028 ± .015 over all; eleven sets,
    three splits, ``benchmarks/results/few_classes.md``): of few labels "cv" mostly
    chooses that metric, and without draws it was once .67 worse (digits, two points a
    class).

    On average over eight data sets of 20 to 160 points, neighbours of GLML did not beat
    Bayes' classifier of the very Gaussians it is built from (``GaussianClasses``): its
    use is a local metric.

    References
    ----------
    Noh, Zhang and Lee, "Generative Local Metric Learning for Nearest Neighbor
    Classification", NIPS 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> glml = GLML(n_draws=0, random_state=0).fit(X, y)
    >>> glml.local_metric(X[:2]).shape
    (2, 4, 4)
    """

    n_neighbors: Count = field(default=5, kw_only=False)
    votes: Literal["soft", "count"] = "soft"
    rule: Rule = "min_norm"
    gamma: Extended | Literal["cv", "loo"] = "cv"
    densities: Literal["posterior", "mle"] = "posterior"
    shrinkage: Share = 0.1
    prior: Literal["cv", "evidence"] = "cv"
    covariance: Covariance = "full"
    n_components: Count = 1
    n_draws: Natural = 24
    alpha: Positive = 1.0
    missing: Literal["error", "integrate"] = "error"
    standardize: bool = True
    random_state: RandomState = None
    unlabeled: Any = "warn"

    def __sklearn_tags__(self) -> Tags:
        """Say that ``fit`` accepts NaN where it is integrated out."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "integrate"
        return tags

    @no_type_check
    def fit(self, X: ArrayLike | Source, y: ArrayLike | None = None) -> "GLML":
        """Learn the class Gaussians, their metrics, and keep the training points.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Of a source (``pm.open``) no row is kept: the metric is learned, as
            ``GaussianClasses`` learns from one, and ``predict`` is refused. ``gamma``
            is a number: folds would choose it for neighbours among fewer rows.
        y : array-like of shape (n,)
            None of a source, which has its labels.
        """
        check_settings(self)
        check_options(self)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if isinstance(X, Source):
            return self._fit_source(X, y, seed)
        found = self._found = fit_classes(self, X, required(self, y), seed)
        points, codes = whole_rows(found)
        base, every = self._learn(found, seed)
        by_folds = self.gamma == "cv" and self.n_components == 1
        if by_folds and self.densities == "posterior" and found.stats is not None:
            chosen, self.gamma_scores_ = self._choose_by_folds(found, seed)
        else:
            chosen, self.gamma_scores_ = self._choose(every, points, codes)
        self.frame_ = "identity" if chosen == EUCLID else "pooled"
        if chosen == EUCLID:
            every[0] = in_input_units(self, found, with_euclids_distance(base))
        self._set(every, np.inf if isinstance(chosen, str) else chosen)
        several = self.draws_ and np.isfinite(self.gamma_)
        metric = self.posterior_metric("prediction") if several else self.metric_
        self.classifier_ = KNeighborsClassifier(
            metric, self.n_neighbors, votes=self.votes
        ).fit(points, found.classes[codes])
        return self

    def _fit_source(self, source: Source, y: object, seed: int) -> "GLML":
        """Learn the metrics from the rows of a source, of which none are kept."""
        options: Refused = {
            "gamma": (isinstance(self.gamma, str), "a number, such as gamma=1,"),
            "n_components": (self.n_components > 1, "1"),
        }
        found = self._found = fit_source(self, source, y, options)
        every = self._learn(found, seed)[1]
        self.gamma_scores_, self.frame_ = None, "pooled"
        self._set(every, float(self.gamma))
        vars(self).pop("classifier_", None)
        return self

    def _learn(
        self, found: ClassFit, seed: int
    ) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
        """Store what Gaussians say; return their metric, and all in input units."""
        self.classes_ = found.classes
        self.prior_, self.posterior_ = found.prior, found.posterior
        self.log_evidence_ = found.log_evidence
        base, drawn = learn_metrics(self, found, seed)
        return base, [in_input_units(self, found, m) for m in (base, *drawn)]

    def _set(self, every: list[LocalMahalanobis], gamma: float) -> None:
        """Store the metric and those of draws, with γ."""
        self.gamma_ = gamma
        at = np.asarray(gamma)
        self.metric_, *self.draws_ = (replace(metric, gamma=at) for metric in every)
        if np.isinf(gamma):  # Nothing is local, and all draws are one metric.
            self.draws_ = [self.metric_] * len(self.draws_)

    def _voters(self) -> KNeighborsClassifier:
        """Return the neighbours that vote; none are kept of a source."""
        check_is_fitted(self)
        if not hasattr(self, "classifier_"):
            raise ValueError(
                "predict: expected a fit to arrays, got one to a source, of which no "
                "rows are kept; pm.nearest(glml.get_metric(), X, source, k) finds "
                "neighbours among all of them"
            )
        return self.classifier_

    def _choose(
        self,
        every: list[LocalMahalanobis],
        points: Float[np.ndarray, "m d"],
        codes: Int[np.ndarray, "m"],
    ) -> tuple[float, np.ndarray | None]:
        if not isinstance(self.gamma, str):
            return float(self.gamma), None
        metrics = every[1 : TUNING_DRAWS + 1] or every
        return choose_gamma(metrics, points, codes, int(self.n_neighbors))

    def _choose_by_folds(
        self, found: ClassFit, seed: int
    ) -> tuple[str | float, np.ndarray]:
        def learn(rows: Int[np.ndarray, "m"]) -> LocalMahalanobis | None:
            some = fit_rows(self, found, rows)
            return None if some is None else learn_metrics(self, some, seed)[0]

        return choose_by_folds(learn, np.asarray(found.data.X), found.codes)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return class probabilities from neighbours' votes, averaged over draws."""
        voters = self._voters()
        return voters.predict_proba(checked_rows(self, X, finite=True))

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return logarithms of ``predict_proba``; that of 0 is -inf."""
        voters = self._voters()
        return voters.predict_log_proba(checked_rows(self, X, finite=True))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class, the first in sorted order of equals."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    @with_names
    def get_metric(self) -> LocalMahalanobis:
        """Return the metric of the predictive densities: picklable, input units."""
        check_is_fitted(self)
        return self.metric_

    def local_metric(self, X: ArrayLike) -> Float[np.ndarray, "n d d"]:
        """Return the matrix at each row of X, in input units.

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        return np.asarray(self.metric_.matrix_at(points))

    def local_metric_summary(self, X: ArrayLike) -> LogEuclidean:
        """Return the log-Euclidean mean matrix over draws and their spread.

        The spread √(E ‖log A - E log A‖²) is taken in the whitened frame of the fit,
        where it does not depend on units; 0.7 is a factor of two along one direction.

        Raises
        ------
        ValueError
            Without draws; at γ = ∞, where all are one metric; at γ = 0 of rules whose
            matrices may be singular.
        """
        points = checked_rows(self, X, finite=True)
        if not self._draws():
            raise ValueError("n_draws: expected at least 1 for a spread, got 0")
        if np.isinf(self.gamma_):
            raise ValueError(
                "gamma: expected a number for a spread, got infinity: all draws have "
                "the same metric"
            )
        if self.rule in ("zero_bias", "fisher") and self.gamma_ == 0:
            raise ValueError(
                "gamma: expected above 0 for a logarithm of matrices that may be "
                "singular, got 0"
            )
        F = self.metric_.frame
        varied = np.flatnonzero(F.any(0))
        at = np.ix_(np.arange(len(points)), varied, varied)
        M = np.stack([metric.matrix_at(points)[at] for metric in self.draws_])
        R = np.linalg.cholesky(F[:, varied].T @ F[:, varied])
        half = np.swapaxes(np.linalg.solve(R, M), -1, -2)
        found = log_euclidean(np.linalg.solve(R, half))
        mean = np.zeros((len(points), len(F), len(F)))
        mean[at] = np.einsum("ia,nab,jb->nij", R, found.mean, R)
        return found._replace(mean=mean)

    def sample(
        self,
        method: Exact = "exact",
        *,
        n_draws: int = 1000,
        n_chains: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> xr.DataTree:
        """Draw the class Gaussians from their posterior.

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
            Posterior of weights (class), mean (class, feature) and covariance (class,
            feature, feature_bis), in input units.

        Raises
        ------
        ValueError
            Where the metric is not of one Gaussian a class, or already an expectation
            over draws (rule "expected_bias").
        """
        check_choice("method", method, ("exact",))
        check_is_fitted(self, "metric_")
        one = self.densities == "posterior" and self.n_components == 1
        if not one or self.rule == "expected_bias":
            raise ValueError(
                "n_draws: expected none where the metric has no draws (densities="
                f"{self.densities!r}, n_components={self.n_components}, "
                f"rule={self.rule!r}), got {n_draws}"
            )
        refuse_streamed(self._found, "sample")
        size: Any = {"n_draws": n_draws, "n_chains": n_chains}
        return draws_of(self, base=self.metric_, seed=seed, **size)

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
        """Return the posterior over local metrics.

        The labelled points are taken as independent draws from the model, so that
        one set of draws serves both purposes; as far as the classes are Gaussian. Each
        draw is the metric of its own densities, frame and all.

        Intervals are not promised to cover: noise in the curvature makes local
        distances longer, and the prior is chosen by the same points. In simulated
        worlds of three Gaussian classes in three dimensions nominal 90 % held the true
        local distance of γ = 1 in 72, 80, 83 and 86 % of pairs at 30, 60, 120 and 600
        points (``prior="evidence"``: 53, 72, 80 and 86 %;
        ``benchmarks/results/local_intervals.md``).

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
        draws : DataTree, optional
            Of ``sample``.
        method : {"exact"}, optional
        n_draws : int, optional
            In all. Default: the draws of the fit, ``draws_``, as many as it made;
            of ``draws``, all.
        seed : int, default=0
            Of draws other than those of the fit.
        progress : bool, optional
            Without effect.

        Raises
        ------
        ValueError
            Where there are no draws: see ``sample``; by default also where the fit
            made none. For ``purpose="intervals"`` where ``gamma_`` is infinite: all
            draws share that metric, and intervals would have no width; or where the
            chosen prior takes the covariance for known.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        check_choice("method", method or "exact", ("exact",))
        if purpose == "intervals" and np.isinf(getattr(self, "gamma_", 0.0)):
            raise ValueError(
                "purpose: expected 'prediction' where gamma_ is infinite, got "
                "'intervals': the metric is the same for all draws, and intervals "
                "would have no width; fit with a number, such as gamma=1"
            )
        check_is_fitted(self, "metric_")
        refuse_known(self._found, purpose)
        if draws is None and n_draws is None:
            if not self._draws():
                raise ValueError("n_draws: expected at least 1 for a posterior, got 0")
            return PosteriorMetric(
                self.draws_, purpose, pairs_independent=True, source="exact"
            )
        if draws is None:
            size: Any = {"n_draws": n_draws, "n_chains": 1}
            draws = self.sample(method or "exact", seed=seed, **size)
        return posterior_metric(
            draws, [metrics], purpose, n_draws=n_draws, pairs_independent=True
        )

    def _draws(self) -> list[LocalMahalanobis]:
        check_is_fitted(self, "metric_")
        return self.draws_
