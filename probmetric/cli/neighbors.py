"""``probmetric neighbors``: the nearest points, how near, and how probable."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import typer

from probmetric.cli.files import bad_input, claim_file, safe_labels, say
from probmetric.cli.inputs import Given, check_features, given, of_option, points_for
from probmetric.data.source import Source, n_rows
from probmetric.datasets.rows import all_rows, is_large, last_column, open_rows, stored
from probmetric.files import replacing
from probmetric.names import AS_IS, Reading, in_parts
from probmetric.neighbors.table import neighbor_table
from probmetric.processes.distributed import together


def run(
    *,
    data: str,
    metric: Path | None = None,
    draws: Path | None = None,
    queries: str | None = None,
    label: str | None = None,
    how: Reading = AS_IS,
    k: int = 5,
    out: Path | None = None,
    max_draws: int = 200,
    quote_formulas: bool = False,
    force: bool = False,
) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``.

    Of several processes all search, and the first writes.
    """
    with ExitStack() as held:
        with bad_input():
            if out is not None:
                claimed = claim_file(out, ".csv", force=force)
                if together().rank == 0:
                    held.enter_context(claimed)
            use = given(metric, draws, max_draws)
            rows = _rows(data, queries, label, how, use)
            asked = None
            if queries is not None:
                with of_option("--queries"):
                    asked = _queries(queries, label, how, use)
            if rows is not None:
                n, table = (
                    n_rows(rows),
                    neighbor_table(use.metric, rows, k, queries=asked),
                )
            else:
                points = points_for(data, label, how, use)
                n, table = (
                    len(points.X),
                    neighbor_table(
                        use.metric, points.X, k, queries=asked, labels=points.labels
                    ),
                )
        if together().rank:
            return 0
        table = safe_labels(table, ("label",), quote=quote_formulas)
        if out is None:
            typer.echo(table.to_csv(index=False), nl=False)
            return 0
        with replacing(out) as part:
            table.to_csv(part, index=False)
    say(
        f"Wrote {out} | the {k} nearest of {len(table) // k} "
        f"queries among {n} points, by {use.name}"
    )
    return 0


def _rows(
    data: str, queries: str | None, label: str | None, how: Reading, use: Given
) -> Source | None:
    """Open points that are read in parts; None where they are loaded."""
    if in_parts(data):
        if queries is None:
            raise ValueError(
                "--queries: expected some with rows read in parts, each of which "
                "would be a query otherwise, got none"
            )
        source = open_rows(data, label, how)
    elif queries is not None and is_large(data):
        if label is None:
            about = stored(data)
            names = [] if about is None else set(about.columns) - set(how.drop)
            if not how.features and len(names) == use.n_features + 1:
                label = last_column(data, how)
        source = open_rows(data, label, how)
    else:
        return None
    check_features(use.feature_names, source.feature_names, source.name)
    return source


def _queries(name: str, label: str | None, how: Reading, use: Given) -> np.ndarray:
    """Return queries, which are few: all are loaded."""
    if not in_parts(name):
        return points_for(name, label, how, use, bare=True).X
    try:
        source = open_rows(name, label, how)
    except ValueError:  # They need no label.
        source = open_rows(name, None, how)
    check_features(use.feature_names, source.feature_names, source.name)
    return all_rows(source)
