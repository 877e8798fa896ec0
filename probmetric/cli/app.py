"""The commands: help, exit codes, and checks before heavy imports.

A command checks names (learner, dataset, method) and existing files, then imports its
file and calls ``run`` with its options.

Exit codes:

0    done; for ``validate`` also: all exact claims agree and all approximations are
     within their bound
1    a claim disagrees, is outside its bound or is inconclusive (except by k-hat only),
     or a fit or its draws have a warning that they are unreliable
2    invalid input or an unwritable file (one sentence on standard error)
130  interrupted
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from probmetric import __version__
from probmetric.cli.files import FILES, check_new, exit_code
from probmetric.cli.options import (
    Evaluate,
    Explore,
    Fit,
    Neighbors,
    Next,
    Options,
    Ratios,
    Report,
    Sample,
    Validate,
    below,
    check_sources,
    expand,
    first,
    model_name,
    quoted,
    sampling_method,
)
from probmetric.cli.workers import workers
from probmetric.interrupts import run_command
from probmetric.names import check_source
from probmetric.progress import silent
from probmetric.registry import MODELS, estimator_of, learner_name

UsageError: Any = typer.BadParameter.__base__
"""Error of typer for invalid arguments, from its own copy of click or from click."""


class Commands(TyperGroup):
    """The commands. If a shell expanded a pattern of files, the error explains this."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command of the context."""
        words = [*ctx.args]
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                if ctx.invoked_subcommand in ("fit", "neighbors", "evaluate"):
                    error.message += quoted(words)
            raise


app = typer.Typer(
    cls=Commands,
    help="Distances learned from data as probability models.",
    epilog=below(""),
    # Help is as wide as the terminal.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 1000},
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(show: bool) -> bool:
    if show:
        typer.echo(f"probmetric {__version__}")
        raise typer.Exit
    return show


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
    if isinstance(sys.stdout, TextIOWrapper):
        # File names may contain bytes that are not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")


def command[O: Options](
    options: type[O],
) -> Callable[[Callable[[O], None]], Callable[[O], None]]:
    """Register a function of one options object as a command."""

    def register(function: Callable[[O], None]) -> Callable[[O], None]:
        name = function.__name__
        app.command(name, epilog=below(name))(expand(options, function))
        return function

    return register


def _leave(
    file: str,
    options: Options,
    *,
    work: str = "run",
    checkpoint: Path | None = None,
    part: str = "",
) -> NoReturn:
    """Run ``work`` after all imports, and exit with its code."""
    function = getattr(import_module(f"probmetric.cli.{file}"), work)

    def run() -> int:
        hidden = silent() if options.quiet else nullcontext()
        with hidden, workers(options):
            return function(options)

    raise typer.Exit(exit_code(run, checkpoint, part))


@command(Fit)
def fit(options: Fit) -> None:
    """Learn a metric; write metric.npz, summary.json and report.html."""
    with first(options):
        options.model = learner_name(options.model)
        check_sources(options, rows=True)
        check_new(options.out, FILES["fit"], force=options.force)
        if options.resume and options.checkpoint is None:
            raise ValueError("--resume requires --checkpoint.")
    estimator_of(options.model)
    _leave("fit", options, checkpoint=options.checkpoint, part="pass")


@command(Neighbors)
def neighbors(options: Neighbors) -> None:
    """Find nearest rows and distances; after fit --intervals, with uncertainty."""
    with first(options):
        if options.out is not None:
            check_new(options.out.parent, (options.out.name,), force=options.force)
        check_source(options.data, rows=True)
        if options.queries is not None:
            check_source(options.queries, "--queries", rows=True)
    _leave("neighbors", options)


@command(Sample)
def sample(options: Sample) -> None:
    """Sample the posterior of a metric; write draws.nc and report.html."""
    with first(options):
        options.model = learner_name(options.model)
        options.method = sampling_method(options)
        check_sources(options)
        check_new(options.out, FILES["sample"], force=options.force)
    estimator_of(options.model)
    _leave("sample", options, checkpoint=options.checkpoint, part="block")


@command(Next)
def next(options: Next) -> None:
    """Choose the pairs whose judgments are most informative (for --answers)."""
    with first(options):
        if options.out is not None:
            check_new(options.out.parent, (options.out.name,), force=options.force)
        for name in ("data", "candidates", "answers"):
            if (source := getattr(options, name)) is not None:
                check_source(source, "data" if name == "data" else f"--{name}")
    _leave("next", options)


@command(Evaluate)
def evaluate(options: Evaluate) -> None:
    """Evaluate a metric, draws or a learner on held-out rows, judgments or pairs."""
    with first(options):
        if options.model is not None:
            options.model = learner_name(options.model)
        check_sources(options, rows=True)
        if options.test is not None:
            check_source(options.test, "--test", rows=options.answers is None)
        if options.out is not None:
            check_new(options.out, FILES["evaluate"], force=options.force)
    if options.model is not None:
        estimator_of(options.model)
    _leave("evaluate", options)


@command(Ratios)
def lr(options: Ratios) -> None:
    """Compute likelihood ratios of questioned and known items (two_stage)."""
    with first(options):
        if options.out is not None:
            check_new(options.out.parent, (options.out.name,), force=options.force)
        for side in ("questioned", "known"):
            check_source(getattr(options, side), f"--{side}")
    _leave("lr", options)


@command(Explore)
def explore(options: Explore) -> None:
    """Make an interactive page of points and neighbors (requires the extra explore)."""
    with first(options):
        check_new(options.out.parent, (options.out.name,), force=options.force)
        check_source(options.data)
    _leave("report", options, work="explore")


@command(Report)
def report(options: Report) -> None:
    """Make report.html again from the files of a run."""
    with first(options):
        if not options.folder.is_dir():
            raise ValueError(
                "DIR must be the folder of a fit, sample, evaluate or validate run, "
                f"got {str(options.folder)!r}."
            )
        check_new(options.folder, ("report.html",), force=True)
    _leave("report", options)


@command(Validate)
def validate(options: Validate) -> None:
    """Check formulas of the package against independent references."""
    with first(options):
        options.model = model = model_name(options.model, options.every)
        if options.data is not None:
            check_source(options.data)
        if model is not None and options.out is not None:
            check_new(options.out, FILES["validate"], force=options.force)
    # Checks are imported before the work, as an interrupt of imports has no cleanup.
    _ = [MODELS[name].checks for name in (MODELS if model is None else (model,))]
    _leave("validate", options)


@app.command(epilog=below("cache"))
def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the compiled programs.")
    ] = False,
) -> None:
    """Show the folder, number and size of the cached compiled programs.

    The environment variable PROBMETRIC_CACHE sets the folder. Its values "", "0" and
    "off" disable the cache.
    """
    from probmetric.compilation import cache_folder, clear_cache, stored_programs

    folder = cache_folder()
    if folder is None:
        typer.echo("Disabled by PROBMETRIC_CACHE: each command compiles again")
        return
    number, size = stored_programs()
    if clear:
        clear_cache()
    did = "Removed" if clear else "Contains"
    typer.echo(f"{folder}\n{did} {number} programs, {size / 1e6:.1f} MB")


def main() -> None:
    """Run the command line."""
    run_command(lambda: app(prog_name="probmetric"))


if __name__ == "__main__":
    main()
