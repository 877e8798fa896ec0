"""A nearest-neighbour classifier for any metric, or for a posterior of metrics.

Scikit-learn's conventions; the mathematics is in ``neighbors.search`` (which points are
near) and ``neighbors.votes`` (how they vote). A posterior is any
``metric.protocol.MetricDraws``. The arguments are checked first, and an error names
the argument.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from probmetric.arguments import check_choice, check_number
from probmetric.linalg_scaled import roots
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.range import at_ordinary_scale, refuse_far
from probmetric.neighbors.search import check_dimension, found_but_own
from probmetric.neighbors.votes import (
    BANDWIDTHS,
    PRIOR_WEIGHTS,
    count_votes,
    leave_one_out,
    mix_prior,
    neighborhood_scale,
    soft_votes,
    untuned,
)


def check_arguments(classifier: Any, n: int) -> None:
    """Say which argument is wrong, what was expected and what came."""
    check_choice("votes", classifier.votes, tuple(PRIOR_WEIGHTS))
    k = check_number("n_neighbors", classifier.n_neighbors, 1, whole=True)
    if classifier.votes == "count" and k > n:
        raise ValueError(
            f"n_neighbors: expected at most the number of samples, {n} samples "
            f"(n_samples = {n}), got {k}"
        )
    tuned = partial(check_number, open_high=True, word="loo")
    tuned("bandwidth", classifier.bandwidth, 0, open_low=True)
    most = 1 if classifier.votes == "soft" else np.inf
    tuned("prior_weight", classifier.prior_weight, 0, most)
    check_number("reject_below", classifier.reject_below, 0, 1)
    if classifier.reject_below > 0:
        common_type(classifier.classes_, classifier.reject_label)


def draws_of(metric: Any) -> list[Dissimilarity]:
    """Return the draws of a posterior, or the one metric."""
    if isinstance(metric, MetricDraws):
        return metric.metrics()
    if not isinstance(metric, Dissimilarity):
        raise ValueError(
            "metric: expected a Metric, a PosteriorMetric or None, got "
            f"{type(metric).__name__}"
        )
    return [metric]


def grid(value: str | float, default: tuple[float, ...]) -> tuple[float, ...]:
    """Return the values to try: the default under "loo", else the one given."""
    return default if isinstance(value, str) else (float(value),)


def common_type(classes: np.ndarray, label: Any) -> np.dtype:
    """Return the type of an array of classes and the label of abstention."""
    given = np.asarray(label)
    kinds = {
        "number" if a.dtype.kind in "iufb" else a.dtype.kind for a in (classes, given)
    }
    if label is None or given.ndim or len(kinds) > 1 or label in classes:
        raise ValueError(
            f"reject_label: expected a label beside the classes {classes.tolist()} and "
            f"of their kind, got {label!r}"
        )
    return np.result_type(classes, given)


@dataclass(eq=False, repr=False)
class KNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """Classify by the votes of neighbours, averaged over draws of the metric.

    Parameters
    ----------
    metric : Metric, PosteriorMetric or None
        What was learned; None is the Euclidean distance. A posterior's
        *probabilities* are averaged, never its distances.
    n_neighbors : int, default 5
        Who votes, with count votes; with soft votes every point votes and this sets
        the scale on which the bandwidth is measured.
    votes : {"soft", "count"}, default "soft"
        Weights falling off with dissimilarity, or one vote for each of the nearest.
        Averaged count votes are under-confident (their calibration error rose by .03
        to .05 on eight data sets); soft votes are not.
    bandwidth : "loo" or float > 0, default "loo"
        Bandwidth of soft votes in units of the metric's own neighbourhood, so that
        rescaling a metric changes nothing. "loo": of .1, .25, .5, 1, 2, 4, the best
        log score of the averaged prediction of each training point from the others.
    prior_weight : "loo" or float ≥ 0, default "loo"
        Weight of the training shares of the classes: for count votes a number of
        extra votes ("loo": of .5, 1, 2, 4); for soft votes a share in [0, 1)
        ("loo" chooses only the bandwidth there and keeps .02).
    reject_below : float in [0, 1], default 0
        ``predict`` abstains where the largest averaged probability is below this.
        Under equal costs c of abstaining and 1 of an error, 1 - c is the optimal
        threshold of a calibrated classifier (Chow's rule).
    reject_label : label, optional
        What ``predict`` returns where it abstains: no class, and of a kind that
        shares an array with the classes. Needed if ``reject_below`` > 0.
        ``score`` counts an abstention as an error.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_prior_ : array of shape (c,)
        Training shares.
    metric_ : Metric or PosteriorMetric
        The metric in use.
    bandwidth_, prior_weight_ : float
        The values in use.
    scale_ : array of shape (s,)
        The neighbourhood of each draw, for soft votes (see ``neighbors.votes``); of
        the draw times a power of two where float64 does not hold its squares.
    loo_scores_ : array of shape (g, a)
        Mean leave-one-out log score over the grids (bandwidth, prior weight); NaN
        where nothing was chosen. The metric itself was learned with the left-out
        point in, so these scores are optimistic about the metric.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions
    on Information Theory 16 (1970).
    """

    metric: Any = None
    n_neighbors: Any = 5
    _: KW_ONLY
    votes: Any = "soft"
    bandwidth: Any = "loo"
    prior_weight: Any = "loo"
    reject_below: Any = 0.0
    reject_label: Any = None

    def fit(self, X: Any, y: Any) -> "KNeighborsClassifier":
        """Keep the training points; choose bandwidth and prior weight.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        check_arguments(self, len(X))
        metric = self.metric
        if metric is None:
            metric = Mahalanobis(np.eye(X.shape[1]))
        metrics = draws_of(metric)
        check_dimension(metrics[0], X, "X")
        n, c, soft = len(X), len(self.classes_), self.votes == "soft"
        self.metric_, self.fit_X_, self.codes_ = metric, X, codes
        self.class_prior_ = np.bincount(codes, minlength=c) / n
        k = min(self.n_neighbors, max(1, n - 1))
        if soft:
            metrics, self._power = at_ordinary_scale(metrics, X)
            self._metrics, X = metrics, np.ldexp(X, -self._power)
            self._refuse_far(X)
            self.scale_ = np.array([neighborhood_scale(m, X, k) for m in metrics])
        grids = (
            grid(self.bandwidth, BANDWIDTHS if soft else (1.0,)),
            grid(self.prior_weight, PRIOR_WEIGHTS[self.votes]),
        )
        if n == 1 or max(map(len, grids)) == 1:
            tuned = untuned(*grids)
        else:
            own = np.arange(n)
            if soft:
                tried = np.array(grids[0])
                votes = soft_votes(metrics, self.scale_, tried, X, X, codes, c, own)
            else:
                votes = count_votes(metrics, X, X, codes, k, c, own)[None]
            tuned = leave_one_out(votes, codes, *grids, None if soft else k)
        self.bandwidth_, self.prior_weight_, self.loo_scores_ = tuned
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (m, c), averaged over draws; rows sum to one."""
        Q, c, k = self._queries(X), len(self.classes_), self.n_neighbors
        if self.votes == "soft":
            with np.errstate(over="ignore"):  # Refused by its name in the next line.
                Q, fitted = (np.ldexp(A, -self._power) for A in (Q, self.fit_X_))
            self._refuse_far(Q)
            args = self._metrics, self.scale_, np.array([self.bandwidth_])
            votes, k = soft_votes(*args, Q, fitted, self.codes_, c)[0], None
        else:
            votes = count_votes(
                draws_of(self.metric_), Q, self.fit_X_, self.codes_, k, c
            )
        return mix_prior(votes, self.class_prior_, self.prior_weight_, k)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class (m,), the first of equals, or abstain."""
        probabilities = self.predict_proba(X)
        labels = self.classes_[probabilities.argmax(1)]
        if self.reject_below > 0:
            labels = labels.astype(
                common_type(self.classes_, self.reject_label), copy=False
            )
            labels[probabilities.max(1) < self.reject_below] = self.reject_label
        return labels

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training points, as scikit-learn's method of that name.

        Under a posterior the order is that of the mean dissimilarity over draws, i.e.
        under E[M] for Mahalanobis kinds; how sure a neighbour is one is answered by
        ``PosteriorMetric.neighbor_probability``.

        Parameters
        ----------
        X : array-like of shape (m, d), optional
            Queries. Without them, the training points, none its own neighbour.
        n_neighbors : int, optional
            Default: that of the classifier.
        return_distance : bool, default True

        Returns
        -------
        distances : array of shape (m, k)
            Distances (not squared) where the metric is one, otherwise
            dissimilarities. Only with ``return_distance``.
        indices : array of shape (m, k)
            Of equally near points the lower index comes first.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        metric: Any = self.metric_
        if isinstance(metric, MetricDraws):
            metric = metric.mean_metric()
        Q = self.fit_X_ if X is None else self._queries(X)
        own = np.arange(len(Q)) if X is None else None
        D, index, e = found_but_own(metric, Q, self.fit_X_, k, own)
        if not return_distance:
            return index
        if isinstance(metric, Mahalanobis):
            return roots(D, e, "X"), index
        if metric.is_distance:
            rows = np.repeat(np.arange(len(Q)), k)
            D = np.asarray(metric.distance(Q[rows], self.fit_X_[index.ravel()]))
        return D.reshape(index.shape), index

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: str = "connectivity",
    ) -> csr_matrix:
        """Return the neighbours as a sparse matrix (m, n) of ones or distances.

        Parameters
        ----------
        X, n_neighbors
            As `kneighbors`.
        mode : {"connectivity", "distance"}, default "connectivity"

        Returns
        -------
        scipy.sparse.csr_matrix of shape (m, n)
        """
        check_choice("mode", mode, ("connectivity", "distance"))
        D, index = self.kneighbors(X, n_neighbors)
        values = D.ravel() if mode == "distance" else np.ones(index.size)
        starts = np.arange(0, index.size + 1, index.shape[1])
        return csr_matrix(
            (values, index.ravel(), starts), shape=(len(index), len(self.fit_X_))
        )

    def _refuse_far(self, Q: np.ndarray) -> None:
        for metric in self._metrics:
            refuse_far(metric, Q, "X")

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
