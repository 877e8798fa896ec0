"""A metric with intervals: a fit, and its refits without each part of the points.

No draws: the same fit gives the same limits (of more than 100 points the groups left
out are random, by a seed). The object holds the fit that the limits are for, and every
point value is that fit's.

    distance    the distribution of a noisy length, inverted (``noncentral``)
    ratio       exp(log ratio ± t √V)                        (``jackknife``)
    P(same)     log odds ± t √V, so that limits stay in (0, 1); the link is fitted
                again in each refit
    others      exp(log dissimilarity ± t √V) where that is ≥ 0, else without log

Percentiles of bootstrap draws cover less: a distance is a norm, its noise makes it
longer, and each draw adds the noise once more.

A map L is known up to a rotation, so those of refits are rotated onto that of the fit
before their spread is taken. How far apart two maps are depends on the units of the
features; here every feature is measured in the unit in which its column of the fit's L
has norm 1, so that limits do not depend on the units given. A rotation of the features
changes those norms, and with them the limits a little.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import expit, ndtri

from probmetric.arguments import check_number
from probmetric.data import inputs
from probmetric.data.resampled import without_group
from probmetric.data.source import Source, class_counts, n_rows
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.neighbors.search import check_dimension
from probmetric.posterior import intervals as asked
from probmetric.posterior.intervals import Interval
from probmetric.posterior.jackknife import (
    MOST_ALONE,
    N_GROUPS,
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
"""Numbers held at a time by ``interval``."""


class IntervalMetric:
    """A fitted metric with its jackknife, for intervals of distances.

    Parameters
    ----------
    metric : Metric
        The fit, all points in. Its values are what the intervals are for.
    left_out : sequence of Metric
        Fits of the same kind and shape, each without one group of the points; two or
        more. A link is that of the refit.
    factor : float > 0, default=1
        Variances of the jackknife are multiplied by it (``jackknife.factor_of``).
    about : str, default=""
        What was fitted: pairs, number of points, λ, link. Shown when printed.
    no_link : str, default=""
        Why there is no interval for P(same), where there is none.

    Raises
    ------
    ValueError
        For fewer than two refits, metrics that differ in kind or shape, or NaN.

    Notes
    -----
    Limits are approximate and equal-tailed, for one question at a time, and for what
    the same recipe would give on many points of the same population: neither a wrong
    model nor other points are covered. Measured coverage is in the docstring of the
    ``posterior_metric`` that made it.

    Examples
    --------
    >>> from probmetric.metric import Mahalanobis
    >>> fits = [Mahalanobis(np.eye(2) * s) for s in (1.0, 0.9, 1.1)]
    >>> made = IntervalMetric(fits[0], fits[1:], about="three by hand")
    >>> made
    IntervalMetric(Mahalanobis, 2 refits, three by hand)
    >>> low, high = made.interval(np.zeros(2), np.ones(2))
    >>> bool(low < made.distance(np.zeros(2), np.ones(2)) < high)
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
                f"left_out: expected two or more refits, got {len(left_out)}"
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
        """Say of the questions to draws that there are none."""
        if name in OF_DRAWS:
            raise AttributeError(
                f"{name}: expected draws, got the refits of a jackknife, whose spread "
                "is not that of draws; ask posterior_metric('intervals', "
                "method='bootstrap') or posterior_metric('prediction')"
            )
        raise AttributeError(f"'IntervalMetric' object has no attribute {name!r}")

    @property
    def n_features(self) -> int:
        """Number of features d of the points that it takes."""
        metric: Any = self.metric  # One of your own may not say.
        return metric.n_features

    @property
    def is_distance(self) -> bool:
        """Whether the metric is a distance."""
        return self.metric.is_distance

    def distance(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Return the fit's distance, or dissimilarity, between matching rows."""
        shape, points = self._rows(A, B)
        found = over_draws(asked.between_rows, (self.metric,), *points)
        return finite(found.reshape(shape), "distance", A, B)

    def same_probability(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Return the fit's P(same) of matching rows of A and B.

        After ``LCA.fit`` that of *all* pairs by default, where ``LCA.same_probability``
        is that of nearest ones: the odds of *same* before the distance is seen differ.

        Raises
        ------
        ValueError
            Where there is no link, with the reason.
        """
        return expit(self._log_odds(A, B)[0])

    def interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Return an interval for the distance between matching rows of A and B.

        Parameters
        ----------
        A, B : arrays of shape (..., d)
        prob : float in (0, 1), default 0.9

        Returns
        -------
        Interval
            Of shape (...), with 0 ≤ lower ≤ ``distance(A, B)`` ≤ upper. A lower limit
            of 0 says that noise alone could make so short a distance.
        """
        prob = checked_prob(prob)
        if isinstance(self.metric, Mahalanobis):
            low, high = self._of_vectors(A, B, prob)
        else:
            values = self._ask(asked.between_rows, A, B)
            finite(values, "interval", A, B)
            if asked.is_positive(self.metric):
                low, high = positive_limits(values, prob, self.factor, "A")
            else:
                low, high = limits(values, prob, self.factor)
        own = self.distance(A, B)  # Else the last digit could put it outside.
        return Interval(np.minimum(low, own), np.maximum(high, own))

    def _of_vectors(self, A: Any, B: Any, prob: float) -> list[np.ndarray]:
        """Return the limits of ``interval`` for maps, from the vectors L(a - b)."""
        shape, (A, B) = self._rows(A, B)
        factors = np.stack([m.factor for m in (self.metric, *self.left_out)])  # pyright: ignore[reportAttributeAccessIssue]
        g, p = len(self.left_out), factors.shape[1]
        norms = np.hypot.reduce(factors[0])
        w = np.where(norms > 0, norms, 1.0)
        factors[1:] = aligned(factors[1:] / w, factors[0] / w) * w
        z = float(ndtri((1 + prob) / 2))
        widen = np.sqrt(self.factor) * quantile_of_t(prob, g - 1) / z
        step, found = max(1, CHUNK // max(N_NODES, p * p, g * p)), []
        for k in range(0, max(1, len(A)), step):
            delta = A[k : k + step] - B[k : k + step]
            v = np.einsum("gpd,md->gmp", factors, delta)
            finite(v, "interval", A, B)
            unit = np.maximum(np.abs(v).max((0, 2)), np.finfo(float).tiny)
            v = v / unit[:, None]
            ends = distance_limits(v[0], covariance(widen * v[1:]), prob)
            found.append([end * unit for end in ends])
        return [np.concatenate(e).reshape(shape) for e in zip(*found, strict=True)]

    def ratio_interval(
        self,
        first: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        second: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        *,
        prob: float = 0.9,
    ) -> Interval:
        """Return an interval for ``distance(*first) / distance(*second)``, row by row.

        Parameters
        ----------
        first, second : pairs of arrays of shape (..., d)
        prob : float in (0, 1), default 0.9

        Raises
        ------
        ValueError
            For a metric that is no distance, where a ratio has no meaning; where the
            second distance is zero; where the first is zero in the fit but not in
            every refit.
        """
        prob = checked_prob(prob)
        asked.need_distance(self.metric)
        below = asked.apart(self._ask(asked.between_rows, *second))
        values = asked.ratio(self._ask(asked.between_rows, *first), below)
        return Interval(*positive_limits(values, prob, self.factor, "first"))

    def same_interval(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], *, prob: float = 0.9
    ) -> Interval:
        """Return an interval for P(same) of matching rows of A and B.

        Made on the scale of log odds. Arguments as `interval`, an error where
        `same_probability` is one.
        """
        prob = checked_prob(prob)
        values = self._log_odds(A, B)
        return Interval(*(expit(end) for end in limits(values, prob, self.factor)))

    def matrix_interval(self, *, prob: float = 0.9) -> Interval:
        """Raise: entries of a matrix have no interval that covers.

        Always a ValueError, with the reason, as ``PosteriorMetric.matrix_interval``.
        """
        raise ValueError(asked.MATRIX_REFUSAL.format(prob=checked_prob(prob)))

    def _log_odds(self, A: Any, B: Any) -> np.ndarray:
        if self.no_link:
            raise ValueError(f"same_probability: {self.no_link}")
        return self._ask(asked.log_odds, A, B)

    def _rows(self, A: Any, B: Any) -> tuple[tuple[int, ...], tuple[np.ndarray, ...]]:
        """Return the shape of an answer, and the points as rows."""
        check_columns(self, A=A, B=B)
        asked.same_features(self.metric, A=A, B=B)
        shape = np.broadcast_shapes(np.shape(A), np.shape(B))
        found = []
        for name, X in (("A", A), ("B", B)):
            X = np.broadcast_to(X, shape).reshape(-1, shape[-1])
            found.append(inputs.points(X, name))
            check_dimension(self.metric, found[-1], name)
        return shape[:-1], tuple(found)

    def _ask(self, question: Any, A: Any, B: Any) -> np.ndarray:
        """Ask the fit, then every refit; returns shape (1 + g, ...)."""
        shape, points = self._rows(A, B)
        values = over_draws(question, (self.metric, *self.left_out), *points)
        return values.reshape(-1, *shape)


OF_DRAWS = (
    *("n_draws", "draws", "draw", "metrics", "mean_metric", "pair_draws", "pairwise"),
    *("closer_probability", "neighbor_probability", "rank_interval"),
)


def same_size(metrics: list[Any]) -> list[Any]:
    """Return Mahalanobis metrics with rows of zeros up to the same p; others as given.

    A refit may keep fewer directions; zeros change no distance.
    """
    if not all(isinstance(m, Mahalanobis) for m in metrics):
        return metrics
    p = max(len(m.factor) for m in metrics)
    rows = [((0, p - len(m.factor)), (0, 0)) for m in metrics]
    padded = [np.pad(m.factor, r) for m, r in zip(metrics, rows, strict=True)]
    return [replace(m, factor=L) for m, L in zip(metrics, padded, strict=True)]


def with_intervals(
    learn: Callable[..., Any],
    X: Float[np.ndarray, "n d"] | Source,
    y: Shaped[np.ndarray, "n"] | None = None,
    *,
    seed: int = 0,
    about: str = "",
) -> IntervalMetric:
    """Fit any learner with its jackknife, for intervals of its distances.

    Parameters
    ----------
    learn : callable
        ``learn(X, y) -> Metric``, of a source ``learn(source) -> Metric``, called once
        for all points and once without each: n fits, or 50 of more than 100 points.
    X, y : arrays of shape (n, d) and (n,)
        Labelled points, two or more of each class: it keeps members when some are left
        out. Or X is a source (``pm.open``), which has its labels or none, and y None:
        groups are by the hash of a row's number, the same in any parts and processes,
        and every fit reads the rows again. A class of few rows may be all in one
        group, and is then missing from that refit; ``LCA`` takes no source with
        weights, and so no part in this.
    seed : int, default=0
        Of the groups of more than 100 points.
    about : str, default=""
        Shown when printed.

    Raises
    ------
    ValueError
        For a class of one point, metrics that differ in kind from refit to refit, and
        what ``learn`` raises where a class is left with too few members.

    Notes
    -----
    Nominal 90 % intervals covered, on gauss3, twonorm5, waveform and twonorm
    (``benchmarks/coverage.py``: 15 training sets each of n = 20, 40, 80; of
    TwoStageMixture 8; of GLML 6 of n = 20, 3 of n = 40; least and most of the cells):

        LDA                distance .91 to .98              ratio .89 to .97
        RCA                distance .88 to .95              ratio .88 to .96
        PairLDA            distance .91 to 1.00             ratio .90 to .98
        TwoStageMixture    score .84 to .98
        GLML               local dissimilarity .77 to .98, pooled .90

    LDA and RCA had ``prior_strength=1``, PairLDA 0, GLML ``prior="evidence"`` and
    ``gamma="loo"``. A strength that the data choose is chosen anew in every refit and
    may jump: that, and other learners, were not measured.

    ``LCA.posterior_metric("intervals")`` takes the same groups at less cost: its refits
    keep the standardisation, the prior's W₀ and c, and λ. Its link is calibrated on
    held-out pairs.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> lda = pm.LDA(prior_strength=1)
    >>> made = with_intervals(lambda X, y: lda.fit(X, y).get_metric(), X, y)
    >>> low, high = made.interval(X[0], X[50])
    >>> bool(low < made.distance(X[0], X[50]) < high)
    True
    """
    if isinstance(X, Source):
        return _of_source(learn, X, y, seed, about)
    if y is None:
        raise ValueError("y: expected the labels of X, got None")
    X, y = np.asarray(X), np.asarray(y)
    classes, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if (sizes == 1).any():
        raise ValueError(
            "y: expected two or more points of each class, got one of class "
            f"{classes[sizes == 1].tolist()[0]!r}"
        )
    group, factor = groups_of(codes, seed, X), factor_of(codes)
    kept = [group != k for k in range(int(group.max()) + 1)]
    metric, *left_out = same_size(
        [learn(X, y), *(learn(X[rest], y[rest]) for rest in kept)]
    )
    about = about or f"{len(X)} points"
    return IntervalMetric(metric, left_out, factor=factor, about=about)


def _of_source(
    learn: Callable[[Source], Any], source: Source, y: object, seed: int, about: str
) -> IntervalMetric:
    """Return ``with_intervals`` of rows that are streamed."""
    if y is not None:
        raise ValueError(
            "y: expected None beside a source, whose labels are given as "
            "pm.open(..., label=)"
        )
    n, factor = n_rows(source), 1.0
    if n < 2:
        raise ValueError(f"X: expected a source of two rows or more, got {n}")
    if source.labelled:
        classes, sizes = class_counts(source, source.parts)
        if (sizes == 1).any():
            raise ValueError(
                "label: expected two or more rows of each class, got one of class "
                f"{classes[sizes == 1].tolist()[0]!r}"
            )
        factor = (sizes.sum() - 1) / (sizes.sum() - len(sizes))
    g = n if n <= MOST_ALONE else N_GROUPS
    rests = (without_group(source, k, n_groups=g, seed=seed) for k in range(g))
    metric, *left_out = same_size([learn(source), *map(learn, rests)])
    about = about or f"{n} rows of {source.name}"
    return IntervalMetric(metric, left_out, factor=factor, about=about)
