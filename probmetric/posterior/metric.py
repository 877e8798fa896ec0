"""Draws of a metric: distances with intervals, neighbours with probabilities.

Two objects, not one. ``purpose="prediction"`` names draws made to be averaged in votes
(a generalised posterior at a learning rate of the order of n / N for pairs built from
labels). ``purpose="intervals"`` names draws whose spread was made to be that of the
fit under new data (the product-weight bootstrap; or the model's own posterior where
pairs really are independent). Neither serves the other's question. Probabilities of an
order are averaged votes, and both answer.

Questions that raise an error, with the measured reason. Intervals from
``"prediction"``: nominal 90 % of LCA's distances were covered 59, 44, 30 % of the time
by Laplace draws (n = 20, 40, 120). Intervals of the entries of a matrix, whatever made
the draws. Probabilities of *same* averaged over draws, unless of the bootstrap, of
pairs that are not independent. Bootstrap draws answer, and cover 71 to 81 %: a distance
is a norm, and each draw adds its noise once more. ``IntervalMetric`` has no draws and
covers what it says. Other draws ``"intervals"`` of pairs that are not independent
answer with a warning that gives the measured coverage.

Only this class knows a draw axis. A draw is an ordinary metric again, so whatever works
for a metric works for each draw; only ``mean_metric`` averages, and says so.

Memory in numbers of 8 bytes, for s draws: the draws; ``pairwise`` returns s · m · n
and computes 16 draws at a time, each with what the kind's ``pairwise`` needs; intervals
hold s times the number of pairs; ``neighbor_probability`` its answer m · n and one
search.
"""

import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import expit

from probmetric.arguments import check_choice
from probmetric.data import inputs
from probmetric.metric import Dissimilarity, Mahalanobis, Metric, PairSimilarity
from probmetric.metric.feature_names import check_columns, named, names_of
from probmetric.metric.link import check_odds
from probmetric.metric.mean import mean_metric
from probmetric.neighbors.range import refuse_far
from probmetric.neighbors.search import (
    check_dimension,
    found_but_own,
    nearest,
)
from probmetric.posterior import intervals as asked
from probmetric.posterior.intervals import Interval, quantiles, spread
from probmetric.posterior.stack import over_draws, unstack
from probmetric.precision import finite
from probmetric.typing import Array, Purpose, Scalar


@jax.tree_util.register_pytree_node_class
class PosteriorMetric:
    """A posterior over metrics of one kind.

    Parameters
    ----------
    draws : sequence of Metric, or Metric
        One metric a draw; or one pytree whose every array has a leading draw axis.
    purpose : {"prediction", "intervals"}
        What the draws were made for; there is no default (see the module).
    pairs_independent : bool, default False
        Whether the pairs (or points) behind the draws are independent observations,
        so that the model's posterior means what it says. False for pairs built from
        labels.
    source : {"laplace", "nuts", "svi", "bootstrap", "exact"}, default "laplace"
        How the draws came about.

    Raises
    ------
    ValueError
        For no draws, draws that differ in kind or shape, NaN, or an unknown name.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s])) for s in (0.5, 1.0, 1.5)]
    >>> posterior = PosteriorMetric(draws, "prediction")
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> posterior.neighbor_probability(np.zeros((1, 2)), points, 1).round(2).tolist()
    [[0.67, 0.33]]
    """

    def __init__(
        self,
        draws: Any,
        purpose: Purpose,
        *,
        pairs_independent: bool = False,
        source: str = "laplace",
    ) -> None:
        check_names(purpose, source)
        self.draws: tuple[Dissimilarity, ...] = unstack(draws)
        self.purpose = purpose
        self.pairs_independent = pairs_independent
        self.source = source

    def tree_flatten(self) -> tuple[Any, Any]:
        """Return the draws, and what is static."""
        return (self.draws,), (self.purpose, self.pairs_independent, self.source)

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> "PosteriorMetric":
        """Rebuild without checks: JAX puts placeholders where arrays were."""
        new = object.__new__(cls)
        (new.draws,) = children
        new.purpose, new.pairs_independent, new.source = static
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
        """Number of draws s."""
        return len(self.draws)

    @property
    def n_features(self) -> int:
        """Number of features d of the points that its draws take."""
        draw: Any = self.draws[0]  # One of your own may not say.
        return draw.n_features

    @property
    def is_distance(self) -> bool:
        """Whether each draw is a distance."""
        return self.draws[0].is_distance

    def metrics(self) -> list[Dissimilarity]:
        """Return the draws."""
        return list(self.draws)

    def draw(self, s: int) -> Dissimilarity:
        """Return one draw, an ordinary metric."""
        return self.draws[s]

    def mean_metric(self) -> Metric:
        """Return the metric of mean dissimilarity (E[M]), without a link."""
        return named(mean_metric(self.draws), names_of(self))

    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[np.ndarray, "s n"]:
        """Return how far the rows of Y are from a query under every draw."""
        return self.pairwise(np.asarray(q)[None], Y)[:, 0]

    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[np.ndarray, "s m n"]:
        """Return how far each row of P is from each query under every draw."""
        Q, P = self._points(Q=Q, P=P)
        found = over_draws(asked.pairwise, self.draws, Q, P)
        return finite(found, "pairwise", Q, P)

    def pair_draws(
        self, A: Float[Array, "*#n d"], B: Float[Array, "*#n d"]
    ) -> Float[np.ndarray, "s *n"]:
        """Return draws of distance(A, B), or of the dissimilarity, row by row."""
        return finite(self._by_rows(asked.between_rows, A, B), "pair_draws", A, B)

    def interval(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prob: float = 0.9,
        inflate: float = 1.0,
    ) -> Interval:
        """Return an interval for the distance between matching rows of A and B.

        Parameters
        ----------
        A, B : arrays of shape (..., d)
        prob : float in (0, 1), default 0.9
        inflate : float > 0, default 1
            Deprecated: goes with the next release. Draws (of log distance; of the
            dissimilarity itself where that has no zero) are spread about their mean by
            this factor, which widens both sides where one is short.

        Returns
        -------
        Interval
            Quantiles over draws, each of shape (...).

        Raises
        ------
        ValueError
            For ``purpose="prediction"``.

        Warns
        -----
        UserWarning
            For draws of a posterior over pairs that are not independent, with the
            coverage that was measured.
        """
        need_own_spread("interval", self)
        values = self.pair_draws(A, B)
        positive = asked.is_positive(self.draws[0])
        return quantiles(spread(values, inflate, positive), prob)

    def ratio_interval(
        self,
        first: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        second: tuple[Float[Array, "*#n d"], Float[Array, "*#n d"]],
        *,
        prob: float = 0.9,
        inflate: float = 1.0,
    ) -> Interval:
        """Return an interval for ``distance(*first) / distance(*second)``, row by row.

        The common scale of the metric cancels, so ratios are better determined than
        distances. Arguments as `interval`.

        Raises
        ------
        ValueError
            For ``purpose="prediction"``; for a metric that is no distance, where a
            ratio has no meaning; where the second distance is zero.

        Warns
        -----
        UserWarning
            As `interval`.
        """
        need_own_spread("ratio_interval", self)
        asked.need_distance(self.draws[0])
        below = asked.apart(self.pair_draws(*second))
        ratio = asked.ratio(self.pair_draws(*first), below)
        return quantiles(spread(ratio, inflate, True), prob)

    def closer_probability(
        self,
        q: Float[Array, "*#n d"],
        a: Float[Array, "*#n d"],
        b: Float[Array, "*#n d"],
    ) -> Float[np.ndarray, "*n"] | float:
        """Return the share of draws in which a is nearer to q than b is; ties half."""
        to_a, to_b = self.pair_draws(q, a), self.pair_draws(q, b)
        return np.mean((to_a < to_b) + 0.5 * (to_a == to_b), 0)

    def neighbor_probability(
        self,
        Q: Float[Array, "m d"],
        P: Float[Array, "n d"],
        k: int,
        *,
        exclude_self: bool = False,
    ) -> Float[np.ndarray, "m n"]:
        """Return the share of draws in which each point is among the k nearest.

        Rows sum to k. Arguments as ``neighbors.nearest``.
        """
        Q, P = self._points(Q=Q, P=P)
        counts = np.zeros((len(Q), len(P)))
        rows = np.arange(len(Q))[:, None]
        for metric in self.draws:
            counts[rows, nearest(metric, Q, P, k, exclude_self=exclude_self)[1]] += 1
        return counts / self.n_draws

    def rank_interval(
        self, q: Float[Array, "d"], P: Float[Array, "n d"], *, prob: float = 0.9
    ) -> Interval:
        """Return an interval for each point's rank from q, whole numbers from 1.

        An error for ``purpose="prediction"``, and a warning where `interval` warns.
        """
        need_own_spread("rank_interval", self)
        Q, P = self._points(q=np.asarray(q)[None], P=P)
        # By the search, which orders points also where their squares are no numbers.
        found = [found_but_own(draw, Q, P, len(P), None)[1][0] for draw in self.draws]
        ranks = np.argsort(np.stack(found), 1) + 1
        return quantiles(ranks, prob, method="inverted_cdf")

    def same_probability(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prior_odds: Scalar | None = None,
    ) -> Float[np.ndarray, "*n"] | float:
        """Return P(same) of matching rows of A and B, averaged over draws.

        Parameters
        ----------
        A, B : arrays of shape (..., d)
        prior_odds : float > 0, optional
            Of *same*, before A and B are seen: of draws of a ``PairSimilarity``, by
            default even. Other kinds answer at the odds of the pairs that they were
            learned from, and take none.

        Raises
        ------
        ValueError
            For prior odds where they are not taken.
            For draws of a posterior over pairs built from labels: there the prior's
            spread in directions without data adds to every distance, and averaging
            worsens P(same). Use bootstrap draws or the point estimate.
        """
        need_meaningful_link(self.source, self.pairs_independent)
        if prior_odds is not None:
            return expit(self._log_odds(A, B, prior_odds)).mean(0)
        same = self._by_rows(asked.same, A, B)
        return finite(same, "same_probability", A, B).mean(0)

    def same_interval(
        self,
        A: Float[Array, "*#n d"],
        B: Float[Array, "*#n d"],
        *,
        prob: float = 0.9,
        inflate: float = 1.0,
        prior_odds: Scalar | None = None,
    ) -> Interval:
        """Return an interval for P(same) of matching rows of A and B.

        Takes the arguments of ``interval``, and prior odds as ``same_probability``;
        raises where either of the two does. ``inflate`` spreads -log P(same) on its log
        scale, at prior odds the log odds.
        """
        need_intervals("same_interval", self.purpose, self.source)
        need_meaningful_link(self.source, self.pairs_independent)
        if prior_odds is not None:
            odds = spread(self._log_odds(A, B, prior_odds), inflate, False)
            return Interval(*map(expit, quantiles(odds, prob)))
        draws = spread(self._by_rows(asked.exponent, A, B), inflate, True)
        low, high = quantiles(draws, prob)
        return Interval(np.exp(-high), np.exp(-low))

    def matrix_interval(self, *, prob: float = 0.9) -> Interval:
        """Raise: no draws that we know of give intervals for entries of a matrix.

        Always a ValueError, with the reason: the truth lies near the boundary of the
        positive matrices, and squares are biased upwards.
        """
        raise ValueError(asked.MATRIX_REFUSAL.format(prob=prob))

    def _log_odds(self, A: Any, B: Any, prior_odds: Scalar) -> np.ndarray:
        """Return the log odds of *same* at prior odds, under every draw."""
        if not isinstance(self.draws[0], PairSimilarity):
            raise ValueError(
                "prior_odds: expected none for draws of "
                f"{type(self.draws[0]).__name__}, which answer at the odds of the "
                f"pairs that they were learned from, got {prior_odds}"
            )
        check_odds(prior_odds)
        found = self._by_rows(asked.log_odds, A, B)
        return finite(found, "same_probability", A, B) + np.log(float(prior_odds))

    def _by_rows(self, question: Any, A: Any, B: Any) -> np.ndarray:
        """Ask every draw about matching rows; returns shape (s, ...)."""
        check_columns(self, A=A, B=B)
        asked.same_features(self.draws[0], A=A, B=B)
        shape = np.broadcast_shapes(np.shape(A), np.shape(B))
        A, B = (np.broadcast_to(X, shape).reshape(-1, shape[-1]) for X in (A, B))
        values = over_draws(question, self.draws, *self._points(A=A, B=B))
        return values.reshape(self.n_draws, *shape[:-1])

    def _points(self, **given: Any) -> tuple[np.ndarray, ...]:
        check_columns(self, **given)
        points = tuple(inputs.points(X, name) for name, X in given.items())
        for name, X in zip(given, points, strict=True):
            check_dimension(self.draws[0], X, name)
        if not isinstance(self.draws[0], Mahalanobis):
            for draw in self.draws:
                refuse_far(draw, points[0], next(iter(given)))
        return points


COVERED = "30 to 59 %"
"""Of 20 to 120 labels: benchmarks/results/posterior_coverage.md."""

PURPOSES = ("prediction", "intervals")
SOURCES = ("laplace", "nuts", "svi", "bootstrap", "exact")


def check_names(purpose: str, source: str) -> None:
    """Raise for unknown names."""
    check_choice("purpose", purpose, PURPOSES)
    check_choice("source", source, SOURCES)


def need_intervals(name: str, purpose: str, source: str) -> None:
    """Raise for intervals from draws that were made to be averaged in votes."""
    if purpose != "intervals":
        raise ValueError(
            f"{name}: expected draws made for intervals (purpose='intervals', as the "
            f"product-weight bootstrap gives), got purpose={purpose!r} of {source!r} "
            f"draws; nominal 90 % of a model's posterior covered {COVERED} of "
            "distances (Laplace draws of LCA)"
        )


def need_own_spread(name: str, posterior: PosteriorMetric) -> None:
    """Raise for draws that were made for votes, warn of those that are too narrow."""
    need_intervals(name, posterior.purpose, posterior.source)
    if posterior.source != "bootstrap" and not posterior.pairs_independent:
        warnings.warn(
            f"{name}: {posterior.source!r} draws are too narrow unless the pairs or "
            "points behind them are independent: over pairs built from labels "
            f"nominal 90 % covered {COVERED} of distances (Laplace draws of LCA); "
            "give pairs_independent=True where they are",
            stacklevel=3,
        )


def need_meaningful_link(source: str, pairs_independent: bool) -> None:
    """Raise for averages of P(same) that are worse than the point estimate."""
    if source != "bootstrap" and not pairs_independent:
        raise ValueError(
            "same_probability: expected source='bootstrap' or pairs_independent=True, "
            f"got source={source!r} over pairs that are not independent; averaging "
            "P(same) over such draws is worse than the point estimate, because the "
            "prior's spread is added to every distance"
        )
