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
from jaxtyping import Int

from probmetric.arguments import check_choice
from probmetric.cli.answers import COLUMNS, check_rows, read_table
from probmetric.cli.files import bad_input, claim_file, say
from probmetric.cli.inputs import load_stored, points_for
from probmetric.cli.options import Next
from probmetric.data.inputs import points
from probmetric.datasets.tables import separator
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.files import replacing
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.next_pairs import CRITERIA, next_pairs

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
            if options.data is None:
                raise ValueError("--data must be the points of the pairs, got none.")
            name = options.data
            X = points(points_for(options.spec(name), use).X, "data")

            def read_pairs(path: str, argument: str) -> Int[np.ndarray, "N 2"]:
                table = read_table(path, how, argument, answers=False)
                if table.kind != "pairs":
                    raise ValueError(
                        f"{argument} must be pairs, got {table.kind} in "
                        f"{table.path.name}."
                    )
                check_rows(table, len(X), name, argument)
                return table.rows

            if options.candidates is None:
                rows = random_pairs(len(X), options.random or RANDOM, seed)
            elif options.random is not None:
                raise ValueError(
                    "--random cannot be combined with --candidates, got "
                    f"{options.random}."
                )
            else:
                rows = read_pairs(options.candidates, "--candidates")
            judged = None
            if options.answers is not None:
                judged = read_pairs(options.answers, "--answers")
            rows = rows[unasked(rows, judged)]
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
        columns = pd.Index(COLUMNS["pairs"][0])
        table = pd.DataFrame(rows[chosen.indices], columns=columns)
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
        f"Wrote {out} | {n} of {len(rows)} pairs by {options.criterion}{nats}, under "
        f"{use.name} | fill in y"
    )
    return 0


def random_pairs(n: int, most: int, seed: int) -> Int[np.ndarray, "N 2"]:
    """Sample pairs of n rows, or all pairs."""
    return np.stack(chosen_pairs(n, most, seed, symmetric=True), 1)


def unasked(
    rows: Int[np.ndarray, "N 2"], judged: Int[np.ndarray, "M 2"] | None
) -> Int[np.ndarray, "m"]:
    """Numbers of the pairs that are not judged yet, each once in either order."""
    new, first = np.unique(np.sort(rows, 1), axis=0, return_index=True)
    known = set() if judged is None else set(map(tuple, np.sort(judged, 1).tolist()))
    fresh = [pair not in known for pair in map(tuple, new.tolist())]
    return np.sort(first[fresh])
