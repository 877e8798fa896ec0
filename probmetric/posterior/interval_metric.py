"""A metric with intervals, from a fit and refits without some of the points.

The limits of a result are computed from the spread of the refits (``jackknife``):

    distance, ratio    exp(log value ± t √V)
    P(same)            log odds ± t √V, in (0, 1); each refit includes a refitted link
    dissimilarity      exp(log value ± t √V) if dissimilarities are ≥ 0,
                       otherwise value ± t √V

For probabilities of neighbors and ranks of a ``Mahalanobis`` metric, let L be the
linear map of the fit, L_(k) that of refit k, all rotated alike, and L̄ the mean of the
L_(k). Refits vary less than fits to new samples, so their differences are increased.
The maps

    L + c (L_(k) - L̄),      c² = factor (g - 1)                                    (1)

are used as draws (c² is about 3 if each refit leaves out a quarter). See Benchmarks:
neighbor_probabilities.

The limits are for the *expected value over training samples of the same size*. For
unlimited data it may differ: noise increases distances, and learners shrink them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int, Shaped
from joblib import Parallel, delayed
from scipy.special import expit

from probmetric.arguments import check_number
from probmetric.data import inputs
from probmetric.data.chunked import Chunked, chunked
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import (
    check_columns,
    named,
    names_of,
    unknown_of,
)
from probmetric.neighbors.search import check_dimension
from probmetric.neighbors.strength import strata_of
from probmetric.posterior import intervals
from probmetric.posterior.intervals import Interval
from probmetric.posterior.jackknife import (
    QUARTERS,
    checked_prob,
    factor_of,
    limits,
    positive_limits,
    quarters,
)
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws, unstack
from probmetric.precision import finite
from probmetric.progress import progress_bar
from probmetric.typing import Array, ArrayLike

BLOCK = 10_000
"""Number of rows for which all refits are evaluated at once."""


class IntervalMetric:
    """A fitted metric with intervals from jackknife refits.

    The spread of refits without some of the points gives intervals of distances and of
    P(same), the probability that two points are *same*. For ``Mahalanobis`` metrics, it
    also gives probabilities of neighbors. After ``LCA().fit(X, y)``,
    ``posterior_metric("intervals")`` computes the refits. For other learners use
    ``with_intervals``.
    Entries of the metric's matrix have no intervals, because these would not be
    calibrated.

    Parameters
    ----------
    metric : Metric
        Metric fitted to all points.
    left_out : sequence of Metric
        Two or more refits of the same class and shape, each without some of the points.
        For P(same), each refit should also refit P(same).
    factor : float > 0, default=1
        Factor of the jackknife variance (g - 1)/g Σ_k (θ_k - θ̄)², where θ_k are the
        values of the g refits and θ̄ is their mean. Use 1 if each of g groups of points
        is left out once.
    df : int, optional
        Degrees of freedom of the t quantile in limits. Default: number of refits
        minus 1.
    about : str, default=""
        Text about the fit (such as the number of points), shown by ``print``.

    Notes
    -----
    In all methods, points A, B have shape (..., d), results have shape (...), and
    ``prob`` is the nominal coverage. An interval estimates the expected result: the
    mean of the result over training sets of the same size. Limits are approximate,
    equal-tailed, and not simultaneous. They do not account for a wrong model or for
    points of another population. For coverage see Benchmarks: intervals.

    The expected distance is not the distance that would be learned from infinitely many
    points, because learned distances are biased with few points.

    Probabilities of neighbors also refer to expected distances (see Benchmarks:
    neighbor_probabilities). They are multiples of 1/g for g refits, so 1 does not mean
    certain.

    Examples
    --------
    >>> from probmetric.metric import Mahalanobis
    >>> fits = [Mahalanobis(np.eye(2) * s) for s in (1.0, 0.9, 1.1)]
    >>> metric = IntervalMetric(fits[0], fits[1:], about="three by hand")
    >>> metric
    IntervalMetric(Mahalanobis, 2 refits, three by hand)
    >>> low, high = metric.interval(np.zeros(2), np.ones(2))
    >>> bool(low < metric.distance(np.zeros(2), np.ones(2)) < high)
    True
    """

    purpose = "intervals"
    source = "jackknife"

    def __init__(
        self,
        metric: Dissimilarity,
        left_out: Sequence[Dissimilarity],
        *,
        factor: float = 1.0,
        df: int | None = None,
        about: str = "",
    ) -> None:
        if len(left_out) < 2:
            raise ValueError(
                f"left_out must contain two or more refits, got {len(left_out)}"
            )
        self.metric, *others = unstack([metric, *left_out])
        self.left_out: tuple[Dissimilarity, ...] = tuple(others)
        self.factor = check_number("factor", factor, 0, open_low=True)
        self.df = df
        self.about = about

    def __repr__(self) -> str:
        about = f", {self.about}" if self.about else ""
        kind, number = type(self.metric).__name__, len(self.left_out)
        return f"IntervalMetric({kind}, {number} refits{about})"

    @property
    def n_features(self) -> int:
        """Number of features d of points."""
        return self.metric.n_features  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def is_distance(self) -> bool:
        """Whether the metric is a distance."""
        return self.metric.is_distance

    def distance(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Compute the fitted distance (or dissimilarity) of matching rows."""
        shape, points = self._rows(A, B)
        values = over_draws(intervals.between_rows, (self.metric,), *points)
        return finite(values.reshape(shape), "distance", A, B)

    def pairwise(self, Q: Float[Array, "m d"], P: Float[Array, "n d"]) -> Array:
        """Compute the fitted dissimilarity of each row of P from each row of Q."""
        return self.point_metric().pairwise(Q, P)

    def same_probability(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Compute P(same), the probability of *same*, for matching rows of A and B.

        Raises ValueError if the metric does not model P(same).
        """
        return expit(self._log_odds(A, B)[0])

    def interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for the distance between matching rows of A and B.

        The interval contains ``distance(A, B)``. The upper limit is infinite or
        extremely large if the distance is 0 in a refit but not in the fit, or in the
        fit but not in a refit. For example, a feature may be constant in the points of
        this refit.
        """
        prob = checked_prob(prob)
        values = self._evaluate(intervals.between_rows, A, B)
        finite(values, "interval", A, B)
        if intervals.is_positive(self.metric):
            low, high = positive_limits(values, prob, self.factor, self.df)
        else:
            low, high = limits(values, prob, self.factor, self.df)
        value = self.distance(A, B)  # Rounding could put it outside.
        return Interval(np.minimum(low, value), np.maximum(high, value))

    def ratio_interval(
        self,
        first: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        second: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        *,
        prob: float = 0.9,
    ) -> Interval:
        """Compute an interval for ``distance(*first) / distance(*second)`` of each row.

        Raises ValueError if the metric is not a distance, or if a distance of
        ``second`` is 0 in the fit or in a refit. The upper limit is infinite if a
        distance of ``first`` is 0 in the fit but not in all refits.
        """
        prob = checked_prob(prob)
        intervals.need_distance(self.metric)
        below = intervals.apart(self._evaluate(intervals.between_rows, *second))
        values = intervals.ratio(self._evaluate(intervals.between_rows, *first), below)
        return Interval(*positive_limits(values, prob, self.factor, self.df))

    def same_interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for P(same), the probability of *same*, of matching rows.

        Limits are computed on the scale of log odds.
        """
        prob = checked_prob(prob)
        values = self._log_odds(A, B)
        ends = limits(values, prob, self.factor, self.df)
        return Interval(*(expit(end) for end in ends))

    def closer_probability(
        self,
        q: Float[Array, "*#n d"],
        a: Float[Array, "*#n d"],
        b: Float[Array, "*#n d"],
    ) -> Float[np.ndarray, "*n"] | float:
        """Estimate the probability that a is nearer to q than b.

        Nearer means a smaller expected distance. Only for ``Mahalanobis`` metrics.
        """
        return self._spread("closer_probability").closer_probability(q, a, b)

    def neighbor_probability(
        self,
        Q: Float[Array, "m d"],
        P: Float[Array, "n d"],
        k: int,
        *,
        exclude_self: bool = False,
    ) -> Float[np.ndarray, "m n"]:
        """Estimate the probability that each point is among the k nearest.

        The nearest points have the smallest expected distances. The result has a row
        for each query in Q and a column for each point in P. Each row sums to k. Only
        for ``Mahalanobis`` metrics. ``exclude_self`` is described in
        ``neighbors.nearest``.
        """
        draws = self._spread("neighbor_probability")
        return draws.neighbor_probability(Q, P, k, exclude_self=exclude_self)

    def rank_interval(
        self, q: Float[Array, "d"], P: Float[Array, "n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for the rank of each row of P (1 is nearest to q).

        Only for ``Mahalanobis`` metrics.
        """
        return self._spread("rank_interval").rank_interval(q, P, prob=prob)

    def point_metric(self) -> Dissimilarity:
        """Return the fit."""
        return named(self.metric, names_of(self), unknown_of(self))

    def neighbor_draws(self, name: str) -> list[Mahalanobis]:
        """Return the maps of Eq. (1); raise ValueError if there are no linear maps."""
        if not isinstance(self.metric, Mahalanobis):
            raise ValueError(
                f"{name} requires a Mahalanobis metric or draws, got refits of "
                f"{type(self.metric).__name__}. Use draws of sample."
            )
        every = cast("tuple[Mahalanobis, ...]", (self.metric, *self.left_out))
        fit, *others = intervals.one_rotation(np.stack([m.factor for m in every]))
        c, mean = np.sqrt(self.factor * (len(others) - 1)), np.mean(others, 0)
        return [Mahalanobis(fit + c * (L - mean)) for L in others]

    def _spread(self, name: str) -> PosteriorMetric:
        draws = PosteriorMetric(
            self.neighbor_draws(name), "intervals", pairs_independent=True
        )
        return named(draws, names_of(self), unknown_of(self))

    def _log_odds(self, A: Array, B: Array) -> np.ndarray:
        return self._evaluate(intervals.log_odds, A, B)

    def _rows(
        self, A: Array, B: Array
    ) -> tuple[tuple[int, ...], tuple[np.ndarray, ...]]:
        coded = check_columns(self, A=A, B=B)
        A, B = coded.values()
        intervals.same_features(self.metric, A=A, B=B)
        shape = np.broadcast_shapes(np.shape(A), np.shape(B))
        rows: list[np.ndarray] = []
        for name, X in (("A", A), ("B", B)):
            X = np.broadcast_to(X, shape).reshape(-1, shape[-1])
            rows.append(inputs.points(X, name))
            check_dimension(self.metric, rows[-1], name)
        return shape[:-1], tuple(rows)

    def _evaluate(
        self, function: Callable[..., Array], A: Array, B: Array
    ) -> np.ndarray:
        shape, (A, B) = self._rows(A, B)
        every = self.metric, *self.left_out
        parts = [slice(k, k + BLOCK) for k in range(0, max(len(A), 1), BLOCK)]
        values = [over_draws(function, every, A[at], B[at]) for at in parts]
        return np.concatenate(values, 1).reshape(-1, *shape)


def same_size(metrics: Sequence[Dissimilarity]) -> list[Dissimilarity]:
    """Pad the factors of Mahalanobis metrics with zero rows, to the same p."""
    maps = [m for m in metrics if isinstance(m, Mahalanobis)]
    if len(maps) < len(metrics):
        return list(metrics)
    p = max(len(m.factor) for m in maps)
    rows = [((0, p - len(m.factor)), (0, 0)) for m in maps]
    padded = [np.pad(m.factor, r) for m, r in zip(maps, rows, strict=True)]
    return [replace(m, factor=L) for m, L in zip(maps, padded, strict=True)]


def refits(
    learn: Callable[..., Dissimilarity],
    samples: Iterable[tuple[object, ...]],
    n_jobs: int | None,
) -> list[Dissimilarity]:
    """Call ``learn`` for each sample, in parallel by joblib."""
    parallel: Any = Parallel(n_jobs=n_jobs)
    return parallel(delayed(learn)(*sample) for sample in samples)


def jackknifed(
    metric: Dissimilarity,
    learn: Callable[..., Dissimilarity],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    groups: ArrayLike | None = None,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    about: str = "",
) -> IntervalMetric:
    """Add jackknife refits, each without a quarter of X, to a metric fitted to X."""
    unit = None if groups is None else inputs.group_codes(groups, len(X))[1]
    data = (X, codes) if unit is None else (X, codes, unit)
    strata, only = codes, np.bincount(codes)[codes] == 1
    if unit is not None:
        _, _, strata, only = strata_of(X, codes, unit)
    n, n_classes, movable = len(strata), len(np.unique(strata)), np.sum(~only)
    name, what = ("y", "points") if unit is None else ("groups", "groups")
    if movable < QUARTERS:
        raise ValueError(
            f"{name} must contain at least {QUARTERS} {what} that can be left out "
            f"without losing a class, got {movable} of {n}. Add {what}."
        )
    rests = list(quarters(X, codes, seed, unit))
    for rest in rests if unit is not None else ():
        if len(lost := np.setdiff1d(codes, codes[rest])):
            raise ValueError(
                "groups: each refit must have all classes, got one without the class "
                f"number {lost[0]}. Omit this class, which only a few groups have."
            )
    rests = progress_bar(rests, "intervals", None, "refit")
    samples = (tuple(v[rest] for v in data) for rest in rests)
    left_out = refits(learn, samples, n_jobs)
    metric, *left_out = same_size([metric, *left_out])
    df = max(1, min(n - n_classes, len(left_out) - 1))
    return IntervalMetric(
        metric, left_out, factor=factor_of(np.bincount(strata)), df=df, about=about
    )


@chunked()
def with_intervals(
    learn: Callable[..., Dissimilarity],
    X: Float[np.ndarray, "n d"] | Chunked,
    y: Shaped[np.ndarray, "n"] | None = None,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    about: str = "",
    n_jobs: int | None = None,
) -> IntervalMetric:
    """Fit any learner repeatedly, to compute intervals of distances (jackknife).

    Parameters
    ----------
    learn : callable
        Function that fits a learner and returns its metric: ``learn(X, y)`` for arrays,
        or ``learn(source)`` for a dataset on disk. It is called once for all points,
        and 52 times without a quarter of them (13 random divisions into quarters).
    X, y : arrays of shape (n, d) and (n,)
        Labeled points. If a class has only one point, this point is never left out. At
        least four points (or groups) must be in classes with other points (groups). X
        can also be a dataset on disk (``pm.open``, with or without labels), with
        ``y=None``.
    groups : array-like of shape (n,), optional
        Cluster of each row, such as the subject, specimen or file. Rows of one group
        are left out together. By default rows are assumed to be independent. Intervals
        are then too short if some rows are copies of others. Groups are not passed to
        ``learn``, and not supported for a dataset on disk.
    seed : int ≥ 0, default=0
        Seed for the division into quarters.
    about : str, default=""
        Text about the fit, shown when the metric is printed.
    n_jobs : int, optional
        Number of processes used for refits, as in joblib. Default: 1, or the setting of
        ``joblib.parallel_config``. The result does not depend on ``n_jobs``.

    Returns
    -------
    IntervalMetric

    Notes
    -----
    Imagine the same fit to many new samples of the same size. An interval is for the
    mean distance of these fits. For coverage see Benchmarks: intervals. For ``LCA`` use
    ``fit`` (with ``groups``) and ``posterior_metric("intervals")`` instead.

    Quarters are stratified by class. For a dataset on disk, a hash of the row number
    chooses them, so a refit may have no rows of a small class. Every fit then reads all
    rows, and left-out rows have weight 0. ``LCA`` does not support weights of rows on
    disk.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> lda = pm.LDA(prior_strength=1)
    >>> metric = with_intervals(lambda X, y: lda.fit(X, y).get_metric(), X, y)
    >>> low, high = metric.interval(X[0], X[50])
    >>> bool(low < metric.distance(X[0], X[50]) < high)
    True
    """
    if y is None:
        raise ValueError("y must be the labels of X, got None")
    X, y = np.asarray(X), np.asarray(y)
    classes, codes = np.unique(y, return_inverse=True)

    def relearn(X: np.ndarray, codes: np.ndarray, *_: object) -> Dissimilarity:
        return learn(X, classes[codes])

    metric: Any = learn(X, y) if callable(learn) else learn
    if not (callable(learn) and isinstance(metric, Dissimilarity)):
        raise ValueError(
            "learn must be a function that returns a metric, got "
            f"{type(metric).__name__}. Use lambda X, y: learner.fit(X, y).get_metric()."
        )
    return jackknifed(
        metric,
        relearn,
        X,
        codes,
        groups,
        seed=seed,
        n_jobs=n_jobs,
        about=about or f"{len(X)} points",
    )
