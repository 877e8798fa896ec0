"""Soft votes of nearest neighbors on held-out points, under several metrics.

``cross_validate`` learns each metric from the training points of a split. The training
points vote for the classes of the held-out points. All metrics use the same splits, so
differences of scores are paired. ``held_out`` compares learners by log scores.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from inspect import signature
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedKFold

from probmetric.data.inputs import class_codes
from probmetric.data.scaling import constant_columns, fit_scaler
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors import KNeighborsClassifier
from probmetric.progress import progress_bar
from probmetric.registry import fit_labels
from probmetric.typing import ArrayLike, no_type_check

EUCLID = "Euclidean, standardized"
"""Name of ``euclid`` in tables."""

type Rows = Int[np.ndarray, "_"]
type Learn = Callable[[Rows], Dissimilarity | MetricDraws]
"""Function that learns a metric from the rows with given numbers."""


class Stated(NamedTuple):
    """Class probabilities of the held-out points of one split under one metric."""

    name: str
    split: int
    rows: Rows
    classifier: KNeighborsClassifier
    P: Float[np.ndarray, "m c"]

    def of_truth(self, y: np.ndarray) -> tuple[Rows, Float[np.ndarray, "m"]]:
        """Return the codes of the true classes, and their probabilities."""
        codes = np.searchsorted(self.classifier.classes_, y[self.rows])
        return codes, self.P[np.arange(len(codes)), codes]


def cross_validate(
    metrics: Mapping[str, Learn],
    X: ArrayLike,
    y: np.ndarray,
    splits: Iterable[tuple[Rows, Rows]],
    *,
    n_neighbors: int = 5,
    novelty: float | None = None,
) -> Generator[Stated]:
    """Classify held-out points of each split by soft votes under each metric."""
    for number, (train, test) in enumerate(splits):
        for name, learn in metrics.items():
            classifier = KNeighborsClassifier(learn(train), n_neighbors)
            if novelty is not None:
                other = _other_label(y)
                classifier.set_params(novelty=novelty, outlier_label=other)
            classifier.fit(rows_of(X, train), y[train])
            P = classifier.predict_proba(rows_of(X, test))
            yield Stated(name, number, test, classifier, P)


def _other_label(y: np.ndarray) -> Any:
    numbers = y.dtype.kind in "iufb"
    return y.max() + 1 if numbers else f"not {max(map(str, y))}"


def stratified_folds(
    codes: Int[np.ndarray, "n"], n_folds: int, seed: int, name: str = "n_folds"
) -> list[tuple[Rows, Rows]]:
    """Make stratified folds of (training rows, held-out rows).

    If a class has only one row, this row is a training row in every fold. ``name`` is
    the argument in the error message for too many folds.
    """
    sizes = np.bincount(codes)
    smallest = int(sizes[sizes > 1].min()) if np.any(sizes > 1) else 1
    if not 2 <= n_folds <= smallest:
        raise ValueError(
            f"{name} must be 2 to {smallest}, the size of the smallest class, got "
            f"{n_folds}."
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    rest, single = np.flatnonzero(sizes[codes] > 1), np.flatnonzero(sizes[codes] == 1)
    return [
        (np.append(rest[train], single), rest[test])
        for train, test in folds.split(rest, codes[rest])
    ]


def rows_of(X: ArrayLike, rows: Rows) -> np.ndarray | pd.DataFrame:
    """Select rows of an array or of a DataFrame."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else np.asarray(X)[rows]


@no_type_check
def held_out(
    candidates: Mapping[str, BaseEstimator],
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbors: int = 5,
    n_folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare learners by the log score of neighbor votes for held-out points.

    The points are divided into stratified folds. Each candidate is fitted without one
    fold. A ``KNeighborsClassifier`` with the same training points and the learned
    metric predicts the left-out fold. If the candidate has
    ``posterior_metric("prediction")``, class probabilities are averaged over its draws.
    Otherwise ``get_metric()`` is used.

    Parameters
    ----------
    candidates : mapping of str to estimator
        Learners with ``get_metric``, by name. Clones of the learners are fitted.
    X : array-like of shape (n, d)
        Points.
    y : array-like of shape (n,)
        Classes. If a class has only one row, this row is a training row in every fold,
        and is never predicted.
    n_neighbors : int, default=5
        As in ``KNeighborsClassifier``.
    n_folds : int, default=5
        Number of folds, at most the size of the smallest class.
    seed : int, default=0
        Seed for the folds. All candidates use the same folds.

    Returns
    -------
    DataFrame
        One row per candidate, the best first, with columns

        - ``elpd``: sum of the log probabilities of the true classes. Do not compare it
          with ``loo``, which predicts the observations of the model (for LCA: labels of
          pairs).
        - ``se``: standard error of ``elpd``.
        - ``elpd_diff``: ``elpd`` of the best candidate minus ``elpd`` of this
          candidate.
        - ``dse``: standard error of ``elpd_diff``.

        ``se`` and ``dse`` are slightly too small, because one fit predicts all points
        of a fold.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> held_out({"LDA": pm.LDA(), "RCA": pm.RCA()}, X[::3], y[::3]).columns.tolist()
    ['elpd', 'se', 'elpd_diff', 'dse']
    """
    if not isinstance(cast("object", candidates), Mapping):
        raise TypeError(
            "candidates must be a mapping of names to learners, got "
            f"{type(candidates).__name__}."
        )
    if not candidates:
        raise ValueError("candidates must contain at least one learner, got none.")
    lacking = [name for name, c in candidates.items() if not _learns_a_metric(c)]
    if lacking:
        raise ValueError(
            "candidates must be learners with a method get_metric(), got "
            f"{', '.join(lacking)}. Remove these."
        )
    classes, codes = class_codes(y, "y")
    labels = classes[codes]
    if (n := np.shape(X)[0]) != len(labels):
        raise ValueError(
            f"y must have one label per row of X ({n}), got {len(labels)}."
        )

    def learner(candidate: BaseEstimator) -> Learn:
        return lambda rows: _metric(
            fit_labels(clone(candidate), rows_of(X, rows), labels[rows])
        )

    scores: dict[str, list[np.ndarray]] = {name: [] for name in candidates}
    learners = {name: learner(candidate) for name, candidate in candidates.items()}
    folds = stratified_folds(codes, n_folds, seed)
    folds = progress_bar(folds, "held-out points", None, "fold")
    for stated in cross_validate(learners, X, labels, folds, n_neighbors=n_neighbors):
        scores[stated.name].append(np.log(stated.of_truth(labels)[1]))
    return _table({name: np.concatenate(found) for name, found in scores.items()})


def _table(scores: Mapping[str, Float[np.ndarray, "n"]]) -> pd.DataFrame:
    order = sorted(scores, key=lambda name: -scores[name].sum())
    table: Any = pd.DataFrame(scores, columns=pd.Index(order, name="candidate"))
    gap, root = table.rsub(table[order[0]], axis=0), np.sqrt(len(table))
    return pd.DataFrame(
        {
            "elpd": table.sum(),
            "se": root * table.std(),
            "elpd_diff": gap.sum(skipna=False),
            "dse": root * gap.std(skipna=False),
        }
    )


def _learns_a_metric(candidate: object) -> bool:
    """Return whether ``get_metric()`` requires no argument (such as a class)."""
    make = getattr(candidate, "get_metric", None)
    return make is not None and all(
        parameter.default is not parameter.empty
        for parameter in signature(make).parameters.values()
    )


def _metric(fitted: object) -> Dissimilarity | MetricDraws:
    make = getattr(fitted, "posterior_metric", None)
    if make is None or next(iter(signature(make).parameters)) != "purpose":
        return getattr(fitted, "get_metric")()  # noqa: B009
    return make("prediction")


def euclid(X: Float[np.ndarray, "n d"]) -> Mahalanobis:
    """Return the Euclidean metric of standardized (or constant) features."""
    varies = not constant_columns(X).all()
    scale = fit_scaler(X, standardize=varies).scale
    return Mahalanobis(np.diag(1 / scale))
