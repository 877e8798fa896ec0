"""A nearest-neighbour regressor for any metric, learned or not, or for draws of one.

As ``neighbors.classifier``: the same metrics, votes and scale. The prediction is the
mean of the values of y under the weights of the neighbours, and the mean over draws.
With u = (y - min y) / (max y - min y) in [0, 1], point j's ballot (``neighbors.votes``)
is (1 - u_j, u_j), and the share of the second column is the prediction of u.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_count, check_number
from probmetric.data.hash import first_best
from probmetric.data.inputs import as_sklearn, check_numeric, check_weights, real
from probmetric.metric.feature_names import check_fitted_columns, remember_columns
from probmetric.neighbors.classifier import grid
from probmetric.neighbors.learned import draws_of, metric_for, warn_of_training_data
from probmetric.neighbors.search import check_dimension, found_but_own
from probmetric.neighbors.votes import BANDWIDTHS, neighborhood


@dataclass(eq=False, repr=False)
class KNeighborsRegressor(RegressorMixin, BaseEstimator):
    """Predict the weighted mean of neighbours, averaged over draws of the metric.

    Parameters
    ----------
    metric : Metric, PosteriorMetric, learner or None
        As in ``KNeighborsClassifier``. A learner is given classes: the values of y
        between its quantiles. That they suit y is not guaranteed; compare with None.
    n_neighbors : int, default 5
        As in ``KNeighborsClassifier``.
    votes : {"soft", "count"}, default "soft"
        Weights of all points, falling off with dissimilarity, or the plain mean of the
        nearest.
    draws : {None, "prediction", "intervals"}, default None
        As in ``KNeighborsClassifier``.
    bandwidth : "loo" or float > 0, default "loo"
        As in ``KNeighborsClassifier``; "loo" takes the least squared error of each
        training point's prediction from the others.
    n_bins : int ≥ 2, default 4
        Classes of about equal size that y is cut into for a learner.

    Attributes
    ----------
    metric_, learner_, scale_, n_features_in_, feature_names_in_
        As in ``KNeighborsClassifier``.
    bandwidth_ : float
        The value in use.
    loo_scores_ : array of shape (g,)
        Minus the mean squared leave-one-out error of each bandwidth tried; NaN where
        nothing was chosen. The metric was learned with the left-out point in.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> knn = KNeighborsRegressor(None, 2, votes="count").fit(X, [0.0, 1.0, 4.0, 9.0])
    >>> knn.predict([[0.4]])
    array([0.5])
    """

    metric: Any = None
    n_neighbors: Any = 5
    _: KW_ONLY
    votes: Any = "soft"
    draws: Any = None
    bandwidth: Any = "loo"
    n_bins: Any = 4

    def fit(self, X: Any, y: Any = None) -> "KNeighborsRegressor":
        """Learn the metric, if asked to; keep the points; choose the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers.

        Returns
        -------
        self
        """
        check_numeric(X)
        if y is None:
            raise ValueError(
                "y: this estimator requires y to be passed, but the target y is None"
            )
        given = X
        X, y = as_sklearn(self, X, real(y, "y"), y_numeric=True)
        remember_columns(self, given)
        n = len(X)
        check_choice("votes", self.votes, ("soft", "count"))
        k = check_number("n_neighbors", self.n_neighbors, 1, 10**6, whole=True)
        if self.votes == "count":
            k = check_count("n_neighbors", k, n, f"n_samples = {n}")
        check_number(
            "bandwidth", self.bandwidth, 0, open_low=True, open_high=True, word="loo"
        )
        check_number("n_bins", self.n_bins, 2, 10**6, whole=True)
        classes = quantile_codes(y, self.n_bins)
        if hasattr(self.metric, "fit") and not classes.any():
            raise ValueError(
                "y: expected values that make two classes of at least 2 points for "
                f"{type(self.metric).__name__}, got {len(np.unique(y))} values in "
                f"n_samples = {n}; metric=None needs no classes"
            )
        self.metric_, self.learner_ = metric_for(
            self.metric, self.draws, given, classes, X.shape[1]
        )
        metrics = draws_of(self.metric_)
        check_dimension(metrics[0], X, "X")
        self.fit_X_, self.fit_y_ = X, y
        tried = grid(self.bandwidth, BANDWIDTHS)
        self.loo_scores_ = np.full(len(tried), np.nan)
        if self.votes == "soft":
            b = tried if n > 1 and len(tried) > 1 else ()
            k = min(k, max(1, n - 1))
            self._near, votes = neighborhood(metrics, X, k, b, self._ballots(), 2)
            self.scale_ = self._near.scales
            if b:
                self.loo_scores_ = -np.mean((self._in_units(votes) - y) ** 2, 1)
        best = len(tried) // 2
        if np.isfinite(self.loo_scores_).any():
            best = first_best(self.loo_scores_)
        self.bandwidth_ = tried[best]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted mean of y at each row of X, shape (m,)."""
        Q = self._queries(X)
        if self.votes == "soft":
            votes = self._near.votes([self.bandwidth_], Q, self._ballots(), 2)
            return self._in_units(votes)[0]
        k, found = self.n_neighbors, draws_of(self.metric_)
        near = [found_but_own(m, Q, self.fit_X_, k, None)[1] for m in found]
        return np.mean([self.fit_y_[index].mean(1) for index in near], 0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of ``predict``; warn where the metric has seen points of X.

        Parameters
        ----------
        X : array-like of shape (m, d)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
        """
        if getattr(self, "learner_", None) is not None:
            warn_of_training_data(self._queries(X), y, self.fit_X_, self.fit_y_)
        found, values = self.predict(X), real(y, "y")
        if values.shape[:1] != found.shape or values.size != found.size:
            raise ValueError(f"y: expected shape {found.shape}, got {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("y: expected finite numbers, got NaN or infinity")
        w = check_weights(sample_weight, len(found))
        return float(r2_score(values.ravel(), found, sample_weight=w))

    def _ballots(self) -> np.ndarray:
        """Return each point's vote, shared out between the least and largest y."""
        u = (self.fit_y_ - self.fit_y_.min()) / (np.ptp(self.fit_y_) or 1.0)
        return np.stack([1 - u, u], 1)

    def _in_units(self, votes: np.ndarray) -> np.ndarray:
        """Return predictions (g, m) in units of y from votes for ``_ballots``."""
        return self.fit_y_.min() + np.ptp(self.fit_y_) * votes[..., 1]

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        check_numeric(X)
        check_fitted_columns(self, X)
        return np.asarray(as_sklearn(self, X, reset=False))


def quantile_codes(y: Float[np.ndarray, "n"], n_bins: int) -> Int[np.ndarray, "n"]:
    """Return which of ``n_bins`` classes of about equal size each value falls into.

    Equal values are of one class, so that there may be fewer; where most are the least
    one, those above it are the other class. A class of one point, of which a learner
    learns nothing, joins the next.
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
