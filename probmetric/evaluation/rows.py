"""Figures of ``evaluate`` on the rows of a source: sums by blocks, queries and pairs.

Figures of a classifier are sums over rows. Retrieval asks rows chosen by a hash of
their number among *all* rows, and pairs are those that would be chosen of points in
memory: their rows alone are held.

Memory in numbers of 8 bytes, beside a block and its probabilities: (d + 4 depth) a
query and (2 d + 6) a pair.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from probmetric.data.choose import check_labels, labels_at, picked
from probmetric.data.source import (
    MOST_ROWS,
    Source,
    block_rows,
    blocks_of,
    class_counts,
    n_rows,
    row_bits,
)
from probmetric.evaluation.ranking import (
    chosen_pairs,
    ranking_figures,
    ranking_sums,
    scored,
)
from probmetric.neighbors.search import nearest


class Limits(NamedTuple):
    """Bins of calibration, pairs, queries and depth at most, and a seed."""

    n_bins: int
    max_pairs: int
    max_queries: int
    max_depth: int
    seed: int


def predicted(source: Source, classifier: Any, how: Limits) -> dict[str, float]:
    """Return accuracy, log loss, Brier score and calibration error: one pass.

    Rows count by their weights, where the source has any.

    Raises
    ------
    ValueError
        For a row without a label that the classifier knows: names it.
    """
    check_labels(source)
    classes = np.asarray(classifier.classes_)
    size, tiny = block_rows(source), np.finfo(float).eps
    total, sums = 0.0, np.zeros(3)
    bins = np.zeros((2, how.n_bins))
    for block in blocks_of(source, size, classes=classes):
        m = block.rows
        codes, w = block.y[:m], block.w[:m]
        P = classifier.predict_proba(as_fitted(classifier, block.X[:m], source))
        truth = P[np.arange(m), codes]
        right = P.argmax(1) == codes
        loss = -np.log(np.clip(truth, tiny, 1 - tiny)) if len(classes) > 1 else 0.0
        square = np.sum(P**2, 1) - 2 * truth + 1
        total += w.sum()
        sums += [(w * right).sum(), (w * loss).sum(), (w * square).sum()]
        top = P.max(1)
        where = np.minimum((top * how.n_bins).astype(int), how.n_bins - 1)
        bins += [np.bincount(where, w * a, how.n_bins) for a in (right, top)]
    accuracy, log_loss, brier = (sums / total).tolist()
    ece = float(np.abs(bins[0] - bins[1]).sum() / total)
    return dict(accuracy=accuracy, log_loss=log_loss, brier=brier, ece=ece)


def as_fitted(classifier: Any, X: np.ndarray, source: Source) -> Any:
    """Return rows with the names of their columns where the classifier knows names."""
    if not hasattr(classifier, "feature_names_in_"):
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=pd.Index(source.feature_names))


def ranked(source: Source, metric: Any, how: Limits) -> dict[str, float]:
    """Return precision at 1, R-precision and MAP@R of some rows among all."""
    check_labels(source)
    classes, members = class_counts(source, source.parts, MOST_ROWS)
    rows = _queries(source, classes[members > 1], how)
    found = picked(source, rows)
    assert found.labels is not None
    R = members - 1
    own = R[np.searchsorted(classes, found.labels)]
    depth = np.minimum(own, how.max_depth)
    index = nearest(metric, found.X, source, int(depth.max()), exclude_self=rows)[1]
    hit = labels_at(source, index) == found.labels[:, None]
    able, deepest = int(members[R > 0].sum()), int(R.max())
    sums = ranking_sums(hit, depth)
    return ranking_figures(sums, len(rows), able, deepest, how.max_depth)


def _queries(source: Source, classes: np.ndarray, how: Limits) -> np.ndarray:
    """Return the numbers of the rows to ask, of classes with two rows: by their hash.

    Of the rows of these classes, counted from 0, those of the smallest hashes; a pass
    over the labels.
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
            bits = np.concatenate([bits, row_bits(how.seed, number)])
            if len(rows) > how.max_queries:
                kept = np.argpartition(bits, how.max_queries - 1)[: how.max_queries]
                rows, bits = rows[kept], bits[kept]
    if len(rows) == 0:
        raise ValueError("label: expected a class with two rows, got none")
    return np.sort(rows)


def compared(
    source: Source, metric: Any, how: Limits
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return of pairs of rows whether they are of one class, and their dissimilarity.

    The pairs are those of as many points in memory.
    """
    n = n_rows(source)
    pairs = chosen_pairs(n, how.max_pairs, how.seed, symmetric=metric.symmetric)
    found = picked(source, np.concatenate(pairs))
    assert found.labels is not None
    codes = np.unique(found.labels, return_inverse=True)[1]
    i, j = (np.searchsorted(found.rows, side) for side in pairs)
    return scored(metric, found.X, codes, i, j)
