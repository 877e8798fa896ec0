"""``probmetric neighbors``: the nearest points, how near, and how probable."""

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import typer

from probmetric.cli.files import bad_input, claim
from probmetric.cli.inputs import check_features, given
from probmetric.datasets.loading import load_points
from probmetric.files import replacing
from probmetric.neighbors.table import neighbor_table

__all__ = ["Request", "run"]


class Request(NamedTuple):
    """What was asked for on the command line."""

    metric: Path | None
    draws: Path | None
    data: str
    queries: str | None
    label: str | None
    k: int
    out: Path | None
    max_draws: int
    force: bool


def run(request: Request) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            if request.out is not None:
                name = request.out.name
                if request.out.suffix.lower() != ".csv":
                    raise ValueError(
                        f"--out: wanted a file ending in .csv, got {name!r}"
                    )
                # Held by the file: others may write to the same folder.
                lock = f".{name}.lock"
                parent, force = request.out.parent, request.force
                held.enter_context(claim(parent, (name,), force=force, lock=lock))
        return _search(request)


def _search(request: Request) -> int:
    """Find, and print or write; return the exit code."""
    with bad_input():
        use = given(request.metric, request.draws, request.max_draws)
        points = load_points(request.data, use.n_features, label=request.label)
        check_features(use.feature_names, points.feature_names, points.name)
        queries = None
        if request.queries is not None:
            asked = load_points(request.queries, use.n_features, label=request.label)
            check_features(use.feature_names, asked.feature_names, asked.name)
            queries = asked.X
        table = neighbor_table(
            use.metric, points.X, request.k, queries=queries, labels=points.labels
        )
    if request.out is None:
        typer.echo(table.to_csv(index=False), nl=False)
        return 0
    with replacing(request.out) as part:
        table.to_csv(part, index=False)
    typer.echo(
        f"Wrote {request.out} | the {request.k} nearest of {len(table) // request.k} "
        f"queries among {len(points.X)} points, by {use.name}"
    )
    return 0
