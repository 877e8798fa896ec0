"""Count votes of neighbors among rows on disk, which are never all in memory.

The k nearest rows of each query come from ``large.neighbors`` (one pass per metric),
their labels from the chunks that contain them. ``KNeighborsClassifier`` tunes with
``TUNED`` rows (all if there are fewer), each predicted from all others.

Memory in numbers of 8 bytes, besides ``stream``: m (k + c) for m queries.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.large.choose import check_labels, labels_at, sampled
from probmetric.large.source import MOST_ROWS, Source, class_counts
from probmetric.metric import Dissimilarity
from probmetric.neighbors.search import nearest

TUNED = 2000
"""Maximum number of rows for choosing the weight of the class prior."""


class Voters(NamedTuple):
    """Rows that vote: the dataset, its sorted classes, and the size of each class."""

    source: Source
    classes: np.ndarray
    members: Int[np.ndarray, "c"]


def voters(source: Source) -> Voters:
    """Read the classes of a dataset on disk in one pass, and return its voters."""
    check_labels(source)
    if source.weighted:
        raise ValueError(
            "weight must be None for votes of neighbors, got a dataset with weights. "
            "Open it without weight=."
        )
    return Voters(source, *class_counts(source, source.parts, MOST_ROWS))


def counted(
    metrics: Sequence[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    rows: Voters,
    k: int,
    excluded: Int[np.ndarray, "m"] | None = None,
) -> Float[np.ndarray, "m c"]:
    """Compute the class shares among the k nearest rows, averaged over metrics."""
    votes = np.zeros((len(Q), len(rows.classes)))
    exclude = False if excluded is None else excluded
    for metric in metrics:
        index = nearest(metric, Q, rows.source, k, exclude_self=exclude)[1]
        codes = np.searchsorted(rows.classes, labels_at(rows.source, index))
        np.add.at(votes, (np.arange(len(Q))[:, None], codes), 1.0)
    return votes / (k * len(metrics))


def left_out(
    metrics: Sequence[Dissimilarity], rows: Voters, k: int
) -> tuple[Float[np.ndarray, "m c"], Int[np.ndarray, "m"]]:
    """Compute votes of all other rows for ``TUNED`` rows, and their classes."""
    sample = sampled(rows.source, TUNED)
    assert sample.labels is not None
    votes = counted(metrics, sample.X, rows, k, sample.rows)
    return votes, np.searchsorted(rows.classes, sample.labels)
