"""``probmetric report``: the page of a run once more, from its folder."""

from contextlib import ExitStack
from pathlib import Path

import typer

from probmetric.cli.files import bad_input, claim, write_text
from probmetric.report.run import render_run


def run(*, folder: Path) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            held.enter_context(claim(folder, ("report.html",), force=True))
            page = render_run(folder)
        write_text(folder / "report.html", page)
    typer.echo(f"Wrote {folder / 'report.html'}")
    return 0
