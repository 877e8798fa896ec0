"""Answers beside points: a table of judged pairs or of triplets; fits, and scores.

A line of the table is about rows of ``--data``, by their numbers from 0: two of a pair,
three of a triplet, four of a quadruplet. Objects that have no features are numbers
alone.
"""

from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import expit

from probmetric.cli.files import note
from probmetric.data.hash import data_hash
from probmetric.data.inputs import points
from probmetric.data.source import is_source
from probmetric.data.unlabeled import leaves_out
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.loading import load_points
from probmetric.datasets.tables import read_content
from probmetric.evaluation.answers import answer_auc, answer_scores
from probmetric.names import AS_IS, Reading, ending, existing, is_set
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws
from probmetric.registry import without_points

COLUMNS = {
    "pairs": (("i", "j"), ("y",), ("trials", "weight")),
    "triplets": (("anchor", "near", "far"), (), ("y", "weight")),
    "quadruplets": (("anchor", "near", "other", "far"), (), ("y", "weight")),
}
"""Of a table: the rows that it is about, what it must have, and what it may have."""

ARGUMENTS = {"weight": "sample_weight"}
"""Columns whose name is another than that of the argument of a fit."""


class Table(NamedTuple):
    """A table of answers: rows (N, 2), (N, 3) or (N, 4), and what a fit is told."""

    kind: str
    rows: Int[np.ndarray, "N k"]
    given: dict[str, np.ndarray]
    path: Path


class Answered(NamedTuple):
    """Points, or objects without features, and the answers about them."""

    X: Float[np.ndarray, "n d"] | None
    feature_names: tuple[str, ...]
    name: str
    table: Table
    about: dict[str, Any]


def read_table(
    name: str, how: Reading = AS_IS, option: str = "--answers", *, answers: bool = True
) -> Table:
    """Read a table of answers: which kind it is, its columns say.

    Without ``answers`` it is of questions, of pairs too: it need not hold any.

    Raises
    ------
    ValueError
        For columns of neither kind, of both, or twice; for numbers of rows that are not
        whole or are negative.
    """
    path = existing(name, option)
    how.of_load(name)  # Refuses what is of rows in parts.
    if leaves_out(how.unlabeled):
        raise ValueError(
            f"--unlabeled cannot be combined with {option}, got {how.unlabeled!r}. "
            f"{option} counts all rows of --data."
        )
    text = ending(path) in (".csv", ".csv.gz", ".tsv", ".tsv.gz")
    frame, _ = read_content(path, how._replace(drop=(), features=()) if text else AS_IS)
    wanted = (
        "expected columns i, j, y of pairs (and trials, weight, where there are), or "
        "anchor, near, far of triplets (other too, of quadruplets; and y, weight)"
        if answers
        else "expected columns i, j of pairs, or anchor, near, far of triplets (other "
        "too, of quadruplets)"
    )
    if not isinstance(frame, pd.DataFrame) or not len(frame):
        raise ValueError(f"{option}: {wanted}, got no table of them in {path.name}")
    found = [str(column) for column in frame.columns]
    once = len({*found}) == len(found)
    for kind, (index, needed, more) in COLUMNS.items():
        least = {*index, *(needed if answers else ())}
        if once and least <= {*found} <= {*index, *needed, *more}:
            rows = np.stack([_whole(frame[name], path, option) for name in index], 1)
            given = {
                ARGUMENTS.get(name, name): frame[name].to_numpy()
                for name in (*needed, *more)
                if name in found
            }
            return Table(kind, rows, given, path)
    raise ValueError(f"{option}: {wanted}, got {', '.join(found)} in {path.name}")


def _whole(column: Any, path: Path, option: str) -> np.ndarray:
    """Return numbers of rows; raise for what is none."""
    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), float)
    (wrong,) = np.nonzero(~((numbers >= 0) & (numbers % 1 == 0)))
    if len(wrong):
        raise ValueError(
            f"{option}: expected whole numbers of rows from 0 in {path.name}, got "
            f"{str(column.iloc[wrong[0]])!r} as {column.name} in row {wrong[0]}"
        )
    return numbers.astype(int)


def check_rows(table: Table, n: int, data: str, option: str = "--answers") -> None:
    """Raise for numbers of rows that n points have not."""
    largest = int(table.rows.max())
    if largest >= n:
        raise ValueError(
            f"{option}: expected rows 0..{n - 1} of {data}, got row {largest}"
        )


def check_no_data(data: str | None, name: str) -> None:
    """Raise for points beside objects that have no features."""
    if data is not None:
        raise ValueError(
            f"--data: expected none for {name}, whose objects have no features, "
            f"got {data!r}"
        )


def check_answers(estimator: Any, answers: str | None) -> None:
    """Raise for objects without features, of which nothing is said but by answers."""
    if answers is None and without_points(estimator):
        raise ValueError(
            f"--answers: expected triplets for {type(estimator).__name__}, whose "
            "objects have no features, got none"
        )


def answered(
    estimator: Any,
    answers: str,
    data: str | None,
    label: str | None,
    groups: str | None,
    how: Reading,
) -> Answered:
    """Return the points and answers that an estimator is to learn from.

    Raises
    ------
    ValueError
        For a learner that takes no such answers, or no such column; points for one that
        has none, no points for the others; numbers of rows that the points have not.
    """
    if groups is not None:
        raise ValueError(f"--groups: expected none beside --answers, got {groups!r}")
    table = read_table(answers, how)
    _fit_of(estimator, table)
    n, name = None, type(estimator).__name__
    if without_points(estimator):
        stated = estimator.n_objects  # The fit refuses what is no number.
        n = stated if isinstance(stated, int) else 0
    return about_points(table, answers, data, label, how, objects=n, name=name)


def about_points(
    table: Table,
    answers: str,
    data: str | None,
    label: str | None,
    how: Reading,
    *,
    objects: int | None,
    name: str,
) -> Answered:
    """Return answers with the points that they are about.

    ``objects`` is None where there are points; else the least number of objects
    without features, of a learner or a metric called ``name``.

    Raises
    ------
    ValueError
        As ``answered``.
    """
    largest = int(table.rows.max())
    if objects is not None:
        check_no_data(data, name)
        X, source, called = None, str(table.path.resolve()), answers
        n = max(largest + 1, objects)
        names = tuple(map(str, range(n)))
    else:
        if data is None:
            raise ValueError("--data: expected the points of --answers, got none")
        found = load_points(data, label=label, how=how)
        X, names, called = points(found.X, "data"), found.feature_names, data
        source, n = data if is_set(data) else str(existing(data).resolve()), len(X)
        check_rows(table, n, data)
        for remark in doubtful_columns(X, names):
            note(remark)
    about = {
        "source": source,
        "label": label,
        "groups": None,
        "reading": how._asdict(),
        "n": n,
        "features": list(names),
        "classes": {},
        "hash": data_hash([X, table.rows, *table.given.values()]),
        "answers": {
            "source": str(table.path.resolve()),
            "kind": table.kind,
            "n": len(table.rows),
        },
    }
    return Answered(X, names, called, table, about)


def _fit_of(estimator: Any, table: Table) -> Any:
    """Return the method that learns from a table; raise where there is none."""
    kind, name = table.kind, type(estimator).__name__
    ways = {"pairs": "fit_pairs"}
    fit = getattr(estimator, ways.get(kind, "fit_triplets"), None)
    if kind != "pairs" and without_points(estimator):
        fit = estimator.fit
    elif "preprocessor" not in estimator.get_params():
        fit = None
    if fit is None:
        raise ValueError(
            f"--answers: expected a learner that takes {kind}, got {name}, which does "
            "not"
        )
    lacking = table.given.keys() - signature(fit).parameters.keys()
    if lacking:
        column = min(lacking)
        raise ValueError(
            f"--answers: expected no column {column!r}, which {name} does not take, "
            f"got one in {table.path.name}"
        )
    return fit


def fit_answers(estimator: Any, data: Answered) -> Any:
    """Fit an estimator to answers about points, which stand for their numbers."""
    fit = _fit_of(estimator, data.table)
    if data.X is None:
        return fit(data.table.rows, **data.table.given)
    estimator.set_params(preprocessor=data.X)
    try:
        return fit(data.table.rows, **data.table.given)
    finally:  # An argument of this fit, none that a summary lists.
        estimator.set_params(preprocessor=None)


def some(data: Answered, rows: Int[np.ndarray, "m"]) -> Answered:
    """Return some of the answers, about the same points."""
    table = data.table
    given = {name: values[rows] for name, values in table.given.items()}
    return data._replace(table=table._replace(rows=table.rows[rows], given=given))


def probabilities(
    metric: Any, data: Answered, *, log_odds: bool
) -> tuple[Float[np.ndarray, "N"] | None, Float[np.ndarray, "N"], str]:
    """Return P(yes) of answers under a metric or draws, a score, and what lacks.

    Yes is *same* for a pair, and *near is nearer* for a triplet; the score is minus the
    distance, or by how much far is farther. P is averaged over draws; None, with the
    reason, where the metric does not say it. ``log_odds``: of triplets, that squared
    distances are in this unit.
    """
    X: Any = np.eye(metric.n_features) if data.X is None else data.X
    ends = [X[rows] for rows in data.table.rows.T]
    if data.table.kind == "pairs":
        score = -_apart(metric, *ends).mean(0)
        try:
            return np.asarray(metric.same_probability(*ends)), score, ""
        except (AttributeError, ValueError) as error:
            return None, score, str(error)
    anchor, by, *other, away = ends
    near = _apart(metric, anchor, by)
    far = _apart(metric, other[0] if other else anchor, away)
    score = (far - near).mean(0)
    if not log_odds:
        lacks = "nothing says that the metric was learned from triplets: no P(near)"
        return None, score, lacks
    return expit(far**2 - near**2).mean(0), score, ""


def _apart(metric: Any, A: np.ndarray, B: np.ndarray) -> Float[np.ndarray, "s N"]:
    """Return distances of matching rows under each draw, or under the one metric."""
    if isinstance(metric, PosteriorMetric):
        return metric.pair_draws(A, B)
    return over_draws(between_rows, [metric], A, B)


def figures_of(
    data: Answered, P: Float[np.ndarray, "N"] | None, score: Float[np.ndarray, "N"]
) -> dict[str, float]:
    """Return the scores of what was stated of answers; without P those of the order.

    A triplet counts with near and far exchanged as well: which of the two a table
    calls near has no meaning, and no score may depend on it.
    """
    given: Any = {
        name: data.table.given.get(name) for name in ("trials", "sample_weight")
    }
    y = answers_of(data.table)
    if data.table.kind == "pairs":
        if P is not None:
            return answer_scores(P, y, **given)
        return {"roc_auc": answer_auc(score, y, **given)}
    weight = given["sample_weight"]
    both = np.append(y, 1 - y), None if weight is None else np.append(weight, weight)
    # Without P the nearer one is said, and nothing of how sure.
    said = P if P is not None else np.where(score == 0, 0.5, score > 0)
    found = answer_scores(np.append(said, 1 - said), both[0], sample_weight=both[1])
    names = ("accuracy",) if P is None else ("accuracy", "log_loss", "brier", "ece")
    return {name: found[name] for name in names}


def answers_of(table: Table) -> np.ndarray:
    """Return y as 0 and 1, or counts; 1 where a table of triplets has none.

    Raises
    ------
    ValueError
        For answers of another kind.
    """
    if "y" not in table.given:
        return np.ones(len(table.rows))
    y = np.asarray(table.given["y"], float)
    return np.where(y == -1, 0, y) if "trials" not in table.given else y


def learned_rows(data: Any) -> Any:
    """Return what a fit learns from: points, a source, or the points of each answer.

    Objects without features are their numbers.
    """
    if not isinstance(data, Answered):
        return data if is_source(data) else data.X
    rows = ordered(data.table.kind, data.table.rows)
    return rows.astype(float) if data.X is None else data.X[rows].reshape(len(rows), -1)


def ordered(kind: str, rows: Int[np.ndarray, "N k"]) -> Int[np.ndarray, "N k"]:
    """Return questions in one order: two rows of a pair, the two that are compared."""
    if kind == "triplets":
        return np.hstack([rows[:, :1], np.sort(rows[:, 1:], 1)])
    if kind == "pairs":
        return np.sort(rows, 1)
    one, other = np.sort(rows[:, :2], 1), np.sort(rows[:, 2:], 1)
    turned = (one[:, :1] > other[:, :1]) | (
        (one[:, :1] == other[:, :1]) & (one[:, 1:] > other[:, 1:])
    )
    return np.where(turned, np.hstack([other, one]), np.hstack([one, other]))
