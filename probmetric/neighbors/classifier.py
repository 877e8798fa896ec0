"""A nearest-neighbor classifier for any metric, or for draws of a metric.

The classifier follows scikit-learn's conventions. ``neighbors.search`` finds the
neighbors, and ``neighbors.votes`` defines the votes. A posterior is any object with the
interface ``metric.protocol.MetricDraws``.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, cast

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.inputs import (
    as_sklearn,
    check_numeric,
    check_one_kind,
    check_weights,
    label_codes,
    pair_points,
)
from probmetric.data.truth import BaseRates, TellsClasses, at_base_rates, shift_to
from probmetric.data.unlabeled import leave_out, warn_of_unlabeled
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import (
    described,
    names_of,
    remember_columns,
    with_factors,
    with_factors_in_rows,
)
from probmetric.neighbors.learned import (
    draws_of,
    metric_for,
    queries_of,
    warn_of_training_data,
)
from probmetric.neighbors.same import label_places, same_class
from probmetric.neighbors.search import check_dimension, nearest, rows_at
from probmetric.neighbors.stacking import fit_stack
from probmetric.neighbors.typicality import (
    MOST_REFITTED,
    Reference,
    check_novelty,
    fold_rows,
    reference,
    scores_of,
    single,
)
from probmetric.neighbors.votes import (
    GRIDS,
    PRIOR_WEIGHTS,
    Grids,
    Votes,
    count_votes,
    leave_one_out,
    mix_prior,
    neighborhood,
    scored_rows,
    untuned,
)
from probmetric.typing import ArrayLike, Purpose


def grid(value: str | float, default: tuple[float, ...]) -> tuple[float, ...]:
    """Return the values to try: the default grid if "loo", otherwise the value."""
    return default if isinstance(value, str) else (float(value),)


def common_type(classes: np.ndarray, label: object, name: str) -> np.dtype:
    """Return a dtype for both classes and ``label``, the value of argument ``name``."""
    labels = np.asarray(label)
    kinds = {
        "number" if a.dtype.kind in "iufb" else a.dtype.kind for a in (classes, labels)
    }
    if label is None or labels.ndim or len(kinds) > 1 or label in classes:
        raise ValueError(
            f"{name} must have the type of the classes {classes.tolist()} and must not "
            f"be one of the classes, got {label!r}. Choose another label."
        )
    return np.result_type(classes, labels)


@dataclass(eq=False, repr=False)
class KNeighborsClassifier(TellsClasses, BaseEstimator):
    """Classify by votes of neighbors under a metric, or under draws of a metric.

    Parameters
    ----------
    metric : Metric, PosteriorMetric, learner, None, or list of them, default=None
        Metric used to find neighbors.

        - None: the Euclidean distance.
        - A learner, such as ``LCA()``, is cloned and fitted in ``fit``, so
          cross-validation evaluates the learner and the classifier together. Its
          parameters have names such as ``metric__regularization``. If it requires
          groups, as ``TwoStageMixture`` does, the classes are used as groups.
        - A fitted ``Metric`` or ``PosteriorMetric``: evaluate the classifier on points
          that the metric was not learned from. Class *probabilities* (not distances)
          are averaged over the draws of a ``PosteriorMetric``.
        - A list: each metric is fitted six times. Class probabilities are averaged with
          weights that maximize the held-out log score (Bayesian stacking).
    n_neighbors : int, default=5
        With ``votes="count"``, the number k of neighbors that vote. With
        ``votes="soft"``, all points vote. The unit of ``bandwidth`` is then the median
        dissimilarity of a point to its k-th neighbor (for linear maps, the median
        squared distance).
    votes : {"soft", "count"}, default="soft"
        How training points vote for their classes. "soft": every point votes, with a
        weight that decreases with its dissimilarity. "count": each of the k nearest
        neighbors has one vote. Use "soft" with draws of a metric, because averages of
        "count" votes are underconfident.
    draws : {None, "prediction", "intervals"}, default=None
        None uses one metric: ``metric``, or the fitted metric of a learner. Otherwise
        ``metric`` must be a learner. Class probabilities are then averaged over the
        posterior draws of ``posterior_metric("prediction")`` or ("intervals"). After a
        fit to labels, ``LCA`` only supports "prediction".
    bandwidth : "loo" or float > 0, default="loo"
        Bandwidth of soft votes. With a larger bandwidth, distant points have more
        weight. For its unit see ``n_neighbors``. The unit is proportional to the
        metric, so rescaling a metric has no effect. "loo" chooses the bandwidth (0.05
        to 4) and ``sharpness`` together, by leave-one-out: at most 2000 training points
        are predicted without their own vote.
    sharpness : "loo" or float > 0, default="loo"
        Exponent of soft votes. With 1, the probability of a class is the sum of the
        weights of its points, divided by the sum of all weights. Larger values increase
        the probability of the class with the largest mean weight. "loo" chooses among
        1, 1.5, 2 and 3.
    prior_weight : "loo" or float ≥ 0, default="loo"
        Weight of the training class frequencies, which are averaged with the votes. For
        "soft" votes it is in [0, 1), and "loo" uses 0.02. For "count" votes it is a
        number of extra neighbors, and "loo" chooses among 0.5, 1, 2 and 4.
    reject_below : float in [0, 1], default=0
        ``predict`` abstains if the largest class probability is below this threshold.
        If abstaining costs c and an error costs 1, the optimal threshold of a
        calibrated classifier is 1 - c (Chow's rule). To find points far from all
        classes, use ``novelty``, because one class may be probable even there.
    reject_label : label, optional
        Value that ``predict`` returns if it abstains. The label must have the type of
        the classes and must not be a class. Required if ``reject_below`` > 0. ``score``
        counts abstentions as errors.
    class_prior : array-like of shape (c,), or mapping, optional
        Class frequencies in the population to predict, in the order of ``classes_`` or
        as a mapping from class to frequency. Class probabilities are multiplied by
        population frequency / training frequency, and normalized. Default: the training
        frequencies.
    novelty : float in (0, 1), optional
        Nominal false-positive rate: the fraction of new points of the training classes
        that are called novel. A point is novel if its p-value (``typicality``) is at
        most ``novelty``, and ``predict`` then returns ``outlier_label``. At least
        1/novelty - 1 training points are required (19 for 0.05). ``predict_proba`` does
        not change. Default: no point is called novel.
    outlier_label : label, optional
        Value that ``predict`` returns for a novel point. The label must have the type
        of the classes and must not be a class. Required with ``novelty``.
    unlabeled : label, default="warn"
        Value in y that marks unlabeled rows, such as -1. ``fit`` and ``score`` ignore
        these rows. If ``unlabeled`` is NaN, rows whose label is NaN or None are
        unlabeled. With "warn" or None, every value is a label. "warn" also warns if -1
        occurs besides labels such as 0 and 1.

    Attributes
    ----------
    classes_ : array of shape (c,)
        Class labels in sorted order.
    class_prior_ : array of shape (c,)
        Class frequencies of the training points.
    metric_ : Metric or PosteriorMetric
        Metric that is used to find neighbors.
    learner_ : estimator or None
        Fitted learner, or None if ``metric`` is not a learner.
    parts_ : list of k KNeighborsClassifier
        One classifier per metric if ``metric`` is a list, otherwise empty. Other
        attributes and ``kneighbors`` then refer to the classifier with the largest
        weight.
    weights_, weights_sd_ : arrays of shape (k,)
        Weights of ``parts_``, which sum to one, and their posterior standard
        deviations. Only for a list of metrics.
    bandwidth_, sharpness_, prior_weight_ : float
        Values used in predictions.
    scale_ : array of shape (s,)
        Unit of the bandwidth under each of s draws. Only for soft votes.
    loo_scores_ : array of shape (g, t, w)
        Mean leave-one-out log score of each combination that "loo" tried: g bandwidths,
        t values of the sharpness, and w prior weights. NaN if "loo" was not used. If
        the metric was learned from the training points, scores are too high.
    n_features_in_, feature_names_in_
        Number and names of features, as in scikit-learn.

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

    # The package reports wrong values, not the type checker.
    __no_type_check__: ClassVar[bool] = True

    metric: object = None
    n_neighbors: int = 5
    _: KW_ONLY
    votes: Literal["soft", "count"] = "soft"
    draws: Purpose | None = None
    bandwidth: float | Literal["loo"] = "loo"
    sharpness: float | Literal["loo"] = "loo"
    prior_weight: float | Literal["loo"] = "loo"
    reject_below: float = 0.0
    reject_label: object = None
    class_prior: BaseRates = None
    novelty: float | None = None
    outlier_label: object = None
    unlabeled: object = "warn"

    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> "KNeighborsClassifier":
        """Fit the metric if it is a learner, choose "loo" parameters, and store points.

        Parameters
        ----------
        X : array-like of shape (n, d), or dataset on disk
            Training points, or a dataset on disk (``pm.open`` with labels). A dataset
            on disk requires ``votes="count"``, and each call of ``predict`` reads all
            rows.
        y : array-like of shape (n,), optional
            Classes of the points. Must be None for a dataset on disk.
        sample_weight : array-like of shape (n,), optional
            Weights of the points, ≥ 0. They multiply the votes and the leave-one-out
            scores of the points. If ``metric`` is a learner whose ``fit`` has
            ``sample_weight``, its fit uses them too. Default: 1 for all.
        """
        if y is None:
            raise ValueError(
                "y: this estimator requires y to be passed, but the target y is None"
            )
        labels, rows, w = leave_out(self.unlabeled, y, X, sample_weight)
        if w is not None:
            w = check_weights(w, len(np.asarray(labels)))
            w, labels, rows = leave_out(0, w, labels, rows, name="sample_weight")
        fixed = None if hasattr(self.metric, "fit") else names_of(self.metric)
        rows = with_factors(self, rows, reset=True, names=fixed)
        check_numeric(rows)
        check_one_kind(labels)
        P, labels = as_sklearn(self, rows, labels)
        remember_columns(self, rows)
        self.classes_, codes = label_codes(labels)
        warn_of_unlabeled(self.unlabeled, self.classes_, "y")
        n, c, soft = len(P), len(self.classes_), self.votes == "soft"
        self._check_arguments(n)
        if isinstance(self.metric, list | tuple):
            return self._fit_stack(described(self, P), labels, codes, w)
        self.parts_: list[KNeighborsClassifier] = []
        metrics = self._set_metric(rows, labels, P.shape[1], w)
        self.fit_X_, self.codes_, self._w = P, codes, w
        members = np.bincount(codes, w, minlength=c)
        self.class_prior_ = members / members.sum()
        shift_to(self.class_prior, self.classes_, self.class_prior_)
        k = min(self.n_neighbors, max(1, n - 1))
        grids, tune = self._grids(n)
        at, votes = scored_rows(P, codes), np.empty((0, 1, n))
        if soft:
            b = grids[0] if tune else ()
            made = neighborhood(metrics, P, k, b, self._ballots(), c, at, grids[1])
            self._near, votes = made
            if w is not None:
                votes = votes[:, :, np.arange(len(at)), codes[at]]
            self.scale_ = self._near.scales
        elif tune:
            votes = count_votes(metrics, P[at], P, codes, k, c, at, w)
            votes = votes[None, None, np.arange(len(at)), codes[at]]
        w = None if w is None else w[at]
        self._tune(votes, codes[at], members, grids, tune, None if soft else k, w)
        self._set_reference()
        return self

    def _fit_stack(
        self,
        X: Float[np.ndarray, "n d"],
        labels: np.ndarray,
        codes: Int[np.ndarray, "n"],
        w: Float[np.ndarray, "n"] | None,
    ) -> "KNeighborsClassifier":
        """Fit one classifier per metric. Copy the classifier of largest weight."""
        if w is not None:
            raise ValueError(
                "sample_weight must be None for a list of metrics, got weights. Use a "
                "single metric, or no weights."
            )
        if not self.metric:
            raise ValueError(
                "metric must contain at least one metric, got an empty list"
            )
        metrics: Any = clone(cast("Any", self.metric), safe=False)
        plain = dict.fromkeys(("novelty", "unlabeled", "class_prior"))
        parts: list[Any] = [
            cast("Any", clone(self)).set_params(
                metric=metric, reject_below=0.0, **plain
            )
            for metric in metrics
        ]
        parts, weights = fit_stack(parts, X, labels, codes)
        fitted, settings = vars(parts[weights.weights.argmax()]), self.get_params(False)
        vars(self).update({k: v for k, v in fitted.items() if k not in settings})
        self.parts_, (self.weights_, self.weights_sd_, _) = parts, weights
        shift_to(self.class_prior, self.classes_, self.class_prior_)
        self._set_reference()
        return self

    def _ballots(self) -> Votes:
        """Return the classes of the points, or their weights by class (n, c)."""
        if self._w is None:
            return self.codes_
        return self._w[:, None] * np.eye(len(self.classes_))[self.codes_]

    def _check_arguments(self, n: int) -> None:
        check_choice("votes", self.votes, tuple(PRIOR_WEIGHTS))
        k = check_number("n_neighbors", self.n_neighbors, 1, 10**6, whole=True)
        if self.votes == "count" and k > n:
            raise ValueError(
                f"n_neighbors must be at most the number of samples, {n} samples "
                f"(n_samples = {n}), got {k}"
            )
        tuned = partial(check_number, open_high=True, word="loo")
        tuned("bandwidth", self.bandwidth, 0, open_low=True)
        tuned("sharpness", self.sharpness, 0, open_low=True)
        most = 1 if self.votes == "soft" else np.inf
        tuned("prior_weight", self.prior_weight, 0, most)
        check_number("reject_below", self.reject_below, 0, 1)
        if self.reject_below > 0:
            common_type(self.classes_, self.reject_label, "reject_label")
        if self.novelty is not None:
            check_novelty(self.novelty, n)
            common_type(self.classes_, self.outlier_label, "outlier_label")

    def _set_metric(
        self,
        X: ArrayLike | Chunked,
        labels: ArrayLike | None,
        d: int,
        w: Float[np.ndarray, "n"] | None = None,
    ) -> list[Dissimilarity]:
        made = metric_for(self.metric, self.draws, X, labels, d, w)
        self.metric_, self.learner_ = made
        metrics = draws_of(self.metric_)
        check_dimension(metrics[0], np.zeros((1, d)), "X")
        return metrics

    def _grids(self, n: int) -> tuple[Grids, bool]:
        bandwidths, sharpness = GRIDS if self.votes == "soft" else ((1.0,), (1.0,))
        grids = (
            grid(self.bandwidth, bandwidths),
            grid(self.sharpness, sharpness),
            grid(self.prior_weight, PRIOR_WEIGHTS[self.votes]),
        )
        return grids, n > 1 and max(map(len, grids)) > 1

    def _tune(
        self,
        votes: Float[np.ndarray, "g t m"],
        codes: Int[np.ndarray, "m"],
        members: Int[np.ndarray, "c"] | Float[np.ndarray, "c"],
        grids: Grids,
        tune: bool,
        k: int | None,
        w: Float[np.ndarray, "m"] | None = None,
    ) -> None:
        tuned = untuned(grids)
        if tune:
            tuned = leave_one_out(votes, codes, members, grids, k, w)
        self.bandwidth_, self.sharpness_, self.prior_weight_, self.loo_scores_ = tuned

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Compute class probabilities, shape (m, c), in the order of ``classes_``."""
        return self._probabilities(queries_of(self, X))

    def _probabilities(
        self, Q: Float[np.ndarray, "m d"], own: Int[np.ndarray, "m"] | None = None
    ) -> Float[np.ndarray, "m c"]:
        shift = shift_to(self.class_prior, self.classes_, self.class_prior_)
        if self.parts_:
            parts = zip(self.weights_, self.parts_, strict=True)
            P = np.sum([w * part._probabilities(Q, own) for w, part in parts], 0)
        else:
            P = self._votes(Q, own)
        if isinstance(shift, float):
            return P
        with np.errstate(divide="ignore"):
            return np.exp(at_base_rates(np.log(P), shift))

    def _votes(
        self, Q: Float[np.ndarray, "m d"], own: Int[np.ndarray, "m"] | None
    ) -> Float[np.ndarray, "m c"]:
        c, k, prior = len(self.classes_), self.n_neighbors, self.class_prior_
        if own is not None:
            w = np.ones(len(self.codes_)) if self._w is None else self._w
            members = np.bincount(self.codes_, w, minlength=c)
            members = members - w[own, None] * np.eye(c)[self.codes_[own]]
            k, prior = min(k, len(w) - 1), members / members.sum(1, keepdims=True)
        if self.votes == "soft":
            tuned, k = (self._ballots(), c, self.sharpness_, own), None
            votes = self._near.votes(self.bandwidth_, Q, *tuned)
        else:
            points = self.fit_X_, self.codes_
            votes = count_votes(draws_of(self.metric_), Q, *points, k, c, own, self._w)
        return mix_prior(votes, prior, self.prior_weight_, k)

    def same_probability(
        self, pairs: ArrayLike, labels: ArrayLike | None = None
    ) -> Float[np.ndarray, "N"]:
        """Compute the probability that the points of a pair have the same class.

        The two points are treated as independent items: the result is the sum over
        classes of the product of their class probabilities. It may be below 1 for equal
        points. For two measurements of one object, use ``TwoStageMixture``.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d)
            Pairs of points. If exactly one point of a pair equals a training row, the
            label of that row is used as the point's class. If both points equal
            training rows, labels are not used, and class probabilities are
            leave-one-out votes. Rows of a dataset on disk are not recognized.
        labels : array-like of shape (N,), optional
            Known classes of the second points. The result is then the first point's
            probability of this class.

        Returns
        -------
        array of shape (N,)
            Probability of each pair.

        Raises
        ------
        ValueError
            If ``labels`` has a class that was not in ``fit``.

        Examples
        --------
        >>> from probmetric import datasets
        >>> X, y = datasets.load("iris")
        >>> knn = KNeighborsClassifier().fit(X[::2], y[::2])
        >>> knn.same_probability([[X[1], X[51]], [X[1], X[3]]]).round(2).tolist()
        [0.01, 0.97]
        """
        check_is_fitted(self)
        pairs = with_factors_in_rows(self, pairs, "pairs")
        points, i, j = pair_points(pairs)
        Q, known = queries_of(self, points), None
        if labels is not None:
            known = label_places(labels, self.classes_, len(i))
        training = self.fit_X_, self.codes_, self._w
        if isinstance(self.fit_X_, Chunked):
            training = Q[:0], np.empty(0, int), None
        c = len(self.classes_)
        return same_class((Q[i], Q[j]), known, training, c, self._probabilities)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class of each row (if tied, the first class).

        Rows may get ``reject_label`` or ``outlier_label`` instead, if these are set.
        """
        probabilities = self.predict_proba(X)
        labels = self.classes_[probabilities.argmax(1)]
        if self.reject_below > 0:
            torn = probabilities.max(1) < self.reject_below
            labels = self._replaced(labels, torn, "reject_label")
        if self.novelty is not None:
            novel = self.typicality(X) <= self.novelty
            labels = self._replaced(labels, novel, "outlier_label")
        return labels

    def _replaced(
        self, labels: np.ndarray, rows: Bool[np.ndarray, "m"], name: str
    ) -> np.ndarray:
        label = getattr(self, name)
        dtype = np.result_type(labels, common_type(self.classes_, label, name))
        labels = labels.astype(dtype, copy=False)
        labels[rows] = label
        return labels

    def typicality(self, X: ArrayLike) -> Float[np.ndarray, "m"]:
        """Compute p-values of "this point belongs to some training class", shape (m,).

        A small p-value means that a point is far from all classes. A point between two
        classes may have a large p-value. The distance from a point to its nearest
        training point is compared with the nearest-neighbor distances of the training
        points. If new points of the training classes are distributed as the training
        points, a fraction of about α has a p-value ≤ α. This fraction may differ
        between classes.

        If ``metric`` is a learner and there are at most 1000 training points, the
        learner is refitted in five folds. Otherwise the metric is not refitted, and
        p-values are too small if it was learned from the training points. With draws of
        a metric, the mean dissimilarity is used. A training point has p-value 1.
        """
        Q = queries_of(self, X)
        if self._reference is None:
            self._reference = self._make_reference()
        return self._reference.p_values(Q)

    def _set_reference(self) -> None:
        self._reference = None
        if self.novelty is not None:
            self._reference = self._make_reference()
            check_novelty(self.novelty, sum(map(len, self._reference.scores)))

    def _make_reference(self) -> Reference:
        X, learner = self.fit_X_, self.learner_
        if isinstance(X, Chunked) or learner is None or len(X) > MOST_REFITTED:
            return reference(self.metric_, X)
        labels, held = self.classes_[self.codes_], fold_rows(X, self.codes_)
        metrics: list[Dissimilarity] = []
        for rows in held:
            part = np.delete(np.arange(len(X)), rows)
            w = None if self._w is None else self._w[part]
            data = X[part], labels[part], X.shape[1], w
            # Classes with a single row in a fold are expected.
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                metrics.append(single(metric_for(learner, self.draws, *data)[0]))
        scores = [scores_of(m, X, r) for m, r in zip(metrics, held, strict=True)]
        return Reference(X, metrics, scores)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Compute the logarithm of ``predict_proba``, shape (m, c)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Compute the accuracy. Warn if a learner was fitted to the same X and y."""
        if getattr(self, "learner_", None) is not None:
            warn_of_training_data(
                queries_of(self, X), y, self.fit_X_, self.classes_, self.codes_
            )
        return super().score(X, y, sample_weight)

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training points, as in scikit-learn.

        If ``metric_`` is a PosteriorMetric, neighbors are ordered by the mean
        dissimilarity over draws. For probabilities of neighbors, use
        ``posterior_metric("intervals").neighbor_probability``.

        Parameters
        ----------
        X : array-like of shape (m, d), optional
            Queries. By default the training points are used, and no point is its own
            neighbor.
        n_neighbors : int, optional
            Number of neighbors k. Default: ``self.n_neighbors``.
        return_distance : bool, default=True
            Whether to return distances as well as indices.

        Returns
        -------
        distances : array of shape (m, k), if ``return_distance``
            Distances (not squared) if ``metric_.is_distance``, otherwise
            dissimilarities.
        indices : array of shape (m, k)
            Row numbers of the neighbors. Ties are ordered by row number.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        metric = single(self.metric_)
        Q = self.fit_X_ if X is None else queries_of(self, X)
        D, index = nearest(metric, Q, self.fit_X_, k, exclude_self=X is None)
        if not return_distance:
            return index
        if isinstance(metric, Mahalanobis):
            return np.sqrt(D), index
        if metric.is_distance:
            P = rows_at(self.fit_X_, index.ravel())
            distance = metric.distance  # pyright: ignore[reportAttributeAccessIssue]
            D = np.asarray(distance(np.repeat(Q, k, 0), P))
        return D.reshape(index.shape), index
