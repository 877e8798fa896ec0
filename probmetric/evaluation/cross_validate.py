"""Scores of nearest neighbours on points held out, under several metrics.

Every split is stratified, standardises on its training part alone, and is shared by
all rows of the table, so that differences are paired.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.model_selection import StratifiedShuffleSplit

from probmetric.data.scaling import fit_scaler
from probmetric.metric import Mahalanobis
from probmetric.neighbors import KNeighborsClassifier
from probmetric.progress import progress_bar

__all__ = ["HeldOut", "class_spread", "euclid", "held_out", "summary"]


class HeldOut(NamedTuple):
    """Class probabilities of held-out points under one metric, split by split."""

    name: str
    correct: Float[np.ndarray, "splits m"]
    log_score: Float[np.ndarray, "splits m"]
    brier: Float[np.ndarray, "splits m"]


def euclid(X: Float[np.ndarray, "n d"]) -> Mahalanobis:
    """Return the Euclidean metric of standardised features; constant ones stay."""
    varying = np.flatnonzero(X.max(0) > X.min(0))
    scale = np.ones(X.shape[1])
    if len(varying):
        scale[varying] = fit_scaler(X[:, varying], varying).scale
    return Mahalanobis(np.diag(1 / scale))


def held_out(
    metrics: Mapping[str, Callable[[np.ndarray, np.ndarray], Any]],
    X: Float[np.ndarray, "n d"],
    y: np.ndarray,
    *,
    n_splits: int,
    seed: int,
    progress: bool | None = None,
    n_neighbors: int = 5,
) -> list[HeldOut]:
    """Return, for each metric, the scores of its soft votes on held-out points.

    Parameters
    ----------
    metrics : mapping of str to callable
        ``name -> fit(X_train, y_train) -> Metric or PosteriorMetric``. They see the
        training part only.
    X : array of shape (n, d)
    y : array of shape (n,)
    n_splits : int
        Stratified splits, 30 % held out.
    seed : int
    progress : bool, optional
        Default: in terminals and notebooks.
    n_neighbors : int, default=5

    Returns
    -------
    list of HeldOut, one for each metric
    """
    splitter = StratifiedShuffleSplit(n_splits, test_size=0.3, random_state=seed)
    rows: dict[str, list[tuple[np.ndarray, ...]]] = {name: [] for name in metrics}
    splits = list(splitter.split(X, y))
    for train, test in progress_bar(splits, "held-out neighbours", progress):
        for name, fit in metrics.items():
            learned = fit(X[train], y[train])
            classifier = KNeighborsClassifier(learned, n_neighbors)
            classifier.fit(X[train], y[train])
            stated = classifier.predict_proba(X[test])
            truth = np.searchsorted(classifier.classes_, y[test])
            own = stated[np.arange(len(test)), truth]
            hit = np.eye(stated.shape[1])[truth]
            rows[name].append(
                (
                    (stated.argmax(1) == truth).astype(float),
                    np.log(own),
                    np.sum((stated - hit) ** 2, 1),
                )
            )
    return [
        HeldOut(name, *(np.stack(column) for column in zip(*found, strict=True)))
        for name, found in rows.items()
    ]


def summary(results: list[HeldOut]) -> pd.DataFrame:
    """Return one row a metric: error, log score and Brier score over splits.

    The paired column is the difference of the log score from the first row, with the
    standard error over splits, which overlap: it describes this table, and is no test.
    """
    base = results[0].log_score.mean(1)
    rows: list[dict[str, Any]] = []
    for result in results:
        difference = result.log_score.mean(1) - base
        error = difference.std(ddof=1) / np.sqrt(len(base)) if len(base) > 1 else np.nan
        rows.append(
            {
                "neighbours under": result.name,
                "error, %": round(100 * float(1 - result.correct.mean()), 2),
                "log score": round(float(result.log_score.mean()), 4),
                "Brier score": round(float(result.brier.mean()), 4),
                f"log score against {results[0].name}": (
                    ""
                    if result is results[0]
                    else f"{difference.mean():+.4f} ± {error:.4f}"
                ),
            }
        )
    return pd.DataFrame(rows)


def class_spread(
    draws: Any,
    X: Float[np.ndarray, "n d"],
    y: np.ndarray,
    query: Float[np.ndarray, "d"],
    *,
    bandwidth: float,
    n_draws: int = 100,
) -> Float[np.ndarray, "s c"]:
    """Return one query's class probabilities under each of some draws of the metric.

    ``bandwidth`` is that of the classifier that averages over all draws.
    """
    metrics = draws.metrics()
    chosen = np.unique(np.linspace(0, len(metrics) - 1, n_draws).astype(int))
    return np.stack(
        [
            KNeighborsClassifier(metrics[s], bandwidth=bandwidth, prior_weight=0.02)
            .fit(X, y)
            .predict_proba(query[None])[0]
            for s in chosen
        ]
    )
