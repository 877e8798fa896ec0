"""``probmetric report``: the page of a run once more, from its folder."""

from contextlib import ExitStack
from pathlib import Path

import typer

from probmetric.cli.files import bad_input, claim, write_text
from probmetric.report.run import render_run


def run(*, folder: Path, force: bool) -> int:
    """Do what was asked; return the exit code; raises as ``cli.fit.run``."""
    with ExitStack() as held:
        with bad_input():
            claimed = claim(folder, ("report.html",), force=force)
            path = held.enter_context(claimed)["report.html"]
            page = render_run(folder)
        write_text(path, page)
    typer.echo(f"Wrote {path}")
    return 0
