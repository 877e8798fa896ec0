"""``probmetric next``: useful pairs to judge, as a table with an empty column y.

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
from probmetric.cli.answers import check_rows, read_table
from probmetric.cli.files import bad_input, claim_file, refuse, say
from probmetric.cli.inputs import load_stored, points_for
from probmetric.cli.options import Next
from probmetric.data.containers import Triplets
from probmetric.data.inputs import points
from probmetric.datasets.tables import separator
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.files import replacing
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.next_pairs import CRITERIA, next_pairs
from probmetric.registry import MODELS

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
            spec = MODELS.get(str(use.learner))
            if spec is not None and spec.data_kind is Triplets:
                raise ValueError(
                    "--draws must come from a learner of pairs, such as lca, got "
                    f"draws of {use.learner} in {use.name}."
                )
            X = points(points_for(options.spec(options.data), use).X, "data")
            if options.candidates is None:
                pairs = chosen_pairs(
                    len(X), options.random or RANDOM, seed, symmetric=True
                )
                rows = np.stack(pairs, 1)
            else:
                refuse({"--random": options.random}, "--candidates")
                rows = _pairs(options.candidates, options, len(X), "--candidates")
            judged = np.empty((0, 2), int)
            if options.answers is not None:
                judged = _pairs(options.answers, options, len(X), "--answers")
            rows = rows[unasked(rows, judged)]
            if n > len(rows):
                raise ValueError(
                    f"--n must be at most {len(rows)}, the number of candidates that "
                    f"are not in --answers, got {n}."
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
        table = pd.DataFrame(rows[chosen.indices], columns=pd.Index(["i", "j"]))
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


def _pairs(name: str, options: Next, n: int, option: str) -> Int[np.ndarray, "N 2"]:
    table = read_table(name, options.spec("").how, option, answers=False)
    if table.kind != "pairs":
        raise ValueError(
            f"{option} must contain pairs (columns i, j), got {table.kind} in "
            f"{table.path.name}."
        )
    check_rows(table, n, options.data, option)
    return table.rows


def unasked(
    rows: Int[np.ndarray, "N 2"], judged: Int[np.ndarray, "M 2"]
) -> Int[np.ndarray, "m"]:
    """Numbers of the pairs that are not judged yet; (i, j) and (j, i) are one pair."""
    seen, new = set(map(frozenset, judged.tolist())), list[int]()
    for number, pair in enumerate(map(frozenset, rows.tolist())):
        if pair not in seen:
            seen.add(pair)
            new.append(number)
    return np.array(new, int)
