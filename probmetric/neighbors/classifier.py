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
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.choose import picked
from probmetric.data.inputs import (
    as_sklearn,
    check_numeric,
    check_one_kind,
    label_codes,
)
from probmetric.data.source import Source, is_source, n_features, n_rows
from probmetric.data.truth import TellsClasses
from probmetric.data.unlabeled import leave_out, refuse_unlabeled, warn_of_unlabeled
from probmetric.linalg_scaled import roots
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import check_fitted_columns, remember_columns
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.learned import draws_of, metric_for, warn_of_training_data
from probmetric.neighbors.search import check_dimension, found_but_own, nearest
from probmetric.neighbors.source_votes import Voters, counted, left_out, voters
from probmetric.neighbors.votes import (
    BANDWIDTHS,
    PRIOR_WEIGHTS,
    count_votes,
    leave_one_out,
    mix_prior,
    neighborhood,
    untuned,
)


def check_arguments(classifier: Any, n: int) -> None:
    """Say which argument is wrong, what was expected and what came."""
    check_choice("votes", classifier.votes, tuple(PRIOR_WEIGHTS))
    k = check_number("n_neighbors", classifier.n_neighbors, 1, 10**6, whole=True)
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
class KNeighborsClassifier(TellsClasses, BaseEstimator):
    """Classify by the votes of neighbours, averaged over draws of the metric.

    Parameters
    ----------
    metric : Metric, PosteriorMetric, learner or None
        What was learned; None is the Euclidean distance. A posterior's
        *probabilities* are averaged, never its distances. A learner, such as
        ``LCA()``, is cloned and learns inside ``fit`` from the points given there
        (one of groups takes the classes as groups), so that cross-validation judges
        both together and ``metric__regularization`` is a parameter of both (draws for
        prediction may choose a prior of their own: see ``posterior_metric``). A metric
        given as it is does not say what it was learned from: judge it on other points.
    n_neighbors : int, default 5
        Who votes, with count votes; with soft votes every point votes and this sets
        the scale on which the bandwidth is measured.
    votes : {"soft", "count"}, default "soft"
        Weights falling off with dissimilarity, or one vote for each of the nearest.
        Averaged count votes are under-confident (their calibration error rose by .03
        to .05 on eight data sets); soft votes are not.
    draws : {None, "prediction", "intervals"}, default None
        What the learner's ``posterior_metric`` is asked for; None is its one metric.
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
    unlabeled : label, default="warn"
        Rows with this label are left out, also by ``score``, for example -1; NaN also
        stands for None. None and "warn" use every label as a class, and "warn" warns
        about a -1.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_prior_ : array of shape (c,)
        Training shares.
    metric_ : Metric or PosteriorMetric
        The metric in use.
    learner_ : estimator or None
        The learner, fitted.
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

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from probmetric import LDA, datasets
    >>> X, y = datasets.load("iris")
    >>> bool(cross_val_score(KNeighborsClassifier(LDA()), X, y, cv=3).mean() > 0.9)
    True

    References
    ----------
    C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions
    on Information Theory 16 (1970).
    """

    metric: Any = None
    n_neighbors: Any = 5
    _: KW_ONLY
    votes: Any = "soft"
    draws: Any = None
    bandwidth: Any = "loo"
    prior_weight: Any = "loo"
    reject_below: Any = 0.0
    reject_label: Any = None
    unlabeled: Any = "warn"

    def fit(self, X: Any, y: Any = None) -> "KNeighborsClassifier":
        """Learn the metric, if asked to; keep the points; choose bandwidth and prior.

        Parameters
        ----------
        X : array-like of shape (n, d), or Source
            Rows of a source (``pm.open`` with labels) stay where they are: count votes
            alone are cast, by neighbours that each prediction reads all rows for, and
            ``prior_weight="loo"`` is chosen by 2000 rows (all, where they are fewer),
            each left out in turn.
        y : array-like of shape (n,)
            None with a source.

        Returns
        -------
        self
        """
        vars(self).pop("voters_", None)
        if is_source(X):
            return self._fit_source(X, y)
        if y is None:
            raise ValueError(
                "y: this estimator requires y to be passed, but the target y is None"
            )
        y, X = leave_out(self.unlabeled, y, X)
        check_numeric(X)
        check_one_kind(y)
        given = X
        X, y = as_sklearn(self, X, y)
        remember_columns(self, given)
        self.classes_, codes = label_codes(y)
        warn_of_unlabeled(self.unlabeled, self.classes_, "y")
        check_arguments(self, len(X))
        learn = metric_for(self.metric, self.draws, given, y, X.shape[1])
        metric, self.learner_ = learn
        metrics = draws_of(metric)
        check_dimension(metrics[0], X, "X")
        n, c, soft = len(X), len(self.classes_), self.votes == "soft"
        self.metric_, self.fit_X_, self.codes_ = metric, X, codes
        self.class_prior_ = np.bincount(codes, minlength=c) / n
        k = min(self.n_neighbors, max(1, n - 1))
        grids = (
            grid(self.bandwidth, BANDWIDTHS if soft else (1.0,)),
            grid(self.prior_weight, PRIOR_WEIGHTS[self.votes]),
        )
        tune = n > 1 and max(map(len, grids)) > 1
        votes = np.empty((0, n, c))
        if soft:
            tried = grids[0] if tune else ()
            self._near, votes = neighborhood(metrics, X, k, tried, codes, c)
            self.scale_ = self._near.scales
        elif tune:
            votes = count_votes(metrics, X, X, codes, k, c, np.arange(n))[None]
        tuned = untuned(*grids)
        if tune:
            tuned = leave_one_out(votes, codes, *grids, None if soft else k)
        self.bandwidth_, self.prior_weight_, self.loo_scores_ = tuned
        return self

    def _fit_source(self, source: Source, y: object) -> "KNeighborsClassifier":
        """Fit to rows that are read in parts."""
        if y is not None:
            raise ValueError(
                "y: expected None beside a source, whose labels are given as "
                "pm.open(..., label=)"
            )
        if self.votes != "count":
            check_choice("votes", self.votes, tuple(PRIOR_WEIGHTS))
            raise ValueError(
                "votes: expected 'count' where points are read from a source, got "
                f"{self.votes!r}, by which all points vote for every query"
            )
        refuse_unlabeled(self.unlabeled)
        among = voters(source)
        self.classes_, n = among.classes, n_rows(source)
        warn_of_unlabeled(self.unlabeled, self.classes_, "label")
        check_arguments(self, n)
        names, d = [*source.feature_names], n_features(source)
        self.metric_, self.learner_ = metric_for(
            self.metric, self.draws, source, None, d
        )
        metrics = draws_of(self.metric_)
        check_dimension(metrics[0], np.zeros((1, d)), "X")
        self.n_features_in_ = d
        for name in ("feature_names_in_", "_columns"):
            vars(self).pop(name, None)
        if names != [f"x{j}" for j in range(d)]:
            self.feature_names_in_ = np.array(names, object)
        self.class_prior_ = among.members / n
        grids = (
            grid(self.bandwidth, (1.0,)),
            grid(self.prior_weight, PRIOR_WEIGHTS["count"]),
        )
        tuned = untuned(*grids)
        if n > 1 and max(map(len, grids)) > 1:
            k = min(self.n_neighbors, n - 1)
            votes, codes = left_out(metrics, among, k)
            tuned = leave_one_out(votes[None], codes, *grids, k, among.members)
        self.bandwidth_, self.prior_weight_, self.loo_scores_ = tuned
        self.voters_ = among
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities (m, c), averaged over draws; rows sum to one."""
        Q, c, k = self._queries(X), len(self.classes_), self.n_neighbors
        among: Voters | None = getattr(self, "voters_", None)
        if among is not None:
            votes = counted(draws_of(self.metric_), Q, among, k)
        elif self.votes == "soft":
            votes, k = self._near.votes([self.bandwidth_], Q, self.codes_, c)[0], None
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

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return logarithms of ``predict_proba`` (m, c); that of 0 is -inf."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right labels; warn for the rows that taught the metric.

        The warning needs a metric learned inside ``fit``, and the rows and labels of
        ``fit`` in their order. Other equal rows are ignored: data have duplicates.

        Parameters
        ----------
        X : array-like of shape (m, d)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
        """
        learned = getattr(self, "learner_", None) is not None
        if learned and not hasattr(self, "voters_"):
            warn_of_training_data(
                self._queries(X), y, self.fit_X_, self.classes_[self.codes_]
            )
        return super().score(X, y, sample_weight)

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
        if (among := getattr(self, "voters_", None)) is not None:
            found = _near_in_source(metric, self._source_queries(X), among.source, k)
            return found if return_distance else found[1]
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
            (values, index.ravel(), starts), shape=(len(index), self._n_points())
        )

    def _n_points(self) -> int:
        among: Voters | None = getattr(self, "voters_", None)
        return len(self.fit_X_) if among is None else n_rows(among.source)

    def _source_queries(self, X: Any) -> np.ndarray:
        if X is None:
            raise ValueError(
                "X: expected queries where points are read from a source, got None"
            )
        return self._queries(X)

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        check_numeric(X)
        check_fitted_columns(self, X)
        return np.asarray(as_sklearn(self, X, reset=False))


def _near_in_source(
    metric: Any, Q: np.ndarray, source: Source, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances, or dissimilarities, and rows of the k nearest of a source."""
    D, index = nearest(metric, Q, source, k)
    if isinstance(metric, Mahalanobis):
        return np.sqrt(D), index
    if metric.is_distance:
        found = picked(source, index.ravel())
        P = found.X[np.searchsorted(found.rows, index.ravel())]
        D = np.asarray(metric.distance(np.repeat(Q, k, 0), P)).reshape(index.shape)
    return D, index
