"""``evaluate`` of a dataset on disk.

Class scores are sums over chunks of rows. Queries and pairs are chosen as for points in
memory, and only their rows are loaded.

Besides a chunk and its probabilities, memory has d + 4 depth numbers for each query,
where depth is the number of neighbors, and 2 d + 6 numbers for each pair.
"""

from collections.abc import Iterator, Sequence
from functools import reduce as fold
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from probmetric.arguments import check_counts, check_number
from probmetric.data.hash import sampled_rows
from probmetric.evaluation.evaluate import Classifier, metric_of, pair_figures
from probmetric.evaluation.ranking import (
    Classified,
    chosen_pairs,
    class_figures,
    class_sums,
    ranking_figures,
    ranking_sums,
    scored,
)
from probmetric.large.choose import labels_at, picked
from probmetric.large.engine import run
from probmetric.large.source import (
    MOST_ROWS,
    Part,
    Source,
    bins,
    block_rows,
    blocks_of,
    check_labels,
    class_counts,
    n_rows,
    refuse_arrays,
)
from probmetric.metric import Dissimilarity
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.search import nearest


class Limits(NamedTuple):
    """Maximum numbers of pairs, queries and neighbors, and seed."""

    max_pairs: int
    max_queries: int
    max_depth: int
    seed: int


def evaluate(
    X: Source,
    y: object = None,
    *,
    classifier: Classifier | None = None,
    metric: Dissimilarity | MetricDraws | None = None,
    n_bins: int = 15,
    max_pairs: int = 200_000,
    max_queries: int | None = None,
    max_depth: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate a classifier, a metric or both, as ``probmetric.evaluate``."""
    metric = metric_of(classifier, metric)
    check_columns(metric, X=X)
    max_pairs, max_depth, n_bins, few = check_counts(
        max_pairs=max_pairs,
        max_depth=max_depth,
        n_bins=n_bins,
        max_queries=1000 if max_queries is None else max_queries,
    )
    seed = check_number("seed", seed, 0, 2**32 - 1, whole=True)
    most = Limits(max_pairs, few, max_depth, seed)
    refuse_arrays(y=y)
    figures: dict[str, float] = {}
    if classifier is not None:
        figures |= predicted(X, classifier, n_bins)
    if metric is not None:
        if X.weighted:
            raise ValueError(
                f"X must be opened without weights to evaluate a metric, got {X.name} "
                "with weights. Use pm.open without weight=, or evaluate only a "
                "classifier."
            )
        figures |= ranked(X, metric, most)
        figures |= pair_figures(metric, *compared(X, metric, most))
    return figures


def predicted(source: Source, classifier: Classifier, n_bins: int) -> dict[str, float]:
    """Compute ``class_figures`` in one pass, weighted by the dataset's weights."""
    check_labels(source)
    parts = [some for some in bins(source.parts) if some]
    return class_figures(fold(np.add, run(_sums, parts, source, classifier, n_bins)))


def _sums(
    parts: Sequence[Part], source: Source, classifier: Classifier, n_bins: int
) -> Float[np.ndarray, "_"]:
    classes = np.asarray(classifier.classes_)

    def batches() -> Iterator[Classified]:
        for block in blocks_of(source, [parts], block_rows(source), classes=classes):
            m = block.rows
            P = classifier.predict_proba(as_fitted(classifier, block.X[:m], source))
            yield block.y[:m], P, block.w[:m]

    return class_sums(batches(), n_bins)


def as_fitted(
    classifier: Classifier, X: np.ndarray, source: Source
) -> np.ndarray | pd.DataFrame:
    """Add column names to rows if the classifier was fitted with names."""
    if not hasattr(classifier, "feature_names_in_"):
        return X
    return pd.DataFrame(X, columns=pd.Index(source.feature_names))


def ranked(source: Source, metric: Dissimilarity, most: Limits) -> dict[str, float]:
    """Compute precision at 1, R-precision and MAP@R of sampled rows among all rows."""
    classes, members = class_counts(source)
    n_able = int(members[members > 1].sum())
    if n_able == 0:
        raise ValueError(
            "label must contain a class with at least two rows, got none. Check that "
            "label= is the column of the class."
        )
    rows = _queries(source, classes[members > 1], n_able, most)
    queries = picked(source, rows)
    assert queries.labels is not None
    R = members - 1
    depth = R[np.searchsorted(classes, queries.labels)]
    depth = np.minimum(depth, most.max_depth)
    index = nearest(metric, queries.X, source, int(depth.max()), exclude_self=rows)[1]
    sums = ranking_sums(labels_at(source, index) == queries.labels[:, None], depth)
    return ranking_figures(sums, len(rows), n_able, int(R.max()), most.max_depth)


def _queries(
    source: Source, classes: np.ndarray, n_able: int, most: Limits
) -> Int[np.ndarray, "m"]:
    """Choose queries among the ``n_able`` rows of the classes, as in memory."""
    chosen = sampled_rows(n_able, most.max_queries, seed=most.seed)
    rows, before = list[np.ndarray](), 0
    for part in source.parts:
        for block in source.read(part, MOST_ROWS, features=False):
            assert block.labels is not None
            values, codes = block.labels
            able = block.first + np.flatnonzero(np.isin(values, classes)[codes])
            end = before + len(able)
            rows.append(able[chosen[(chosen >= before) & (chosen < end)] - before])
            before = end
    return np.concatenate(rows)


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
