"""Fit ``LCA`` to rows on disk, from pairs of some rows (anchors) with their neighbors.

The formulas are derived in ``inference.lca.anchors``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from probmetric.data.scaling import Scaler, constant_columns
from probmetric.data.unlabeled import warn_of_unlabeled
from probmetric.estimators.lca.anchors import check_anchors, from_anchors, store
from probmetric.estimators.lca.estimator import LCA
from probmetric.estimators.lca.settings import recipe_of, refuse_groups, refuse_rank
from probmetric.inference.lca.anchors.rows import Reader, Rows
from probmetric.inference.lca.recipe import Recipe
from probmetric.large.begin import begin
from probmetric.large.engine import run, split
from probmetric.large.moments import class_moments, standardized, total_scatter
from probmetric.large.passes import Pass, hash_of, kept
from probmetric.large.source import (
    Part,
    Source,
    bins,
    block_rows,
    blocks_of,
    class_counts,
    n_features,
    refuse_arrays,
)


class SourceReader(Reader):
    """Read standardized rows of a source. Set-up passes read labels and moments."""

    def __init__(self, source: Source, *, standardize: bool) -> None:
        if not source.labeled or source.weighted:
            raise ValueError(
                f"X must be opened with labels and without weights, got {source.name} "
                f"with labeled={source.labeled}, weighted={source.weighted}. Use "
                "pm.open(..., label=) without weight=."
            )
        classes, counts = class_counts(source)
        if len(classes) < 2 or counts.min() < 2:
            sizes = dict(zip(classes.tolist()[:5], counts.tolist(), strict=False))
            raise ValueError(
                "label must contain at least 2 classes with 2 or more rows, got "
                f"class sizes {sizes}."
            )
        moments, origin = class_moments(source, classes)
        n, low, high, mean, square = moments.columns
        d = n_features(source)
        self.scaler = Scaler(np.zeros(d), np.ones(d))
        if standardize:
            constant = constant_columns(np.array([low, high]))
            if constant.all():
                raise ValueError(
                    "X must have a column that is not constant, got only constant "
                    "columns. Add features that vary."
                )
            scale = np.where(constant, 1.0, np.sqrt(np.asarray(square) / n))
            self.scaler = Scaler(np.asarray(mean), scale)
        self.source, self.classes, self.counts = source, classes, counts
        self.n_features = d
        self.scatter = total_scatter(standardized(moments, origin, self.scaler))

    def run(self, task: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return ``task(rows, *shared)`` for each group of bins, in one pass."""
        parts = split([some for some in bins(self.source.parts) if some])
        labeled = self.source, self.classes, self.scaler
        return [*run(_task, parts, task, labeled, shared)]

    def stored[T](
        self, name: str, params: Any, like: Callable[[], T], compute: Callable[[], T]
    ) -> T:
        """Return the result of a pass, from the checkpoint if it is stored."""
        return kept(Pass(name, hash_of(self.source), params), like, compute)


def _task(
    parts: Sequence[Sequence[Part]],
    task: Callable[..., Any],
    labeled: tuple[Source, np.ndarray, Scaler],
    shared: tuple[Any, ...],
) -> Any:
    source, classes, scaler = labeled

    def rows() -> Iterator[Rows]:
        size = block_rows(source)
        for X, y, _, first, n in blocks_of(source, parts, size, classes=classes):
            yield Rows((X[:n] - scaler.mean) / scaler.scale, y[:n], first)

    return task(rows(), *shared)


def check(self: LCA, X: Source) -> tuple[Recipe, float | str]:
    """Raise for settings that data on disk do not support; return the recipe and λ."""
    refuse_rank(self, "the data are on disk")
    recipe, lam = recipe_of(self, n_features(X))
    check_anchors(self, lam, None)
    return recipe, lam


def fit(
    self: LCA,
    X: Source,
    y: object = None,
    *,
    sample_weight: object = None,
    groups: object = None,
) -> LCA:
    """Fit ``LCA`` to rows on disk from anchors."""
    refuse_groups(groups, "the data are on disk")
    refuse_arrays(sample_weight=sample_weight)
    begin(self, X, y)
    recipe, lam = check(self, X)
    reader = SourceReader(X, standardize=self.standardize)
    self.classes_ = reader.classes
    warn_of_unlabeled(self.unlabeled, reader.classes, "label")
    return store(self, from_anchors(self, reader, recipe, lam), reader.scaler)
