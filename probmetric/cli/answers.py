"""Answers beside points: a table of judged pairs or of triplets, and a fit to it.

A line of the table is about rows of ``--data``, by their numbers from 0: two of a pair,
three of a triplet. Objects that have no features are numbers alone.
"""

from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from probmetric.data.hash import data_hash
from probmetric.data.inputs import points
from probmetric.datasets.loading import load_points
from probmetric.datasets.tables import read_content
from probmetric.names import AS_IS, Reading, ending, existing, is_set
from probmetric.registry import without_points

COLUMNS = {
    "pairs": (("i", "j"), ("y",), ("trials", "weight")),
    "triplets": (("anchor", "near", "far"), (), ("y", "weight")),
}
"""Of a table: the rows that it is about, what it must have, and what it may have."""

ARGUMENTS = {"weight": "sample_weight"}
"""Columns whose name is another than that of the argument of a fit."""


class Table(NamedTuple):
    """A table of answers: rows (N, 2) or (N, 3), and what else a fit is told."""

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


def read_table(name: str, how: Reading = AS_IS) -> Table:
    """Read a table of answers: which kind it is, its columns say.

    Raises
    ------
    ValueError
        For columns of neither kind, of both, or twice; for numbers of rows that are not
        whole or are negative.
    """
    path = existing(name, "--answers")
    text = ending(path) in (".csv", ".csv.gz", ".tsv", ".tsv.gz")
    frame: Any = read_content(
        path, how._replace(drop=(), features=()) if text else AS_IS
    )
    wanted = (
        "expected columns i, j, y of pairs (and trials, weight, where there are), or "
        "anchor, near, far of triplets (and y, weight)"
    )
    if not isinstance(frame, pd.DataFrame) or not len(frame):
        raise ValueError(f"--answers: {wanted}, got no table of them in {path.name}")
    found = [str(column) for column in frame.columns]
    once = len({*found}) == len(found)
    for kind, (index, needed, more) in COLUMNS.items():
        if once and {*index, *needed} <= {*found} <= {*index, *needed, *more}:
            rows = np.stack([_whole(frame[name], path) for name in index], 1)
            given = {
                ARGUMENTS.get(name, name): frame[name].to_numpy()
                for name in (*needed, *more)
                if name in found
            }
            return Table(kind, rows, given, path)
    raise ValueError(f"--answers: {wanted}, got {', '.join(found)} in {path.name}")


def _whole(column: Any, path: Path) -> np.ndarray:
    """Return numbers of rows; raise for what is none."""
    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), float)
    (wrong,) = np.nonzero(~((numbers >= 0) & (numbers % 1 == 0)))
    if len(wrong):
        raise ValueError(
            f"--answers: expected whole numbers of rows from 0 in {path.name}, got "
            f"{str(column.iloc[wrong[0]])!r} as {column.name} in row {wrong[0]}"
        )
    return numbers.astype(int)


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
    largest = int(table.rows.max())
    if without_points(estimator):
        if data is not None:
            raise ValueError(
                f"--data: expected none for {type(estimator).__name__}, whose objects "
                f"have no features, got {data!r}"
            )
        X, source, name = None, str(table.path.resolve()), answers
        stated = estimator.n_objects  # The fit refuses what is no number.
        n = max(largest + 1, stated if isinstance(stated, int) else 0)
        names = tuple(map(str, range(n)))
    else:
        if data is None:
            raise ValueError("--data: expected the points of --answers, got none")
        found = load_points(data, label=label, how=how)
        X, names, name = points(found.X, "data"), found.feature_names, data
        source, n = data if is_set(data) else str(existing(data).resolve()), len(X)
        if largest >= n:
            raise ValueError(
                f"--answers: expected rows 0..{n - 1} of {data}, got row {largest}"
            )
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
    return Answered(X, names, name, table, about)


def _fit_of(estimator: Any, table: Table) -> Any:
    """Return the method that learns from a table; raise where there is none."""
    kind, name = table.kind, type(estimator).__name__
    fit = getattr(estimator, f"fit_{kind}", None)
    if kind == "triplets" and without_points(estimator):
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
