"""``KNeighborsClassifier`` of rows on disk, which are never all in memory.

``large.neighbors`` finds the k nearest rows of each query (one pass per metric). Their
labels are then read. ``fit`` tunes the weight of the class prior on ``TUNED`` rows (all
if there are fewer). Each of these rows is predicted from all other rows.

Memory is m (k + c) numbers for m queries and c classes, besides ``large.neighbors``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_choice
from probmetric.data.truth import shift_to
from probmetric.data.unlabeled import refuse_unlabeled, warn_of_unlabeled
from probmetric.large.choose import labels_at, sampled
from probmetric.large.source import (
    Block,
    Labels,
    Source,
    View,
    check_labels,
    class_counts,
    n_features,
    n_rows,
    refuse_arrays,
)
from probmetric.metric import Dissimilarity
from probmetric.neighbors.search import nearest
from probmetric.neighbors.votes import PRIOR_WEIGHTS

TUNED = 2000
"""Maximum number of rows for choosing the weight of the class prior."""


@dataclass(frozen=True)
class _Coded:
    classes: np.ndarray

    def __call__(self, block: Block) -> Block:
        assert block.labels is not None
        values = np.searchsorted(self.classes, block.labels.values)
        return block._replace(labels=Labels(values, block.labels.codes))


def fit(self: Any, X: Source, y: object = None) -> Any:
    """Fit ``KNeighborsClassifier`` to rows on disk."""
    refuse_arrays(y=y)
    if self.votes != "count":
        check_choice("votes", self.votes, tuple(PRIOR_WEIGHTS))
        raise ValueError(
            f"votes must be 'count' for a dataset on disk, got {self.votes!r}. Use "
            "votes='count', or load the points into memory."
        )
    refuse_unlabeled(self.unlabeled)
    check_labels(X)
    if X.weighted:
        raise ValueError(
            "weight must be None for a neighbor classifier, got a dataset with "
            "weights. Use pm.open without weight=."
        )
    (self.classes_, members), n, d = class_counts(X), n_rows(X), n_features(X)
    warn_of_unlabeled(self.unlabeled, self.classes_, "label")
    self._check_arguments(n)
    if isinstance(self.metric, list | tuple):
        raise ValueError(
            "metric must be a single metric for a dataset on disk, got "
            f"{len(self.metric)} metrics"
        )
    self.parts_ = []
    metrics = self._set_metric(X, None, d)
    self.n_features_in_ = d
    for name in ("feature_names_in_", "_columns", "factors_"):
        vars(self).pop(name, None)
    if [*X.feature_names] != [f"x{j}" for j in range(d)]:
        self.feature_names_in_ = np.array(X.feature_names, object)
    self.class_prior_ = members / n
    shift_to(self.class_prior, self.classes_, self.class_prior_)
    points = View(X, _Coded(self.classes_), X.name, weighted=False)
    self.fit_X_, self.codes_, self._w = points, None, None
    k = min(self.n_neighbors, max(1, n - 1))
    grids, tune = self._grids(n)
    votes, codes = np.empty((0, len(members))), np.empty(0, int)
    if tune:
        votes, codes = left_out(metrics, points, k, len(members))
    own = votes[None, None, np.arange(len(codes)), codes]
    self._tune(own, codes, members, grids, tune, k)
    self._set_reference()
    return self


def count_votes(
    metrics: Sequence[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    X: Source,
    codes: None,
    k: int,
    n_classes: int,
    excluded: Int[np.ndarray, "m"] | None = None,
    w: None = None,
) -> Float[np.ndarray, "m c"]:
    """Compute the class shares among the k nearest rows, averaged over metrics."""
    votes = np.zeros((len(Q), n_classes))
    exclude = False if excluded is None else excluded
    for metric in metrics:
        index = nearest(metric, Q, X, k, exclude_self=exclude)[1]
        np.add.at(votes, (np.arange(len(Q))[:, None], labels_at(X, index)), 1.0)
    return votes / (k * len(metrics))


def left_out(
    metrics: Sequence[Dissimilarity], points: Source, k: int, n_classes: int
) -> tuple[Float[np.ndarray, "m c"], Int[np.ndarray, "m"]]:
    """Compute votes of all other rows for ``TUNED`` rows, and their classes."""
    sample = sampled(points, TUNED)
    assert sample.labels is not None
    votes = count_votes(metrics, sample.X, points, None, k, n_classes, sample.rows)
    return votes, sample.labels


def warn_of_training_data(*_: object) -> None:
    """Do not compare rows with the training rows, because this would read all rows."""
