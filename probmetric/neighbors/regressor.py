"""A nearest-neighbor regressor for any metric, or for draws of a metric.

Metrics, votes and scale are defined as in ``neighbors.classifier``. The prediction is
the weighted mean of y over the neighbors, averaged over draws. Let
u = (y - min y) / (max y - min y) in [0, 1]. Point j splits its vote into (1 - u_j, u_j)
(a ballot of ``neighbors.votes``). The share of votes for the second column predicts u.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score

from probmetric.arguments import check_choice, check_count, check_number
from probmetric.data.hash import first_best
from probmetric.data.inputs import as_sklearn, check_numeric, check_weights, real
from probmetric.metric.feature_names import (
    names_of,
    remember_columns,
    with_factors,
)
from probmetric.neighbors.classifier import grid
from probmetric.neighbors.learned import (
    draws_of,
    metric_for,
    queries_of,
    warn_of_training_data,
)
from probmetric.neighbors.search import check_dimension, found_but_own
from probmetric.neighbors.votes import BANDWIDTHS, neighborhood, scored_rows
from probmetric.typing import ArrayLike, Purpose


@dataclass(eq=False, repr=False)
class KNeighborsRegressor(RegressorMixin, BaseEstimator):
    """Predict the weighted mean of neighbors, under a metric or draws of a metric.

    Parameters
    ----------
    metric : Metric, PosteriorMetric, learner or None, default=None
        Metric, as in ``KNeighborsClassifier`` (but not a list). None is the Euclidean
        distance. A learner is fitted to classes, made by dividing y at quantiles. Its
        metric may predict y worse than the Euclidean distance, so compare the two.
    n_neighbors : int, default=5
        Number of neighbors, as in ``KNeighborsClassifier``.
    votes : {"soft", "count"}, default="soft"
        "soft" predicts the mean of y over all points, with weights that decrease with
        dissimilarity. "count" predicts the unweighted mean over the nearest neighbors.
    draws : {None, "prediction", "intervals"}, default=None
        Whether to average over draws of a learner, as in ``KNeighborsClassifier``.
    bandwidth : "loo" or float > 0, default="loo"
        As in ``KNeighborsClassifier``, but "loo" minimizes the leave-one-out squared
        error.
    n_bins : int ≥ 2, default=4
        Number of classes of about equal size into which y is divided. Only used if
        ``metric`` is a learner.

    Attributes
    ----------
    metric_, learner_, scale_, n_features_in_, feature_names_in_
        As in ``KNeighborsClassifier``.
    bandwidth_ : float
        Bandwidth used in predictions.
    loo_scores_ : array of shape (g,)
        Negative mean squared leave-one-out error of each bandwidth, or NaN if "loo" was
        not used. If the metric was learned from the training points, scores are too
        high.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> knn = KNeighborsRegressor(None, 2, votes="count").fit(X, [0.0, 1.0, 4.0, 9.0])
    >>> knn.predict([[0.4]])
    array([0.5])
    """

    # The package reports wrong values, not the type checker.
    __no_type_check__: ClassVar[bool] = True

    metric: object = None
    n_neighbors: int = 5
    _: KW_ONLY
    votes: Literal["soft", "count"] = "soft"
    draws: Purpose | None = None
    bandwidth: float | Literal["loo"] = "loo"
    n_bins: int = 4

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "KNeighborsRegressor":
        """Fit the metric if it is a learner, set the width of weights, store points.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training points.
        y : array-like of shape (n,)
            Target values.
        """
        fixed = None if hasattr(self.metric, "fit") else names_of(self.metric)
        X = with_factors(self, X, reset=True, names=fixed)
        check_numeric(X)
        if y is None:
            raise ValueError(
                "y: this estimator requires y to be passed, but the target y is None"
            )
        P, values = as_sklearn(self, X, real(y, "y"), y_numeric=True)
        remember_columns(self, X)
        n = len(P)
        check_choice("votes", self.votes, ("soft", "count"))
        k = check_number("n_neighbors", self.n_neighbors, 1, 10**6, whole=True)
        if self.votes == "count":
            k = check_count("n_neighbors", k, n, f"n_samples = {n}")
        check_number(
            "bandwidth", self.bandwidth, 0, open_low=True, open_high=True, word="loo"
        )
        check_number("n_bins", self.n_bins, 2, 10**6, whole=True)
        classes = quantile_codes(values, self.n_bins)
        if hasattr(self.metric, "fit") and not classes.any():
            raise ValueError(
                "y must have enough distinct values for two classes with at least 2 "
                f"points each, because metric={type(self.metric).__name__} learns from "
                f"classes, got {len(np.unique(values))} distinct values (n_samples = "
                f"{n}). Use metric=None."
            )
        self.metric_, self.learner_ = metric_for(
            self.metric, self.draws, X, classes, P.shape[1]
        )
        metrics = draws_of(self.metric_)
        check_dimension(metrics[0], P, "X")
        self.fit_X_, self.fit_y_ = P, values
        bandwidths = grid(self.bandwidth, BANDWIDTHS)
        self.loo_scores_ = np.full(len(bandwidths), np.nan)
        if self.votes == "soft":
            b = bandwidths if n > 1 and len(bandwidths) > 1 else ()
            k = min(k, max(1, n - 1))
            at = scored_rows(P)
            made = neighborhood(metrics, P, k, b, self._ballots(), 2, at)
            self._near, votes = made
            self.scale_ = self._near.scales
            if b:
                errors = self._in_units(votes[:, 0]) - values[at]
                self.loo_scores_ = -np.mean(errors**2, 1)
        best = len(bandwidths) // 2
        if np.isfinite(self.loo_scores_).any():
            best = first_best(self.loo_scores_)
        self.bandwidth_ = bandwidths[best]
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the mean of y at each row of X, shape (m,)."""
        Q = queries_of(self, X)
        if self.votes == "soft":
            votes = self._near.votes(self.bandwidth_, Q, self._ballots(), 2)
            return self._in_units(votes)
        k, metrics = self.n_neighbors, draws_of(self.metric_)
        near = [found_but_own(m, Q, self.fit_X_, k, None)[1] for m in metrics]
        return np.mean([self.fit_y_[index].mean(1) for index in near], 0)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Compute R² of ``predict``. Warn if a learner was fitted to these data."""
        if getattr(self, "learner_", None) is not None:
            warn_of_training_data(queries_of(self, X), y, self.fit_X_, self.fit_y_)
        predicted, values = self.predict(X), real(y, "y")
        if values.shape[:1] != predicted.shape or values.size != predicted.size:
            raise ValueError(f"y must have shape {predicted.shape}, got {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(
                "y must be finite, got NaN or infinity. Leave out these rows."
            )
        w = check_weights(sample_weight, len(predicted))
        return float(r2_score(values.ravel(), predicted, sample_weight=w))

    def _ballots(self) -> Float[np.ndarray, "n 2"]:
        u = (self.fit_y_ - self.fit_y_.min()) / (np.ptp(self.fit_y_) or 1.0)
        return np.stack([1 - u, u], 1)

    def _in_units(self, votes: Float[np.ndarray, "*m c"]) -> Float[np.ndarray, "*m"]:
        """Convert votes for ``_ballots`` to predictions in units of y."""
        return self.fit_y_.min() + np.ptp(self.fit_y_) * votes[..., 1]


def quantile_codes(y: Float[np.ndarray, "n"], n_bins: int) -> Int[np.ndarray, "n"]:
    """Divide values into at most ``n_bins`` classes of about equal size.

    Equal values are in the same class. If most values equal the smallest value, all
    other values form the second class. A class of one point is merged with the next.
    """
    cuts = np.quantile(y, np.arange(1, n_bins) / n_bins)
    cuts, above = cuts[cuts > y.min()], y[y > y.min()]
    if not len(cuts) and len(above):
        cuts = above.min(keepdims=True)
    codes = np.unique(np.searchsorted(cuts, y, side="right"), return_inverse=True)[1]
    n_below = np.cumsum(np.bincount(codes))
    joined, start = np.zeros(len(n_below), int), 0
    for k, end in enumerate(n_below[:-1]):
        whole = min(end - start, len(y) - end) >= 2
        joined[k + 1], start = joined[k] + whole, end if whole else start
    return joined[codes]
