"""``probmetric next``: what to ask about, a table whose answers are left empty.

The table is one of ``--answers`` once its column y is filled in.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
from jaxtyping import Float, Int

from probmetric.arguments import check_choice
from probmetric.cli.answers import (
    COLUMNS,
    check_no_data,
    check_rows,
    ordered,
    read_table,
)
from probmetric.cli.files import bad_input, claim_file, say
from probmetric.cli.inputs import Given, given, points_for
from probmetric.data.containers import Triplets
from probmetric.data.inputs import points
from probmetric.datasets.tables import separator
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.files import replacing
from probmetric.names import AS_IS, Reading
from probmetric.posterior.next_pairs import CRITERIA, next_pairs
from probmetric.registry import MODELS, without_points

RANDOM = 10_000
"""Random questions among which some are chosen, unless another number is given."""


def run(
    *,
    data: str | None,
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
            X, about = _points(data, label, how, use)
            spec = MODELS.get(str(use.learner))
            asks = "triplets" if spec and spec.data_kind is Triplets else "pairs"
            if candidates is None:
                number = RANDOM if random is None else random
                kind, rows = asks, DRAWN[asks](len(X), number, seed)
            elif random is not None:
                raise ValueError(
                    f"--random: expected none beside --candidates, got {random}"
                )
            else:
                table = read_table(candidates, how, "--candidates", answers=False)
                check_rows(table, len(X), about, "--candidates")
                kind, rows = table.kind, table.rows
            known = None
            if answers is not None:
                known = read_table(answers, how, answers=False)
                if known.kind != kind:
                    raise ValueError(
                        f"--answers: expected {kind}, got {known.kind} in "
                        f"{known.path.name}"
                    )
                check_rows(known, len(X), about)
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
                name, colon, said = str(error).partition(": ")
                options = {"posterior": "--draws", "candidates": "--candidates"}
                named = f"{options.get(name, name)}{colon}{said}"
                raise ValueError(named) from error
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
    say(
        f"Wrote {out} | {n} of {len(rows)} {kind} by {criterion}{told}, under "
        f"{use.name} | y is to be filled in"
    )
    return 0


def _points(
    data: str | None, label: str | None, how: Reading, use: Given
) -> tuple[Float[np.ndarray, "n d"], str]:
    """Return what rows are asked about, and its name: points, or objects of draws."""
    spec = MODELS.get(str(use.learner))
    if spec is not None and without_points(spec.estimator):
        check_no_data(data, use.name)
        return np.eye(use.n_features), use.name
    if data is None:
        raise ValueError("--data: expected the points that are asked about, got none")
    return points(points_for(data, label, how, use).X, "data"), data


def random_pairs(n: int, most: int, seed: int) -> Int[np.ndarray, "N 2"]:
    """Return pairs of n rows, all where there are no more."""
    return np.stack(chosen_pairs(n, most, seed, symmetric=True), 1)


def random_triplets(n: int, most: int, seed: int) -> Int[np.ndarray, "N 3"]:
    """Return triplets of n rows, all where there are no more."""
    if n * (n - 1) * (n - 2) // 2 <= most:
        near, far = np.triu_indices(n, 1)
        rows = np.stack(
            [np.repeat(np.arange(n), len(near)), *np.tile([near, far], n)], 1
        )
    else:
        rows = np.random.default_rng(seed).integers(n, size=(4 * most, 3))
    anchor, near, far = rows.T
    rows = rows[(anchor != near) & (anchor != far) & (near != far)]
    return rows[unasked("triplets", rows, None)][:most]


DRAWN = {"pairs": random_pairs, "triplets": random_triplets}
"""What is asked of draws of each kind of answers, by default."""


def unasked(
    kind: str, rows: Int[np.ndarray, "N k"], known: Int[np.ndarray, "M k"] | None
) -> Int[np.ndarray, "m"]:
    """Return the numbers of the questions that are not known, each question once.

    The order of what is compared makes no other question.
    """
    seen = set() if known is None else set(map(tuple, ordered(kind, known).tolist()))
    kept: list[int] = []
    for number, question in enumerate(map(tuple, ordered(kind, rows).tolist())):
        if question not in seen:
            seen.add(question)
            kept.append(number)
    return np.array(kept, int)
