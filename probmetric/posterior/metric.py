"""Draws of a metric: distances with intervals, neighbors with probabilities.

Draws for ``purpose="prediction"`` are averaged in votes. For pairs made from labels,
these draws come from a generalized posterior with a learning rate of the order of n/N.
Draws for ``purpose="intervals"`` come from the model's posterior, or for ``GDM`` from
the bootstrap of sites. Posterior draws vary as the fit varies under new data if pairs
are independent, but not after a fit of ``LCA`` to labels. Bootstrap draws of sites do
so even if pairs share sites.

Methods raise ValueError if their result would be wrong (see Benchmarks: posterior
coverage). Intervals of entries of the matrix M are not available. M is biased upward
near the boundary of the positive matrices, so intervals from any draws would have low
coverage.

Memory in numbers of 8 bytes, for s draws: ``pairwise`` returns s · m · n numbers, and
computes 16 draws at a time. Intervals need s times the number of pairs.
``neighbor_probability`` needs m · n numbers and the memory of one search.
"""

import warnings
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import expit

from probmetric.arguments import check_choice
from probmetric.data import inputs
from probmetric.metric import Dissimilarity, Mahalanobis, Metric, PairSimilarity
from probmetric.metric.feature_names import (
    check_columns,
    named,
    names_of,
    unknown_of,
)
from probmetric.metric.link import check_odds
from probmetric.metric.mean import mean_metric
from probmetric.metric.protocol import Bounded
from probmetric.neighbors.search import check_dimension, found_but_own, nearest
from probmetric.posterior import intervals
from probmetric.posterior.intervals import Interval, quantiles
from probmetric.posterior.stack import over_draws, unstack
from probmetric.precision import finite
from probmetric.typing import Array, Purpose, Scalar


@jax.tree_util.register_pytree_node_class
class PosteriorMetric:
    """Draws of a metric from its posterior distribution.

    Parameters
    ----------
    draws : sequence of Metric, or Metric
        One metric per draw, all of the same class and shape. Or one metric whose arrays
        have a leading axis of draws.
    purpose : {"prediction", "intervals"}
        Use "prediction" to average predictions over draws, and "intervals" to compute
        distances with intervals and neighbors with probabilities.
    pairs_independent : bool, default=False
        Whether the spread of the draws is the spread of fits to new samples. It is if
        the observations (pairs or points) are independent, or if the draws resample
        independent units. After a fit to class labels it is not.
    source : {"laplace", "nuts", "svi", "bootstrap", "exact"}, default="laplace"
        Method that produced the draws.
    credible : bool, default=False
        By default, limits of distances are corrected, because the noise of sampled
        linear maps makes distances too long. If True, they are not corrected, and are
        Bayesian credible intervals (quantiles of the draws' distances). Use True for
        your own model or a new group, for example.

    Notes
    -----
    In all methods, points have shape (..., d), results have shape (...), and ``prob``
    is the nominal coverage. P(same) is the probability that two points are *same*.

    Distances, intervals, and probabilities of being nearer or among the nearest require
    ``purpose="intervals"``. (Draws for prediction of ``LCA`` have another prior than
    the fit to labels, so they describe another fit.) Draws with
    ``pairs_independent=False`` have two restrictions:

    - ``distance`` and intervals of distances, ratios and ranks warn.
    - ``same_probability`` and ``same_interval`` raise ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s])) for s in (0.5, 1.0, 1.5)]
    >>> posterior = PosteriorMetric(draws, "intervals")
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> posterior.neighbor_probability(np.zeros((1, 2)), points, 1).round(2).tolist()
    [[0.67, 0.33]]
    """

    credible: bool = False  # Pickles of 0.2 have none.

    def __init__(
        self,
        draws: Sequence[Dissimilarity] | Dissimilarity,
        purpose: Purpose,
        *,
        pairs_independent: bool = False,
        source: str = "laplace",
        credible: bool = False,
    ) -> None:
        check_names(purpose, source)
        self.draws: tuple[Dissimilarity, ...] = unstack(draws)
        self.purpose: Purpose = purpose
        self.pairs_independent = pairs_independent
        self.source, self.credible = source, credible

    def tree_flatten(
        self,
    ) -> tuple[tuple[tuple[Dissimilarity, ...]], tuple[Purpose, bool, str, bool]]:
        """Return the draws and the static attributes, for JAX."""
        static = self.purpose, self.pairs_independent, self.source, self.credible
        return (self.draws,), static

    @classmethod
    def tree_unflatten(
        cls,
        static: tuple[Purpose, bool, str, bool],
        children: tuple[tuple[Dissimilarity, ...]],
    ) -> "PosteriorMetric":
        """Rebuild from the draws without checks, because JAX uses placeholders."""
        new = object.__new__(cls)
        (new.draws,) = children
        new.purpose, new.pairs_independent, new.source, new.credible = static
        return new

    def __repr__(self) -> str:
        kind = type(self.draws[0]).__name__
        return (
            f"PosteriorMetric({self.n_draws} draws of {kind}, "
            f"purpose={self.purpose!r}, source={self.source!r}, "
            f"pairs_independent={self.pairs_independent})"
        )

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.draws)

    @property
    def n_features(self) -> int:
        """Number of features d of points."""
        return self.draws[0].n_features  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def is_distance(self) -> bool:
        """Whether each draw is a distance."""
        return self.draws[0].is_distance

    def point_metric(self) -> Metric:
        """Return ``mean_metric()``."""
        return self.mean_metric()

    def neighbor_draws(self, name: str) -> tuple[Dissimilarity, ...]:
        """Return the draws; raise ValueError for draws for prediction."""
        need_intervals(name, self.purpose, self.source)
        return self.draws

    def metrics(self) -> list[Dissimilarity]:
        """Return the draws as a list of metrics."""
        return list(self.draws)

    def draw(self, s: int) -> Dissimilarity:
        """Return draw s as an ordinary metric."""
        return self.draws[s]

    def mean_metric(self) -> Metric:
        """Return a metric whose dissimilarity is the mean over draws.

        It cannot compute P(same), the probability of *same*.
        """
        return named(mean_metric(self.draws), names_of(self), unknown_of(self))

    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[np.ndarray, "s n"]:
        """Compute dissimilarities of rows of Y from a query q, (n_draws, n)."""
        return self.pairwise(np.asarray(q)[None], Y)[:, 0]

    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[np.ndarray, "s m n"]:
        """Compute dissimilarities of rows of P from rows of Q, (n_draws, m, n)."""
        Q, P = self._points(Q=Q, P=P)
        values = over_draws(intervals.pairwise, self.draws, Q, P)
        return finite(values, "pairwise", Q, P)

    def pair_draws(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "s *n"]:
        """Compute distances (or dissimilarities) of matching rows under every draw."""
        values = self._by_rows(intervals.between_rows, A, B)
        return finite(values, "pair_draws", A, B)

    def distance(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "*n"]:
        """Estimate the distance between matching rows of A and B.

        The estimate is inside ``interval``. For ``Mahalanobis`` metrics with linear
        maps L, it is the length of the mean of L(a - b) over draws. For other metrics,
        and if ``source="exact"`` or ``credible=True``, it is the median of the draws'
        distances.
        """
        need_own_spread("distance", self)
        return self._lengths(A, B)[1]

    def interval(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prob: float = 0.9,
    ) -> Interval:
        """Compute an interval for the distance between matching rows of A and B.

        Limits are quantiles of the distances of the draws. For draws of a
        ``Mahalanobis`` metric, these distances are first corrected, because noise in
        sampled linear maps makes distances too long. They are not corrected if
        ``source="exact"`` or ``credible=True``.
        """
        need_own_spread("interval", self)
        values, mean = self._lengths(A, B)
        low, high = quantiles(values, prob)
        return Interval(np.minimum(low, mean), np.maximum(high, mean))

    def ratio_interval(
        self,
        first: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        second: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        *,
        prob: float = 0.9,
    ) -> Interval:
        """Compute an interval for ``distance(*first) / distance(*second)`` of each row.

        The scale of the metric cancels in a ratio, so ratios are estimated more
        precisely than distances. Distances are corrected as in ``interval``. Raises
        ValueError if the metric is not a distance, or a distance of ``second`` is 0.
        """
        need_own_spread("ratio_interval", self)
        intervals.need_distance(self.draws[0])
        others = intervals.apart(self.pair_draws(*second))
        above, below = (
            np.maximum(values, intervals.LEAST * mean)
            for values, mean in (
                self._lengths(*first),
                self._corrected(others, *second),
            )
        )
        return quantiles(intervals.ratio(above, below), prob)

    def _lengths(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> tuple[Float[np.ndarray, "s *n"], Float[np.ndarray, "*n"]]:
        """Return noise-corrected distances of every draw, and the point estimates."""
        return self._corrected(self.pair_draws(A, B), A, B)

    def _corrected(
        self, values: np.ndarray, A: Array, B: Array
    ) -> tuple[Float[np.ndarray, "s *n"], Float[np.ndarray, "*n"]]:
        """Return ``_lengths(A, B)``, given ``values = pair_draws(A, B)``."""
        plain = self.credible or self.source == "exact"
        if plain or not isinstance(self.draws[0], Mahalanobis):
            return values, np.asarray(np.median(values, 0))
        factors = np.stack([m.factor for m in self.draws])  # pyright: ignore[reportAttributeAccessIssue]
        delta = np.subtract(A, B, dtype=np.float64).reshape(-1, factors.shape[2])
        lengths, mean = intervals.true_lengths(intervals.one_rotation(factors), delta)
        return lengths.reshape(values.shape), mean.reshape(values.shape[1:])

    def closer_probability(
        self,
        q: Float[Array, "*#n d"],
        a: Float[Array, "*#n d"],
        b: Float[Array, "*#n d"],
    ) -> Float[np.ndarray, "*n"] | float:
        """Compute the fraction of draws with a nearer to q than b (ties count half).

        Raises ValueError for draws with ``purpose="prediction"``.
        """
        need_intervals("closer_probability", self.purpose, self.source)
        each = (self.pair_draws(q, a), self.pair_draws(q, b))
        to_a, to_b = (np.moveaxis(values, 0, -1) for values in each)
        return np.mean((to_a < to_b) + 0.5 * (to_a == to_b), -1)

    def neighbor_probability(
        self,
        Q: Float[Array, "m d"],
        P: Float[Array, "n d"],
        k: int,
        *,
        exclude_self: bool = False,
    ) -> Float[np.ndarray, "m n"]:
        """Compute the fraction of draws in which each point is among the k nearest.

        The result has a row for each query in Q and a column for each point in P. Each
        row sums to k. ``exclude_self`` is described in ``neighbors.nearest``. Raises
        ValueError for draws with ``purpose="prediction"``.
        """
        draws = self.neighbor_draws("neighbor_probability")
        Q, P = self._points(Q=Q, P=P)
        counts = np.zeros((len(Q), len(P)))
        rows = np.arange(len(Q))[:, None]
        for metric in draws:
            counts[rows, nearest(metric, Q, P, k, exclude_self=exclude_self)[1]] += 1
        return counts / self.n_draws

    def rank_interval(
        self, q: Float[Array, "d"], P: Float[Array, "n d"], *, prob: float = 0.9
    ) -> Interval:
        """Compute an interval for the rank of each row of P (1 is nearest to q)."""
        need_own_spread("rank_interval", self)
        Q, P = self._points(q=np.asarray(q)[None], P=P)
        order = [found_but_own(draw, Q, P, len(P), None)[1][0] for draw in self.draws]
        ranks = np.argsort(np.stack(order), 1) + 1
        return quantiles(ranks, prob, method="inverted_cdf")

    def same_probability(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prior_odds: Scalar | None = None,
    ) -> Float[np.ndarray, "*n"] | float:
        """Compute P(same), the probability of *same*, averaged over draws.

        ``prior_odds`` are the odds of *same* before the points are known (default: 1).
        Only draws of a ``PairSimilarity`` support them. Other metrics use the odds of
        the training pairs.

        Raises ValueError if ``pairs_independent`` is False (as after a fit to class
        labels). The average over these draws would be worse than P(same) of the fitted
        learner.
        """
        need_meaningful_link("same_probability", self)
        if prior_odds is not None:
            return expit(self._log_odds(A, B, prior_odds)).mean(0)
        same = self._by_rows(intervals.same, A, B)
        return finite(same, "same_probability", A, B).mean(0)

    def same_interval(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prob: float = 0.9,
        prior_odds: Scalar | None = None,
    ) -> Interval:
        """Compute an interval for P(same), the probability of *same*, of matching rows.

        For ``prior_odds`` and errors see ``same_probability``.
        """
        need_intervals("same_interval", self.purpose, self.source)
        need_meaningful_link("same_interval", self)
        if prior_odds is not None:
            odds = self._log_odds(A, B, prior_odds)
            return Interval(*map(expit, quantiles(odds, prob)))
        low, high = quantiles(self._by_rows(intervals.exponent, A, B), prob)
        return Interval(np.exp(-high), np.exp(-low))

    def _log_odds(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"], prior_odds: Scalar
    ) -> Float[np.ndarray, "s *n"]:
        if not isinstance(self.draws[0], PairSimilarity):
            raise ValueError(
                f"prior_odds must be None for draws of {type(self.draws[0]).__name__}, "
                f"got {prior_odds}. P(same) uses the odds of the training pairs."
            )
        check_odds(prior_odds)
        values = self._by_rows(intervals.log_odds, A, B)
        return finite(values, "same_probability", A, B) + np.log(float(prior_odds))

    def _by_rows(
        self,
        function: Callable[..., Array],
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
    ) -> Float[np.ndarray, "s *n"]:
        coded = check_columns(self, A=A, B=B)
        A, B = coded.values()
        intervals.same_features(self.draws[0], A=A, B=B)
        shape = np.broadcast_shapes(np.shape(A), np.shape(B))
        A, B = (np.broadcast_to(X, shape).reshape(-1, shape[-1]) for X in (A, B))
        values = over_draws(function, self.draws, *self._points(A=A, B=B))
        return values.reshape(self.n_draws, *shape[:-1])

    def _points(self, **arguments: Array) -> tuple[np.ndarray, ...]:
        arguments = check_columns(self, **arguments)
        points = {name: inputs.points(X, name) for name, X in arguments.items()}
        for name, X in points.items():
            check_dimension(self.draws[0], X, name)
        name, Q = next(iter(points.items()))
        for draw in self.draws:
            if isinstance(draw, Bounded):
                draw.refuse_far(Q, name)
        return tuple(points.values())


PURPOSES = ("prediction", "intervals")
SOURCES = ("laplace", "nuts", "svi", "bootstrap", "exact")


def check_names(purpose: str, source: str) -> None:
    """Raise ValueError for unknown names."""
    check_choice("purpose", purpose, PURPOSES)
    check_choice("source", source, SOURCES)


def need_intervals(name: str, purpose: str, source: str) -> None:
    """Raise ValueError for intervals or neighbors from draws for prediction."""
    if purpose != "intervals":
        raise ValueError(
            f"{name} requires draws with purpose='intervals', got purpose={purpose!r} "
            f"({source!r} draws). The spread of these draws is not the sampling error. "
            "Use purpose='intervals', such as posterior_metric('intervals')."
        )


def has_own_spread(posterior: PosteriorMetric) -> bool:
    """Return whether the draws are for intervals, and vary as fits to new samples."""
    return posterior.pairs_independent and posterior.purpose == "intervals"


def need_own_spread(name: str, posterior: PosteriorMetric) -> None:
    """Raise for draws for prediction; warn if intervals may have a wrong width."""
    need_intervals(name, posterior.purpose, posterior.source)
    if not posterior.pairs_independent:
        warnings.warn(
            f"{name}: intervals from {posterior.source!r} draws have a wrong width if "
            "training pairs share points, as after a fit to labels (see Benchmarks: "
            "label_draws). Use refits instead: posterior_metric('intervals') of LCA "
            "without draws, or with_intervals. For draws of your own model, if no "
            "pairs share points, set pairs_independent=True in draws_to_metric.",
            stacklevel=3,
        )


def need_meaningful_link(name: str, posterior: PosteriorMetric) -> None:
    """Raise ValueError if P(same) averaged over draws is worse than the fit's."""
    if not posterior.pairs_independent:
        raise ValueError(
            f"{name} requires pairs_independent=True, got "
            f"source={posterior.source!r} and dependent pairs. These averages would be "
            "worse than P(same) of the fit. Use same_probability of the fitted learner."
        )
