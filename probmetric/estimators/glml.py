"""``GLML``: neighbors under a metric that removes the leading bias at every query.

The local metrics are in ``probmetric.inference.gaussian_classes.local_metric``.
"""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Literal, cast

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.containers import Labeled
from probmetric.estimators._labeled import checked_rows, remember_rows, required
from probmetric.estimators._learner import Run, no_rows
from probmetric.estimators._same import SameProbability
from probmetric.estimators._settings import (
    Count,
    Extended,
    Natural,
    Share,
    check_settings,
    settings,
)
from probmetric.estimators.gaussian_classes import ClassFit, GaussianLearner
from probmetric.inference.gaussian_classes.choice import prior_of, statistics_of
from probmetric.inference.gaussian_classes.draws import metrics
from probmetric.inference.gaussian_classes.local_metric import (
    EUCLID,
    LogEuclidean,
    choose_by_folds,
    log_euclidean,
    posterior_metrics,
    with_euclids_distance,
)
from probmetric.inference.gaussian_classes.posterior import plug_in
from probmetric.inference.gaussian_classes.prior import learn_statistics
from probmetric.metric import Dissimilarity, LocalMahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.metric.local import Rule
from probmetric.models.gaussian_classes import to_metric
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import to_numpy
from probmetric.typing import ArrayLike, Purpose, Self, no_type_check


def _whole_rows(fitted: ClassFit) -> Bool[np.ndarray, "n"]:
    """Mark the points without NaN, which can be neighbors."""
    whole = ~np.isnan(fitted.points).any(1)
    members = np.bincount(fitted.codes[whole], minlength=len(fitted.classes))
    if (members == 0).any():
        raise ValueError(
            "X: every class must have a row without NaN, got none in "
            f"{fitted.classes[members == 0].tolist()}. Only rows without NaN can be "
            "neighbors"
        )
    return whole


@settings
class GLML(SameProbability, GaussianLearner):
    """Generative Local Metric Learning: neighbors under a metric for each query.

    Each class has a Gaussian density. From these densities, GLML computes a metric for
    each query point. Predictions are votes of the nearest neighbors under this metric,
    averaged over posterior draws of the Gaussians. Class probabilities at the neighbors
    differ from those at the query, which biases the votes. The metric removes this bias
    to second order in the distance.

    Parameters
    ----------
    n_neighbors : int, default 5
        Number of neighbors, as in ``KNeighborsClassifier``.
    votes : {"soft", "count"}, default "soft"
        Votes of the neighbors, as in ``KNeighborsClassifier``.
    rule : str, default "min_norm"
        - "min_norm": among all metrics that remove the bias at a query, the one that is
          nearest to the pooled metric (see ``gamma``).
        - "zero_bias": Eq. (10) of the paper, which also removes the bias.
        - "regularised": the metric that minimizes the squared bias plus a ridge
          penalty.
        - "fisher": the Fisher information of the class probabilities, as a baseline.
    gamma : "cv" or float ≥ 0, default "cv"
        Weight γ with which the pooled metric is added to the local metric. The pooled
        metric is the Mahalanobis metric of the covariance within classes. γ = ∞ uses
        only the pooled metric. "cv" tries the Euclidean metric of scaled features, then
        γ = ∞, 10, 3, 1, 0.3, 0.1 and 0. It chooses the first of these whose
        cross-validated log loss is at most two standard errors above the lowest. "cv"
        takes about 15 fits, or 5 with 300 or more points. It does not use rows with
        missing entries.
    densities : {"posterior", "mle"}, default "posterior"
        Densities of the classes. "posterior" averages the Gaussians over the posterior
        of their parameters. "mle" uses the Gaussians of the paper: maximum likelihood,
        with covariances shrunk by ``shrinkage``. "mle" requires ``n_draws=0`` and
        complete rows.
    shrinkage : float in [0, 1], default 0.1
        Only used if ``densities="mle"``: weight of the identity matrix, scaled to equal
        trace, in each covariance.
    prior, covariance, alpha
        Settings of the Gaussians, as in ``GaussianClasses``.
    n_draws : int ≥ 0, default 24
        Number of posterior draws over which votes are averaged. With 0, votes use
        ``metric_``, which is many times faster.
    missing : {"error", "integrate"}, default "error"
        Treatment of NaN in ``fit``, as in ``GaussianClasses``. Rows with NaN are never
        neighbors. Queries must have no NaN.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array of shape (c,)
    metric_ : LocalMahalanobis
        Metric computed without draws, in input units. It uses the predictive density of
        each class, which is a Student-t (or the Gaussian, if ``densities="mle"``).
    draws_ : list of LocalMahalanobis
        Metric of each posterior draw. Empty with ``n_draws=0``.
    gamma_ : float
        Weight γ of the pooled metric that was used.
    frame_ : {"pooled", "identity"}
        "identity" if ``gamma="cv"`` chose the Euclidean metric of scaled features.
        ``gamma_`` is then ∞, and nothing was learned. Otherwise "pooled".
    gamma_scores_ : array or None
        Held-out log score of the Euclidean metric and of each γ, from ∞ to 0. None if
        ``gamma`` is a number.
    classifier_ : KNeighborsClassifier
        Classifier that ``predict`` uses. Not set after a fit to data on disk.
    prior_, posterior_, log_evidence_
        As in ``GaussianClasses``, in scaled units.
    n_features_in_, feature_names_in_

    Notes
    -----
    Use GLML if you need a local metric. To classify, use ``GaussianClasses``, which was
    at least as accurate with 20 to 160 points. With few labels, ``gamma="cv"`` mostly
    chooses the Euclidean metric. See Benchmarks: few_classes.

    ``sample`` draws exactly from the posterior of the Gaussians (``method="exact"``).
    Variables and dimensions are weights (class), mean (class, feature) and covariance
    (class, feature, feature_bis). ``densities="mle"`` has no draws.

    By default ``posterior_metric`` uses the draws of the fit. It assumes that labeled
    points are independent. Intervals may contain the true distance less often than
    their nominal probability, because noise of the estimated densities lengthens
    distances, and the prior is chosen with the same points. See Benchmarks:
    local_intervals. If ``gamma_`` is infinite, all draws have the same metric, and
    intervals are not available.

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
    gamma: Extended | Literal["cv"] = "cv"
    densities: Literal["posterior", "mle"] = "posterior"
    shrinkage: Share = 0.1
    n_draws: Natural = 24

    @no_type_check
    @chunked()
    def fit(self, X: ArrayLike | Chunked, y: ArrayLike | None = None) -> Self:
        """Fit the Gaussians, compute their local metrics, and store the points.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Points, or labeled data on disk (``pm.open``) with ``y=None``. For data on
            disk, ``gamma`` must be a number, and ``predict`` is not available.
        """
        check_settings(self)
        self._check_options()
        seed = int(check_random_state(self.random_state).randint(2**31))
        fitted = self._fit_classes(cast("ArrayLike", X), required(self, y), seed)
        self._set_classes(fitted)
        whole = _whole_rows(fitted)
        points, codes = fitted.points[whole], fitted.codes[whole]
        remember_rows(self, Labeled(points, codes))
        base, metrics = self._learn(fitted, seed)
        chosen, self.gamma_scores_ = self._chosen(fitted, whole, seed)
        self.frame_ = "identity" if chosen == EUCLID else "pooled"
        if chosen == EUCLID:
            metrics[0] = self._in_input_units(with_euclids_distance(base))
        self._set(metrics, np.inf if isinstance(chosen, str) else chosen)
        several = self.draws_ and np.isfinite(self.gamma_)
        metric = self.posterior_metric("prediction") if several else self.metric_
        self.classifier_ = KNeighborsClassifier(
            metric, self.n_neighbors, votes=self.votes
        ).fit(points, fitted.classes[codes])
        return self

    def _check_options(self) -> None:
        if self.densities == "mle" and self.n_draws:
            raise ValueError(
                "n_draws must be 0 if densities='mle', which has no draws, got "
                f"{self.n_draws}. Set n_draws=0."
            )

    def _metrics(
        self, fitted: ClassFit, seed: int
    ) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
        """Return the metric of the densities, and metrics of draws, in scaled units."""
        if self.densities == "posterior":
            return posterior_metrics(
                fitted.posterior, seed, int(self.n_draws), rule=self.rule
            )
        if fitted.stats is None:
            raise ValueError(
                "densities must be 'posterior' if X has missing entries, got 'mle'"
            )
        params = plug_in(fitted.stats, shrinkage=float(self.shrinkage))
        if not np.isfinite(params.chol).all():
            raise ValueError(
                "shrinkage must be above 0 if a class has at most d = "
                f"{fitted.points.shape[1]} points, got {self.shrinkage}"
            )
        return to_numpy(to_metric(params, rule=self.rule)), []

    def _learn(
        self, fitted: ClassFit, seed: int
    ) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
        base, drawn = self._metrics(fitted, seed)
        return base, [self._in_input_units(m) for m in (base, *drawn)]

    def _set(self, metrics: list[LocalMahalanobis], gamma: float) -> None:
        self.gamma_ = gamma
        share = np.asarray(gamma)
        self.metric_, *self.draws_ = (replace(m, gamma=share) for m in metrics)
        if np.isinf(gamma):  # Nothing is local, and all draws are one metric.
            self.draws_ = [self.metric_] * len(self.draws_)

    def _voters(self) -> KNeighborsClassifier:
        check_is_fitted(self)
        if not hasattr(self, "classifier_"):
            raise ValueError(
                f"{no_rows('predict')}. To find neighbors among all rows on disk, use "
                "pm.nearest(glml.get_metric(), X, source, k)"
            )
        return self.classifier_

    def _chosen(
        self, fitted: ClassFit, whole: Bool[np.ndarray, "n"], seed: int
    ) -> tuple[str | float, np.ndarray | None]:
        """Return γ of the setting, or chosen by folds of the rows without NaN."""
        if not isinstance(self.gamma, str):
            return float(self.gamma), None
        Z, codes = np.asarray(fitted.data.X)[whole], fitted.codes[whole]

        def learn(rows: Int[np.ndarray, "m"]) -> LocalMahalanobis | None:
            # On the host, with the shapes of all rows: nothing is compiled for a fold.
            stats = statistics_of(Z[rows], codes[rows], len(fitted.classes))
            prior = None
            if fitted.strengths is not None:
                prior = prior_of(stats, fitted.strengths, **self._options)
            learned = to_numpy(learn_statistics(stats, prior, **self._options))
            stats, prior, post, evidence = learned
            if np.isnan(prior.kappa):
                return None
            fold = fitted._replace(
                stats=stats, prior=prior, posterior=post, log_evidence=float(evidence)
            )
            try:
                return self._metrics(fold, seed)[0]
            except ValueError:  # A class of a fold has too few points for "mle".
                return None

        return choose_by_folds(learn, Z, codes)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute class probabilities (votes of neighbors, averaged over draws)."""
        voters = self._voters()
        return voters.predict_proba(checked_rows(self, X, finite=True))

    def _class_probabilities(
        self, Q: Float[np.ndarray, "m d"], own: Int[np.ndarray, "m"] | None = None
    ) -> Float[np.ndarray, "m c"]:
        voters: Any = self._voters()
        return voters._probabilities(Q, own)

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute the logarithm of ``predict_proba`` (-inf for probability 0)."""
        voters = self._voters()
        return voters.predict_log_proba(checked_rows(self, X, finite=True))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class of each point (if tied, the first class)."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    @with_names
    def get_metric(self) -> LocalMahalanobis:
        """Return the learned local metric ``metric_``, in input units."""
        check_is_fitted(self)
        return self.metric_

    def local_metric(self, X: ArrayLike) -> Float[np.ndarray, "n d d"]:
        """Return the matrix of ``get_metric()`` at each row of X, in input units."""
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        return np.asarray(self.metric_.matrix_at(points))

    def local_metric_summary(self, X: ArrayLike) -> LogEuclidean:
        """Compute mean and spread of the local metric's matrix over posterior draws.

        The mean is log-Euclidean: the matrix exponential of the mean of matrix
        logarithms. The spread is the root mean square Frobenius distance of the
        logarithms from their mean. Both use whitened coordinates, so the spread does
        not depend on units. If draws differ from their mean by a factor of two along
        one direction, the spread is about 0.7.

        Raises
        ------
        ValueError
            If there are no draws (``n_draws=0``).
            If ``gamma_`` is infinite, because all draws have the same metric.
            If ``gamma_`` is 0 and ``rule`` is "zero_bias" or "fisher".
        """
        points = checked_rows(self, X, finite=True)
        if not self.draws_:
            raise ValueError(
                "n_draws must be at least 1 for local_metric_summary, got 0. Fit "
                "with densities='posterior' and n_draws=24."
            )
        if np.isinf(self.gamma_):
            raise ValueError(
                "gamma must be finite for local_metric_summary, got infinity, for "
                "which all draws have the same metric. Fit with gamma=1."
            )
        if self.rule in ("zero_bias", "fisher") and self.gamma_ == 0:
            raise ValueError(
                "gamma must be above 0 for local_metric_summary, got 0, for which "
                "matrices may be singular. Fit with gamma=1."
            )
        F = self.metric_.frame
        varied = np.flatnonzero(F.any(0))
        live = np.ix_(np.arange(len(points)), varied, varied)
        M = np.stack([metric.matrix_at(points)[live] for metric in self.draws_])
        R = np.linalg.cholesky(F[:, varied].T @ F[:, varied])
        half = np.swapaxes(np.linalg.solve(R, M), -1, -2)
        summary = log_euclidean(np.linalg.solve(R, half))
        mean = np.zeros((len(points), len(F), len(F)))
        mean[live] = np.einsum("ia,nab,jb->nij", R, summary.mean, R)
        return summary._replace(mean=mean)

    def _sample(self, method: str, run: Run) -> xr.DataTree:
        if self.densities == "mle":
            raise ValueError(
                "densities must be 'posterior' for sample, got 'mle', which has no "
                "draws. Fit with densities='posterior'."
            )
        return self._drawn(method, run, base=self.metric_)

    def _metrics_of(self, draws: xr.DataTree) -> Sequence[LocalMahalanobis] | None:
        return metrics(draws)

    def _size(self, n: int, method: str) -> tuple[int, int | None]:
        return n, 1

    def _check_purpose(self, purpose: Purpose) -> None:
        if purpose == "intervals" and np.isinf(self.gamma_):
            raise ValueError(
                "purpose must be 'prediction' if gamma_ is infinite, got 'intervals'. "
                "All draws have the same metric, so intervals would have no width. "
                "Fit with a number, such as gamma=1."
            )
        super()._check_purpose(purpose)

    def _posterior_metric(
        self,
        purpose: Purpose,
        draws: xr.DataTree | None,
        method: str | None,
        n_draws: int | None,
        seed: int,
        progress: bool | None,
        read: Callable[[xr.DataTree], Sequence[Dissimilarity] | None] | None = None,
        *,
        credible: bool = False,
    ) -> PosteriorMetric:
        check_choice("method", method or "exact", ("exact",))
        if draws is not None or n_draws is not None:
            return super()._posterior_metric(
                purpose, draws, method, n_draws, seed, progress
            )
        if not self.draws_:
            raise ValueError(
                "n_draws must be at least 1 for posterior_metric, got 0. Fit with "
                "n_draws=24."
            )
        return PosteriorMetric(
            self.draws_, purpose, pairs_independent=True, source="exact"
        )
