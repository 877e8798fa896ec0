"""Votes of nearest neighbours on points held out, under several metrics.

A metric is learned from the training part of a split alone, its votes are those of the
same points, and all candidates see the same splits, so that differences are paired:
``cross_validate``. What is made of the stated probabilities:

``held_out``       learners, compared by their log scores over folds;
``vote_scores``    metrics, each split by itself, and ``summary``, their table.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from probmetric.data.inputs import class_codes
from probmetric.data.scaling import constant_columns, fit_scaler
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors import KNeighborsClassifier
from probmetric.progress import progress_bar
from probmetric.registry import fit_labels
from probmetric.typing import ArrayLike, no_type_check

EUCLID = "Euclidean, standardised"
"""What ``euclid`` is called in tables."""

type Rows = Int[np.ndarray, "_"]


class Stated(NamedTuple):
    """What votes under one metric state of the points held out of one split."""

    name: str
    split: int
    rows: Rows
    classifier: KNeighborsClassifier
    P: Float[np.ndarray, "m c"]

    def of_truth(self, y: np.ndarray) -> tuple[Rows, Float[np.ndarray, "m"]]:
        """Return the codes of the true classes, and the probabilities of these."""
        codes = np.searchsorted(self.classifier.classes_, y[self.rows])
        return codes, self.P[np.arange(len(codes)), codes]


def cross_validate(
    metrics: Mapping[str, Callable[[Rows], Dissimilarity | MetricDraws]],
    X: ArrayLike,
    y: np.ndarray,
    splits: Iterable[tuple[Rows, Rows]],
    *,
    n_neighbors: int = 5,
) -> Generator[Stated]:
    """Classify the points held out of each split by soft votes under each metric.

    Parameters
    ----------
    metrics : mapping of str to callable
        ``name -> learn(rows) -> Metric or PosteriorMetric``, of the training rows.
    X : array or DataFrame of shape (n, d)
    y : array of shape (n,)
    splits : iterable of (training rows, rows held out)
    n_neighbors : int, default 5

    Yields
    ------
    Stated
        Split by split, in the order of ``metrics``.
    """
    for number, (train, test) in enumerate(splits):
        for name, learn in metrics.items():
            classifier = KNeighborsClassifier(learn(train), n_neighbors)
            classifier.fit(rows_of(X, train), y[train])
            P = classifier.predict_proba(rows_of(X, test))
            yield Stated(name, number, test, classifier, P)


def stratified_folds(
    codes: Int[np.ndarray, "n"], n_folds: int, seed: int, name: str = "n_folds"
) -> list[tuple[Rows, Rows]]:
    """Return stratified folds as (training rows, rows held out).

    The only row of a class is a training row in every fold.

    Raises
    ------
    ValueError
        Naming ``name``, for more folds than the smallest class of two or more has
        points.
    """
    sizes = np.bincount(codes)
    smallest = int(sizes[sizes > 1].min()) if np.any(sizes > 1) else 1
    if not 2 <= n_folds <= smallest:
        raise ValueError(
            f"{name}: expected 2 to {smallest}, the size of the smallest class, got "
            f"{n_folds}"
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    rest, alone = np.flatnonzero(sizes[codes] > 1), np.flatnonzero(sizes[codes] == 1)
    return [
        (np.append(rest[train], alone), rest[test])
        for train, test in folds.split(rest, codes[rest])
    ]


def rows_of(X: Any, rows: Rows) -> np.ndarray | pd.DataFrame:
    """Return rows of an array or of a DataFrame."""
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]


@no_type_check
def held_out(
    candidates: Mapping[str, BaseEstimator],
    X: Any,
    y: ArrayLike,
    *,
    n_neighbors: int = 5,
    n_folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare learners by the log score of soft votes on points left out.

    In each of ``n_folds`` stratified folds a candidate is fitted on the rest, and its
    ``posterior_metric("prediction")``, or ``get_metric()`` where it has none, drives
    a ``KNeighborsClassifier`` of the same points: votes are averaged over draws.

    Parameters
    ----------
    candidates : mapping of str to estimator
        Unfitted, of labelled points, with ``get_metric``; they are cloned.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    n_neighbors : int, default=5
    n_folds : int, default=5
        At most the size of the smallest class.
    seed : int, default=0
        Of the folds, which all candidates share.

    Returns
    -------
    DataFrame
        Indexed by candidate, best first: ``elpd``, the sum of log scores over points;
        ``se`` of it; ``elpd_diff`` to the best, ≥ 0, and ``dse``, its standard error
        over points. Points of one fold share a fit, so that both errors are somewhat
        too small.

    Raises
    ------
    ValueError
        No candidates; one that learns no metric; a class smaller than ``n_folds``.
    TypeError
        Candidates without names.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> held_out({"LDA": pm.LDA(), "RCA": pm.RCA()}, X[::3], y[::3]).columns.tolist()
    ['elpd', 'se', 'elpd_diff', 'dse']
    """
    given: Any = candidates
    if not isinstance(given, Mapping):
        raise TypeError(
            "candidates: expected a mapping of names to learners, got "
            f"{type(given).__name__}"
        )
    if not candidates:
        raise ValueError("candidates: expected at least one, got none")
    lacking = [name for name, one in candidates.items() if not _learns_a_metric(one)]
    if lacking:
        raise ValueError(
            "candidates: expected learners of one metric (get_metric()), got "
            f"{', '.join(lacking)}"
        )
    classes, codes = class_codes(y, "y")
    y = classes[codes]
    if len(X) != len(y):
        raise ValueError(f"y: expected one label a row of X, {len(X)}, got {len(y)}")

    def learner(
        candidate: BaseEstimator,
    ) -> Callable[[Rows], Dissimilarity | MetricDraws]:
        def fit(rows: Rows) -> Dissimilarity | MetricDraws:
            fresh: Any = clone(candidate)
            return _metric(fit_labels(fresh, rows_of(X, rows), y[rows]))

        return fit

    scores = {name: np.empty(len(codes)) for name in candidates}
    learners = {name: learner(one) for name, one in candidates.items()}
    folds = stratified_folds(codes, n_folds, seed)
    folds = progress_bar(folds, "held-out points", None, "fold")
    for stated in cross_validate(learners, X, y, folds, n_neighbors=n_neighbors):
        scores[stated.name][stated.rows] = np.log(stated.of_truth(y)[1])
    return _table(scores)


def _learns_a_metric(candidate: object) -> bool:
    """Say whether ``get_metric()`` needs no argument, such as a class."""
    make = getattr(candidate, "get_metric", None)
    return make is not None and all(
        own.default is not own.empty for own in signature(make).parameters.values()
    )


def _metric(fitted: Any) -> Dissimilarity | MetricDraws:
    """Return draws for prediction where the learner can make them by itself."""
    make = getattr(fitted, "posterior_metric", None)
    if make is None or next(iter(signature(make).parameters)) != "purpose":
        return fitted.get_metric()
    return make("prediction")


def _table(scores: Mapping[str, Float[np.ndarray, "n"]]) -> pd.DataFrame:
    order = sorted(scores, key=lambda name: -scores[name].sum())
    own: Any = pd.DataFrame(scores, columns=pd.Index(order, name="candidate"))
    gap = own.rsub(own[order[0]], axis=0)
    root = np.sqrt(len(own))
    return pd.DataFrame(
        {
            "elpd": own.sum(),
            "se": root * own.std(),
            "elpd_diff": gap.sum(skipna=False),
            "dse": root * gap.std(skipna=False),
        }
    )


def euclid(X: Float[np.ndarray, "n d"]) -> Mahalanobis:
    """Return the Euclidean metric of standardised features; constant ones stay."""
    varies = not constant_columns(X).all()
    scale = fit_scaler(X, standardize=varies).scale
    return Mahalanobis(np.diag(1 / scale))


class VoteScores(NamedTuple):
    """Scores of the points held out under one metric, split by split."""

    name: str
    correct: Float[np.ndarray, "splits m"]
    log_score: Float[np.ndarray, "splits m"]
    brier: Float[np.ndarray, "splits m"]


type _Learn = Callable[[np.ndarray, np.ndarray], Dissimilarity | MetricDraws]
"""What points and classes teach."""


def vote_scores(
    metrics: Mapping[str, _Learn],
    X: Float[np.ndarray, "n d"],
    y: np.ndarray,
    *,
    n_splits: int,
    seed: int,
    progress: bool | None = None,
    n_neighbors: int = 5,
) -> list[VoteScores]:
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
        Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
    n_neighbors : int, default=5

    Returns
    -------
    list of VoteScores, one for each metric
    """

    def learner(fit: _Learn) -> Callable[[Rows], Dissimilarity | MetricDraws]:
        return lambda rows: fit(X[rows], y[rows])

    learners = {name: learner(fit) for name, fit in metrics.items()}
    splitter = StratifiedShuffleSplit(n_splits, test_size=0.3, random_state=seed)
    splits = list(splitter.split(X, y))
    splits = progress_bar(splits, "held-out neighbours", progress, "split")
    found: dict[str, list[tuple[np.ndarray, ...]]] = {name: [] for name in metrics}
    for stated in cross_validate(learners, X, y, splits, n_neighbors=n_neighbors):
        (truth, own), P = stated.of_truth(y), stated.P
        brier = np.sum((P - np.eye(P.shape[1])[truth]) ** 2, 1)
        right = (P.argmax(1) == truth).astype(float)
        found[stated.name].append((right, np.log(own), brier))
    return [
        VoteScores(name, *(np.stack(column) for column in zip(*rows, strict=True)))
        for name, rows in found.items()
    ]


def summary(results: list[VoteScores]) -> pd.DataFrame:
    """Return one row a metric: error, log score and Brier score over splits.

    The paired column is the difference of the log score from the first row, with the
    standard error over splits, which overlap: it describes this table, and is no test.
    """
    base = results[0].log_score.mean(1)
    rows: list[dict[str, str | float]] = []
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
    draws: MetricDraws,
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
