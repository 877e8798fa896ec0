"""Options and help of ``probmetric neighbors``, ``evaluate`` and ``report``."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from probmetric.cli import options

__all__ = ["EPILOG", "evaluate", "neighbors", "report"]

EPILOG = (
    "Exit code: 0 done; 2 unusable input, or a file could not be written; 130 "
    "interrupted."
)

MetricFile = Annotated[
    Path | None, typer.Option(help="metric.npz of fit, or what save_metric wrote.")
]
DrawsFile = Annotated[Path | None, typer.Option(help="draws.nc of sample.")]


def neighbors(
    data: options.Data,
    metric: MetricFile = None,
    draws: DrawsFile = None,
    queries: Annotated[
        str | None,
        typer.Option(
            help="Points whose neighbours are asked for; default those of --data, "
            "none its own neighbour."
        ),
    ] = None,
    label: options.Label = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Neighbours of each.", min=1)] = 5,
    out: Annotated[
        Path | None, typer.Option(help="A .csv file; default standard output.")
    ] = None,
    max_draws: options.MaxDraws = 200,
    force: options.Force = False,
) -> None:
    """Find nearest neighbours; with draws, how probable each of them is."""
    from probmetric.cli.files import exit_code
    from probmetric.cli.neighbors import Request, run

    request = Request(metric, draws, data, queries, label, k, out, max_draws, force)
    raise typer.Exit(exit_code(lambda: run(request)))


def evaluate(
    data: options.Data,
    metric: MetricFile = None,
    draws: DrawsFile = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"Learn it here, on the other points: {options.NAMES}."),
    ] = None,
    settings: options.Settings = None,
    label: options.Label = None,
    groups: options.Groups = None,
    test: Annotated[
        str | None, typer.Option(help="Labelled points to be judged on.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Or hold out each fold of --data in turn.")
    ] = None,
    k: Annotated[
        int, typer.Option("-k", "--k", help="Neighbours that set the scale.", min=1)
    ] = 5,
    max_draws: options.MaxDraws = 64,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for evaluation.csv, predictions.csv, summary.json and "
            "report.html; default the screen alone."
        ),
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> None:
    """Judge a metric, draws or a learner by neighbours on points held out."""
    from probmetric.cli.evaluate import Request, run
    from probmetric.cli.files import exit_code

    request = Request(
        metric,
        draws,
        model,
        tuple(settings or ()),
        data,
        label,
        groups,
        test,
        folds,
        k,
        max_draws,
        out,
        seed,
        force,
    )
    raise typer.Exit(exit_code(lambda: run(request)))


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder.")],
    force: options.Force = False,
) -> None:
    """Write report.html again from what the folder of a run holds."""
    from probmetric.cli.files import bad_input, claim, exit_code, write_text

    def work() -> int:
        from probmetric.report.run import render_run

        with ExitStack() as held:
            with bad_input():
                if not folder.is_dir():
                    raise ValueError(f"DIR: wanted a run's folder, got {str(folder)!r}")
                claimed = claim(folder, ("report.html",), force=force)
                path = held.enter_context(claimed)["report.html"]
                page = render_run(folder)
            write_text(path, page)
        typer.echo(f"Wrote {path}")
        return 0

    raise typer.Exit(exit_code(work))
