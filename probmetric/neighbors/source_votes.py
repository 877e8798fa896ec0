"""Count votes of neighbours among the rows of a source, which are never all held.

The k nearest of each query come from ``neighbors.stream`` (a pass a metric), their
labels from the parts that they lie in. What ``KNeighborsClassifier`` chooses by leaving
one out is chosen by ``TUNED`` rows, all where there are no more: each is asked for its
neighbours among all others.

Memory in numbers of 8 bytes, beside that of ``stream``: m (k + c) for m queries.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.choose import check_labels, labels_at, sampled
from probmetric.data.source import MOST_ROWS, Source, class_counts
from probmetric.metric import Dissimilarity
from probmetric.neighbors.search import nearest

TUNED = 2000
"""Rows by which the weight of the class shares is chosen, at most."""


class Voters(NamedTuple):
    """Rows that vote: the source, its sorted classes, and rows of each."""

    source: Source
    classes: np.ndarray
    members: Int[np.ndarray, "c"]


def voters(source: Source) -> Voters:
    """Return the rows of a source as voters: a pass over the labels.

    Raises
    ------
    ValueError
        For rows without labels, or with weights.
    """
    check_labels(source)
    if source.weighted:
        raise ValueError(
            "weight: expected none with votes of neighbours, got a source with weights"
        )
    return Voters(source, *class_counts(source, source.parts, MOST_ROWS))


def counted(
    metrics: list[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    among: Voters,
    k: int,
    own: Int[np.ndarray, "m"] | None = None,
) -> Float[np.ndarray, "m c"]:
    """Return the shares of the classes among the k nearest, averaged over metrics."""
    votes = np.zeros((len(Q), len(among.classes)))
    rows = np.arange(len(Q))[:, None]
    for metric in metrics:
        but: Any = False if own is None else own
        index = nearest(metric, Q, among.source, k, exclude_self=but)[1]
        codes = np.searchsorted(among.classes, labels_at(among.source, index))
        np.add.at(votes, (rows, codes), 1.0)
    return votes / (k * len(metrics))


def left_out(
    metrics: list[Dissimilarity], among: Voters, k: int
) -> tuple[Float[np.ndarray, "m c"], Int[np.ndarray, "m"]]:
    """Return votes for ``TUNED`` rows by all others, and the codes of these rows."""
    some = sampled(among.source, TUNED)
    assert some.labels is not None
    votes = counted(metrics, some.X, among, k, some.rows)
    return votes, np.searchsorted(among.classes, some.labels)
