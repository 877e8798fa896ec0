"""A metric with intervals: a fit, and its refits without each group of points.

The intervals do not use draws, so the same fit gives the same limits. With more than
100 points the groups depend on a seed. Point values are computed from the fit to all
points, and the limits as follows:

    distance    inverted distribution of the length of a noisy vector (``noncentral``)
    ratio       exp(log ratio ± t √V)                                 (``jackknife``)
    P(same)     log odds ± t √V, in (0, 1); each refit includes its link
    others      exp(log dissimilarity ± t √V) if dissimilarities are ≥ 0, otherwise
                dissimilarity ± t √V

Percentiles of bootstrap draws cover less: a distance is a norm, noise increases it, and
each draw adds the noise once more.

A linear map L is identified only up to a rotation. The refits are rotated onto the fit
before their spread is computed. The distance between two linear maps depends on the
units of the features. Here each feature is scaled so that its column of the fitted L
has norm 1. The limits therefore do not depend on the units of the data. A rotation of
the features changes the norms, and slightly changes the limits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from joblib import Parallel, delayed
from scipy.special import expit, ndtri

from probmetric.arguments import check_number
from probmetric.data import inputs
from probmetric.data.chunked import Chunked, chunked
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.neighbors.search import check_dimension
from probmetric.posterior import intervals
from probmetric.posterior.intervals import Interval
from probmetric.posterior.jackknife import (
    aligned,
    checked_prob,
    covariance,
    factor_of,
    groups_of,
    limits,
    positive_limits,
    quantile_of_t,
)
from probmetric.posterior.noncentral import N_NODES, distance_limits
from probmetric.posterior.stack import over_draws, unstack
from probmetric.precision import finite
from probmetric.typing import Array

CHUNK = 2**22
"""Numbers in memory at a time in ``interval``."""


class IntervalMetric:
    """A fitted metric with its jackknife refits, for intervals of distances.

    There are no intervals of the entries of a matrix, which are not calibrated.

    Parameters
    ----------
    metric : Metric
        Metric fitted to all points.
    left_out : sequence of Metric
        Two or more refits of the same kind and shape, each without one group of points.
        Each refit includes its refitted link.
    factor : float > 0, default=1
        Factor of the jackknife variances (``jackknife.factor_of``).
    about : str, default=""
        Description of the fit (pairs, number of points, λ, link), shown when the metric
        is printed.
    no_link : str, default=""
        Reason why intervals of P(same) are not supported, for the error message.

    Notes
    -----
    In the methods, points A, B have shape (..., d), results have shape (...), and
    ``prob`` is the nominal coverage. Limits are approximate, equal-tailed, and not
    simultaneous. They cover the result of the same method on many points of the same
    population. They do not account for a wrong model or for points of another
    population. For coverage see the learner's ``posterior_metric``.

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
        about: str = "",
        no_link: str = "",
    ) -> None:
        if len(left_out) < 2:
            raise ValueError(
                f"left_out must contain two or more refits, got {len(left_out)}"
            )
        self.metric, *others = unstack([metric, *left_out])
        self.left_out: tuple[Dissimilarity, ...] = tuple(others)
        self.factor = check_number("factor", factor, 0, open_low=True)
        self.about, self.no_link = about, no_link

    def __repr__(self) -> str:
        about = f", {self.about}" if self.about else ""
        kind, number = type(self.metric).__name__, len(self.left_out)
        return f"IntervalMetric({kind}, {number} refits{about})"

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError for methods that need posterior draws."""
        if name in OF_DRAWS:
            raise AttributeError(
                f"{name} requires draws, got jackknife refits. Use "
                "posterior_metric('intervals', method='bootstrap') or "
                "posterior_metric('prediction')."
            )
        raise AttributeError(f"'IntervalMetric' object has no attribute {name!r}")

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
        """Compute the fitted distance, or dissimilarity, of matching rows."""
        shape, points = self._rows(A, B)
        values = over_draws(intervals.between_rows, (self.metric,), *points)
        return finite(values.reshape(shape), "distance", A, B)

    def same_probability(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Compute the fitted P(same) of matching rows of A and B.

        After ``LCA.fit`` this P(same) refers by default to *all* pairs.
        ``LCA.same_probability`` refers to nearest pairs, which have other prior odds.
        Raises ValueError with the reason if the metric has no link.
        """
        return expit(self._log_odds(A, B)[0])

    def interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for the distance between matching rows of A and B.

        0 ≤ lower ≤ ``distance(A, B)`` ≤ upper. If the lower limit is 0, the estimated
        distance may be due to noise only.
        """
        prob = checked_prob(prob)
        if isinstance(self.metric, Mahalanobis):
            low, high = self._of_vectors(A, B, prob)
        else:
            values = self._evaluate(intervals.between_rows, A, B)
            finite(values, "interval", A, B)
            if intervals.is_positive(self.metric):
                low, high = positive_limits(values, prob, self.factor, "A")
            else:
                low, high = limits(values, prob, self.factor)
        value = self.distance(A, B)  # Rounding could put it outside.
        return Interval(np.minimum(low, value), np.maximum(high, value))

    def _of_vectors(self, A: Array, B: Array, prob: float) -> list[np.ndarray]:
        """Compute the limits of ``interval`` for maps from the vectors L(a - b)."""
        shape, (A, B) = self._rows(A, B)
        factors = np.stack([m.factor for m in (self.metric, *self.left_out)])  # pyright: ignore[reportAttributeAccessIssue]
        g, p = len(self.left_out), factors.shape[1]
        norms = np.hypot.reduce(factors[0])
        w = np.where(norms > 0, norms, 1.0)
        factors[1:] = aligned(factors[1:] / w, factors[0] / w) * w
        z = float(ndtri((1 + prob) / 2))
        widen = np.sqrt(self.factor) * quantile_of_t(prob, g - 1) / z
        step = max(1, CHUNK // max(N_NODES, p * p, g * p))
        results: list[list[np.ndarray]] = []
        for k in range(0, max(1, len(A)), step):
            delta = A[k : k + step] - B[k : k + step]
            v = np.einsum("gpd,md->gmp", factors, delta)
            finite(v, "interval", A, B)
            unit = np.maximum(np.abs(v).max((0, 2)), np.finfo(float).tiny)
            v = v / unit[:, None]
            ends = distance_limits(v[0], covariance(widen * v[1:]), prob)
            results.append([end * unit for end in ends])
        return [np.concatenate(e).reshape(shape) for e in zip(*results, strict=True)]

    def ratio_interval(
        self,
        first: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        second: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        *,
        prob: float = 0.9,
    ) -> Interval:
        """Compute an interval for ``distance(*first) / distance(*second)`` by rows.

        Raises ValueError if the metric is not a distance, a second distance is zero, or
        a first distance is zero in the fit but not in every refit.
        """
        prob = checked_prob(prob)
        intervals.need_distance(self.metric)
        below = intervals.apart(self._evaluate(intervals.between_rows, *second))
        values = intervals.ratio(self._evaluate(intervals.between_rows, *first), below)
        return Interval(*positive_limits(values, prob, self.factor, "first"))

    def same_interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for P(same) of matching rows, on the log-odds scale."""
        prob = checked_prob(prob)
        values = self._log_odds(A, B)
        return Interval(*(expit(end) for end in limits(values, prob, self.factor)))

    def _log_odds(self, A: Array, B: Array) -> np.ndarray:
        if self.no_link:
            raise ValueError(f"same_probability: {self.no_link}")
        return self._evaluate(intervals.log_odds, A, B)

    def _rows(
        self, A: Array, B: Array
    ) -> tuple[tuple[int, ...], tuple[np.ndarray, ...]]:
        """Return the shape of the result, and the points as rows."""
        check_columns(self, A=A, B=B)
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
        """Evaluate a function for the fit and every refit, shape (1 + g, ...)."""
        shape, points = self._rows(A, B)
        values = over_draws(function, (self.metric, *self.left_out), *points)
        return values.reshape(-1, *shape)


OF_DRAWS = (
    *("n_draws", "draws", "draw", "metrics", "mean_metric", "pair_draws", "pairwise"),
    *("closer_probability", "neighbor_probability", "rank_interval"),
)


def same_size(metrics: Sequence[Dissimilarity]) -> list[Dissimilarity]:
    """Pad the factors of Mahalanobis metrics with rows of zeros to the same p."""
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
    """Call ``learn`` for each sample, with joblib."""
    parallel: Any = Parallel(n_jobs=n_jobs)
    return parallel(delayed(learn)(*sample) for sample in samples)


@chunked()
def with_intervals(
    learn: Callable[..., Dissimilarity],
    X: Float[np.ndarray, "n d"] | Chunked,
    y: Shaped[np.ndarray, "n"] | None = None,
    *,
    seed: int = 0,
    about: str = "",
    n_jobs: int | None = None,
) -> IntervalMetric:
    """Fit any learner with jackknife refits, for intervals of its distances.

    Parameters
    ----------
    learn : callable
        ``learn(X, y) -> Metric``, or ``learn(source) -> Metric`` for a dataset on disk.
        The function is called once for all points, and once without each group of
        points. There are n groups, or 50 groups for more than 100 points.
    X, y : arrays of shape (n, d) and (n,)
        Labeled points, at least two per class. X can also be a dataset on disk
        (``pm.open``, with or without labels), with y None. Its groups are a hash of the
        row number. Every fit reads the rows again. All rows of a small class may be
        missing from one refit. ``LCA`` does not support weights.
    seed : int, default=0
        Seed of the groups for more than 100 points.
    about : str, default=""
        Description of the fit, shown when the metric is printed.
    n_jobs : int, optional
        Number of processes for the refits, as in joblib. Default: 1, or the setting of
        ``joblib.parallel_config``. The result does not depend on it.

    Returns
    -------
    IntervalMetric

    Notes
    -----
    Nominal 90% intervals cover about 90% for LDA, RCA and PairLDA with a fixed prior
    strength, and somewhat less for TwoStageMixture and GLML; see docs/measured.md and
    ``benchmarks/coverage.py``. Coverage was not measured for other learners, or for a
    prior strength chosen from the data (every refit chooses it again).

    ``LCA.posterior_metric("intervals")`` uses the same groups at lower cost. Its refits
    do not recompute the standardization, the prior's W₀ and c, and λ. Its link is
    calibrated on held-out pairs.

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
    classes, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if (sizes == 1).any():
        raise ValueError(
            "y must have two or more points of each class, got one point of class "
            f"{classes[sizes == 1].tolist()[0]!r}"
        )
    group, factor = groups_of(codes, seed, X), factor_of(codes)
    rests = [group != k for k in range(int(group.max()) + 1)]
    samples = chain([(X, y)], ((X[rest], y[rest]) for rest in rests))
    metric, *left_out = same_size(refits(learn, samples, n_jobs))
    about = about or f"{len(X)} points"
    return IntervalMetric(metric, left_out, factor=factor, about=about)
