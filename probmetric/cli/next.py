"""``probmetric next``: which pairs to ask about, a table whose answers are left empty.

The table is one of ``--answers`` once its column y is filled in.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from jaxtyping import Int

from probmetric.arguments import check_choice
from probmetric.cli.answers import COLUMNS, Table, check_rows, read_table
from probmetric.cli.files import bad_input, claim_file
from probmetric.cli.inputs import given, points_for
from probmetric.data.inputs import points
from probmetric.datasets.text import separator
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.files import replacing
from probmetric.names import AS_IS, Reading
from probmetric.posterior.next_pairs import CRITERIA, next_pairs

RANDOM = 10_000
"""Random pairs among which questions are chosen, unless another number is given."""


def run(
    *,
    data: str,
    draws: Path,
    candidates: str | None = None,
    random: int | None = None,
    answers: str | None = None,
    n: int = 10,
    criterion: str = "information",
    label: str | None = None,
    how: Reading = AS_IS,
    max_draws: int = 200,
    out: Path | None = None,
    seed: int = 0,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            check_choice("--criterion", criterion, tuple(CRITERIA))
            sep = separator(out or Path(), how)
            if out is not None:
                held.enter_context(claim_file(out, ".csv", force=force))
            use = given(None, draws, max_draws)
            X = points(points_for(data, label, how, use).X, "data")
            kind, rows = _candidates(candidates, random, data, len(X), how, seed)
            known = None
            if answers is not None:
                known = read_table(answers, how, answers=False)
                _check_kind(known, kind, "--answers")
                check_rows(known, len(X), data)
            rows = rows[unasked(kind, rows, None if known is None else known.rows)]
            if n > len(rows):
                raise ValueError(
                    "--n: expected at most the number of candidates without an answer "
                    f"({len(rows)}), got {n}"
                )
            posterior: Any = use.metric
            try:
                found = next_pairs(posterior, rows, n, criterion, X=X, seed=seed)
            except ValueError as error:
                said = str(error).replace("posterior: ", "--draws: ", 1)
                raise ValueError(said) from error
        table = pd.DataFrame(rows[found.indices], columns=pd.Index(COLUMNS[kind][0]))
        table = table.assign(y="")
        # Read again by the same options: where text has another form, in that form.
        form: Any = {"index": False, "sep": sep, "encoding": how.encoding}
        if out is None:
            typer.echo(table.to_csv(**form), nl=False)
            return 0
        with replacing(out) as part:
            table.to_csv(part, **form)
    told = f", {found.scores.sum():.3g} nats" if criterion == "information" else ""
    typer.echo(
        f"Wrote {out} | {n} of {len(rows)} {kind} by {criterion}{told}, under "
        f"{use.name} | y is to be filled in"
    )
    return 0


def _candidates(
    candidates: str | None,
    random: int | None,
    data: str,
    n: int,
    how: Reading,
    seed: int,
) -> tuple[str, Int[np.ndarray, "N k"]]:
    """Return what could be asked: a table of it, or random pairs of n rows."""
    if candidates is None:
        number = RANDOM if random is None else random
        return "pairs", np.stack(chosen_pairs(n, number, seed, symmetric=True), 1)
    if random is not None:
        raise ValueError(f"--random: expected none beside --candidates, got {random}")
    table = read_table(candidates, how, "--candidates", answers=False)
    _check_kind(table, "pairs", "--candidates")
    check_rows(table, n, data, "--candidates")
    return table.kind, table.rows


def _check_kind(table: Table, kind: str, option: str) -> None:
    """Raise for a table of other questions."""
    if table.kind != kind:
        raise ValueError(
            f"{option}: expected {kind}, got {table.kind} in {table.path.name}"
        )


def unasked(
    kind: str, rows: Int[np.ndarray, "N k"], known: Int[np.ndarray, "M k"] | None
) -> Int[np.ndarray, "m"]:
    """Return the numbers of the questions that are not known, each question once.

    The order of what is compared makes no other question.
    """
    seen = set() if known is None else set(map(tuple, _ordered(kind, known).tolist()))
    kept: list[int] = []
    for number, question in enumerate(map(tuple, _ordered(kind, rows).tolist())):
        if question not in seen:
            seen.add(question)
            kept.append(number)
    return np.array(kept, int)


def _ordered(kind: str, rows: Int[np.ndarray, "N k"]) -> Int[np.ndarray, "N k"]:
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
