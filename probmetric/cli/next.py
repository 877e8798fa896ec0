"""``probmetric next``: useful questions, as a table with an empty column y.

With y filled in, the table can be used as ``--answers``.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import cast

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
from probmetric.cli.inputs import StoredMetric, load_stored, points_for
from probmetric.cli.options import Next
from probmetric.data.containers import Triplets
from probmetric.data.inputs import points
from probmetric.datasets.tables import separator
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.files import replacing
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.next_pairs import CRITERIA, next_pairs
from probmetric.registry import MODELS, without_points

RANDOM = 10_000
"""Default number of random candidates."""


def run(options: Next) -> int:
    """Choose questions, and return the exit code; raises as ``cli.fit.run``."""
    how, out, n, seed = options.spec("").how, options.out, options.n, options.seed
    with ExitStack() as stack:
        with bad_input():
            check_choice("--criterion", options.criterion, tuple(CRITERIA))
            sep = separator(out or Path(), how)
            if out is not None:
                stack.enter_context(claim_file(out, ".csv", force=options.force))
            use = load_stored(options)
            X, name = _points(options, use)
            spec = MODELS.get(str(use.learner))
            kind = "triplets" if spec and spec.data_kind is Triplets else "pairs"
            if options.candidates is None:
                rows = DRAWN[kind](len(X), options.random or RANDOM, seed)
            elif options.random is not None:
                raise ValueError(
                    "--random cannot be combined with --candidates, got "
                    f"{options.random}."
                )
            else:
                table = read_table(
                    options.candidates, how, "--candidates", answers=False
                )
                check_rows(table, len(X), name, "--candidates")
                kind, rows = table.kind, table.rows
            judged = None
            if options.answers is not None:
                judged = read_table(options.answers, how, answers=False)
                if judged.kind != kind:
                    raise ValueError(
                        f"--answers must be {kind}, got {judged.kind} in "
                        f"{judged.path.name}."
                    )
                check_rows(judged, len(X), name)
            rows = rows[unasked(kind, rows, None if judged is None else judged.rows)]
            if n > len(rows):
                raise ValueError(
                    f"--n must be at most {len(rows)}, the number of unanswered "
                    f"candidates, got {n}."
                )
            posterior = cast("PosteriorMetric", use.metric)
            try:
                chosen = next_pairs(
                    posterior, rows, n, options.criterion, X=X, seed=seed
                )
            except ValueError as error:
                message = re.sub("^candidates", "--candidates", str(error))
                message = re.sub("^posterior", "--draws", message)
                raise ValueError(message) from error
        table = pd.DataFrame(rows[chosen.indices], columns=pd.Index(COLUMNS[kind][0]))
        # The same options read the table again.
        text = table.assign(y="").to_csv(index=False, sep=sep)
        if out is None:
            typer.echo(text, nl=False)
            return 0
        with replacing(out) as part:
            part.write_text(text, encoding=how.encoding, newline="")
    nats = ""
    if options.criterion == "information":
        nats = f", {chosen.scores.sum():.3g} nats"
    say(
        f"Wrote {out} | {n} of {len(rows)} {kind} by {options.criterion}{nats}, under "
        f"{use.name} | fill in y"
    )
    return 0


def _points(options: Next, use: StoredMetric) -> tuple[Float[np.ndarray, "n d"], str]:
    """Points of the questions with their name, or objects without features."""
    spec = MODELS.get(str(use.learner))
    if spec is not None and without_points(spec.estimator):
        check_no_data(options.data, use.name)
        return np.eye(use.n_features), use.name
    if options.data is None:
        raise ValueError("--data must be the points of the questions, got none.")
    loaded = points_for(options.spec(options.data), use)
    return points(loaded.X, "data"), options.data


def random_pairs(n: int, most: int, seed: int) -> Int[np.ndarray, "N 2"]:
    """Sample pairs of n rows, or all pairs."""
    return np.stack(chosen_pairs(n, most, seed, symmetric=True), 1)


def random_triplets(n: int, most: int, seed: int) -> Int[np.ndarray, "N 3"]:
    """Sample triplets of n rows, or all triplets."""
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
"""Default candidates for each kind of judgments."""


def unasked(
    kind: str, rows: Int[np.ndarray, "N k"], judged: Int[np.ndarray, "M k"] | None
) -> Int[np.ndarray, "m"]:
    """Numbers of the questions that are not judged yet, without repetition.

    Questions are equal if they differ only in the order of the compared rows.
    """
    seen = set() if judged is None else set(map(tuple, ordered(kind, judged).tolist()))
    new: list[int] = []
    for number, question in enumerate(map(tuple, ordered(kind, rows).tolist())):
        if question not in seen:
            seen.add(question)
            new.append(number)
    return np.array(new, int)
