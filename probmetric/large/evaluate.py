"""Scores of ``evaluate`` on a dataset on disk.

Class scores are sums over chunks of rows. The same queries and pairs are chosen as for
points in memory, and only the rows of queries and pairs are loaded.

Memory besides a chunk and its probabilities, in numbers of 8 bytes, is (d + 4 depth)
per query and (2 d + 6) per pair.
"""

from collections.abc import Generator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from probmetric.evaluation.ranking import (
    Classified,
    chosen_pairs,
    class_figures,
    ranking_figures,
    ranking_sums,
    scored,
)
from probmetric.large.choose import check_labels, labels_at, picked
from probmetric.large.source import (
    MOST_ROWS,
    Source,
    block_rows,
    blocks_of,
    class_counts,
    n_rows,
    row_bits,
)
from probmetric.metric import Dissimilarity
from probmetric.neighbors.search import nearest
from probmetric.typing import ArrayLike


@runtime_checkable
class Classifier(Protocol):
    """The interface of a fitted classifier with class probabilities."""

    @property
    def classes_(self) -> ArrayLike: ...  # noqa: D102

    def predict_proba(self, X: ArrayLike, /) -> np.ndarray: ...  # noqa: D102


class Limits(NamedTuple):
    """Number of bins, maximum numbers of pairs, queries and neighbors, and seed."""

    n_bins: int
    max_pairs: int
    max_queries: int
    max_depth: int
    seed: int


def predicted(source: Source, classifier: Classifier, n_bins: int) -> dict[str, float]:
    """Compute ``class_figures`` in one pass, weighted by the dataset's weights."""
    check_labels(source)
    classes = np.asarray(classifier.classes_)

    def batches() -> Generator[Classified]:
        for block in blocks_of(source, block_rows(source), classes=classes):
            m = block.rows
            P = classifier.predict_proba(as_fitted(classifier, block.X[:m], source))
            yield block.y[:m], P, block.w[:m]

    return class_figures(batches(), n_bins)


def as_fitted(
    classifier: Classifier, X: np.ndarray, source: Source
) -> np.ndarray | pd.DataFrame:
    """Add column names to rows if the classifier was fitted with names."""
    if not hasattr(classifier, "feature_names_in_"):
        return X
    return pd.DataFrame(X, columns=pd.Index(source.feature_names))


def ranked(source: Source, metric: Dissimilarity, most: Limits) -> dict[str, float]:
    """Compute precision at 1, R-precision and MAP@R of sampled rows among all rows."""
    check_labels(source)
    classes, members = class_counts(source, source.parts, MOST_ROWS)
    rows = _queries(source, classes[members > 1], most)
    queries = picked(source, rows)
    assert queries.labels is not None
    R = members - 1
    depth = R[np.searchsorted(classes, queries.labels)]
    depth = np.minimum(depth, most.max_depth)
    index = nearest(metric, queries.X, source, int(depth.max()), exclude_self=rows)[1]
    sums = ranking_sums(labels_at(source, index) == queries.labels[:, None], depth)
    n_able, deepest = int(members[R > 0].sum()), int(R.max())
    return ranking_figures(sums, len(rows), n_able, deepest, most.max_depth)


def _queries(source: Source, classes: np.ndarray, most: Limits) -> np.ndarray:
    """Choose rows of the given classes: those with the smallest hashes.

    Hashes are of the row's number among the rows of these classes, as in memory.
    """
    rows, bits, before = np.zeros(0, np.intp), np.zeros(0, np.uint64), 0
    for part in source.parts:
        for block in source.read(part, MOST_ROWS, features=False):
            assert block.labels is not None
            values, codes = block.labels
            able = np.flatnonzero(np.isin(values, classes)[codes])
            number = before + np.arange(len(able))
            before += len(able)
            rows = np.concatenate([rows, block.first + able])
            bits = np.concatenate([bits, row_bits(most.seed, number)])
            if len(rows) > most.max_queries:
                best = np.argpartition(bits, most.max_queries - 1)[: most.max_queries]
                rows, bits = rows[best], bits[best]
    if len(rows) == 0:
        raise ValueError("label must have a class with two rows, got none.")
    return np.sort(rows)


def compared(
    source: Source, metric: Dissimilarity, most: Limits
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return whether sampled pairs have the same class, and their dissimilarities."""
    n, symmetric = n_rows(source), metric.symmetric
    pairs = chosen_pairs(n, most.max_pairs, most.seed, symmetric=symmetric)
    loaded = picked(source, np.concatenate(pairs))
    assert loaded.labels is not None
    codes = np.unique(loaded.labels, return_inverse=True)[1]
    i, j = (np.searchsorted(loaded.rows, side) for side in pairs)
    return scored(metric, loaded.X, codes, i, j)
