"""The command line. Nothing heavy is loaded to show help.

Exit codes: 0, done, and for ``validate`` every exact claim agrees and every
approximation keeps its bound; 1, something disagrees or is inconclusive, or a fit or
its draws came with a warning that they are not to be trusted yet; 2, the input cannot
be used or a file not be written (one sentence on standard error says why); 130,
interrupted.
"""

from pathlib import Path
from typing import Annotated

import typer

from probmetric import __version__
from probmetric.cli import learn as cli_learn
from probmetric.cli import use as cli_use
from probmetric.interrupts import run_command

__all__ = ["app", "main"]

EPILOG = (
    "Exit code: 0 all agree; 1 something disagrees, leaves its bound or is "
    "inconclusive; 2 unusable input."
)

app = typer.Typer(
    help="Distances learned from data as probability models.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"probmetric {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Distances learned from data as probability models."""


@app.command(epilog=EPILOG)
def validate(
    model: Annotated[
        str | None, typer.Argument(help="A registered model, for example lca.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every registered model.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set: wine, iris, digits, breast_cancer, waveform, twonorm, "
            "ringnorm, openml:NAME, or a .csv, .npz or .parquet file. "
            "Default: simulated problems."
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the class; default the last.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, agreement.csv and draws.nc."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that exist.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out the slow checks.")
    ] = False,
    broken: Annotated[
        bool,
        typer.Option(
            "--break",
            help="Check wrong formulas in place of the right ones: must exit with 1.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0)] = 0,
) -> None:
    """Check closed forms against sampling and other independent references."""
    from probmetric.cli.files import exit_code
    from probmetric.cli.validate import Request, run

    request = Request(
        model,
        every,
        data,
        label,
        out,
        force=force,
        quick=quick,
        broken=broken,
        seed=seed,
    )
    raise typer.Exit(exit_code(lambda: run(request)))


for command in (cli_learn.fit, cli_learn.sample):
    app.command(epilog=cli_learn.EPILOG)(command)
for command in (cli_use.neighbors, cli_use.evaluate, cli_use.report):
    app.command(epilog=cli_use.EPILOG)(command)


def main() -> None:
    """Run the command line."""
    run_command(lambda: app(prog_name="probmetric"))


if __name__ == "__main__":
    main()
