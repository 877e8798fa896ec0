"""Conformal p-values: does a point belong to any of the training classes?

The score a(x) of a point x is its dissimilarity to the nearest training point of any
class. The score a_i of training row i is its dissimilarity to the nearest other
training row. With m training rows,

    p(x) = (1 + #{i : a_i ≥ a(x)}) / (m + 1).                                      (1)

If the metric does not depend on the training rows, (1) is the full conformal p-value.
(Adding x to the rows changes a_i to min(a_i, D(i, x)). D(i, x) ≥ a(x), so the count is
the same.) If x and the rows are exchangeable and D is symmetric, P(p ≤ α) ≤ α for every
α. The guarantee is for new points of the training classes as a whole, not for each
class. p is never below 1/(m + 1).

A metric that was learned from the training rows makes distances within their classes
smaller. New points of these classes would be called novel too often. Cross-conformal
p-values (Vovk 2015) therefore compare x with rows that the metric was not learned from.
With metric M_k learned without fold k, and scores a^k under M_k among *all* rows,

    p(x) = (1 + Σ_k #{i in fold k : a^k_i ≥ a^k(x)}) / (m + 1).                    (2)

Within each fold, the guarantee holds by the argument above. For the sum over folds (2)
there is no such guarantee.

References
----------
V. Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence
74 (2015).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_number
from probmetric.data.chunked import Chunked
from probmetric.data.hash import sampled_rows
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.search import nearest, rows_at
from probmetric.neighbors.strength import deal
from probmetric.neighbors.votes import MOST_TUNED, scored_rows

N_FOLDS = 5
MOST_REFITTED = 1000
"""Largest number of training rows for which Eq. (2) is used, with refits in folds."""


class Reference(NamedTuple):
    """Training points, metrics, and sorted scores of rows under each metric."""

    X: Any
    metrics: Sequence[Dissimilarity]
    scores: Sequence[Float[np.ndarray, "_"]]

    def p_values(self, Q: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m"]:
        """Compute Eq. (2), or Eq. (1) for a single metric."""
        total = np.ones(len(Q))
        for metric, scores in zip(self.metrics, self.scores, strict=True):
            score = nearest(metric, Q, self.X, 1)[0][:, 0]
            total += len(scores) - np.searchsorted(scores, score)
        return total / (1 + sum(map(len, self.scores)))


def single(metric: Dissimilarity | MetricDraws) -> Dissimilarity:
    """Return the metric, or the mean dissimilarity over draws."""
    return metric.mean_metric() if isinstance(metric, MetricDraws) else metric


def check_novelty(novelty: float, n: int) -> None:
    """Raise unless ``novelty`` is in [1/(n + 1), 1). Smaller p-values do not occur."""
    check_number("novelty", novelty, 0, 1, open_low=True, open_high=True)
    if novelty * (n + 1) < 1:
        raise ValueError(
            f"novelty must be at least 1/(n + 1) = {1 / (n + 1):.3g} for n = {n} "
            f"training points, got {novelty}. Add points, or increase novelty"
        )


def reference(metric: Dissimilarity | MetricDraws, X: Any) -> Reference:
    """Return the reference of Eq. (1), with scores of at most ``MOST_TUNED`` rows."""
    n, large = len(X), isinstance(X, Chunked)
    rows = sampled_rows(n, MOST_TUNED) if large else scored_rows(X)
    return Reference(X, [single(metric)], [scores_of(single(metric), X, rows)])


def scores_of(
    metric: Dissimilarity, X: Any, rows: Int[np.ndarray, "m"]
) -> Float[np.ndarray, "m"]:
    """Compute the sorted scores of ``rows``, numbers of rows of X."""
    Q = rows_at(X, rows)
    return np.sort(nearest(metric, Q, X, 1, exclude_self=rows)[0][:, 0])


def fold_rows(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> list[Int[np.ndarray, "_"]]:
    """Return the held-out rows of each fold. The only row of a class is in no fold."""
    fold = deal(X, codes, N_FOLDS, 0)
    return [rows for k in range(N_FOLDS) if len(rows := np.flatnonzero(fold == k))]
