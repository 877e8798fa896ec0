"""The command line: options and help of every command. Nothing heavy is loaded here.

A command looks up names (learner, data set, method) and files that exist, then loads
what it needs and calls ``run`` of its own file with its options as keywords.

Exit codes: 0, done, and for ``validate`` every exact claim agrees and every
approximation keeps its bound; 1, something disagrees or is inconclusive by more than a
k-hat, or a fit or its draws came with a warning that they are not to be trusted yet; 2,
the input cannot be used or a file not be written (one sentence on standard error says
why); 75, a process was lost, and so were those of all restarts; 130, interrupted.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from probmetric import __version__
from probmetric.cli.files import FILES, WHOLE, check_new, exit_code, quieted
from probmetric.cli.lookup import (
    Commands,
    first,
    load_checks,
    model_name,
    run_folder,
    source,
    sources,
)
from probmetric.cli.options import (
    BELOW,
    NAMES,
    SOURCES,
    Answers,
    Data,
    Decimal,
    DrawsFile,
    Drop,
    Dtype,
    Encoding,
    Features,
    Force,
    Groups,
    Judging,
    Label,
    MaxDraws,
    MetricFile,
    Model,
    Na,
    Out,
    Processes,
    Quiet,
    Quote,
    Rows,
    Seed,
    Sep,
    Settings,
    TableOut,
    Thousands,
    Unlabeled,
)
from probmetric.interrupts import run_command
from probmetric.names import Reading
from probmetric.registry import estimator_of, learner_name, method_of

app = typer.Typer(
    cls=Commands,
    help="Distances learned from data as probability models.",
    epilog=BELOW[""],
    # Help is as wide as the terminal.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 1000},
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
    if isinstance(sys.stdout, TextIOWrapper):
        # A file's name may hold bytes that are no UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")


def _leave(
    command: str,
    asked: dict[str, Any],
    *,
    work: str = "run",
    kept: Callable[[], str] = lambda: WHOLE,
    several: bool = False,
) -> NoReturn:
    """Call ``work`` of a command's file with what was asked; leave with its exit code.

    With ``several`` it joins the processes that were started with it. Imports end
    before the work, which tells what an interrupt leaves behind.
    """
    if "sep" in asked:
        given = [name for name in Reading._fields if name in asked]
        how = Reading(**{name: asked.pop(name) for name in given})
        listed = {
            name: tuple(getattr(how, name) or ()) for name in ("drop", "features", "na")
        }
        asked["how"] = how._replace(**listed)
    quiet = asked.pop("quiet")
    function = getattr(import_module(f"probmetric.cli.{command}"), work)

    def run(**options: Any) -> int:
        with quieted(quiet):
            return function(**options)

    if several:
        from probmetric.cli.launch import work_together

        raise typer.Exit(
            work_together(lambda work: exit_code(work, kept=kept), lambda: run(**asked))
        )
    raise typer.Exit(exit_code(lambda: run(**asked), kept=kept))


def _launch(size: int, restarts: int, *, resume: bool) -> None:
    """Start this very command in several processes, unless this is one of them."""
    from probmetric.cli.launch import is_copy, launch

    if size > 1 and not is_copy():
        words = [sys.executable, "-m", "probmetric", *sys.argv[1:]]
        raise typer.Exit(launch(words, size, restarts, resume=resume))


@app.command(epilog=BELOW["fit"])
def fit(
    model: Model,
    *,
    data: Rows = None,
    answers: Answers = None,
    out: Out,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    unlabeled: Unlabeled = "warn",
    dtype: Dtype = "float64",
    groups: Groups = None,
    settings: Settings = None,
    seed: Seed = 0,
    force: Force = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder in which each pass over the rows is kept."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the passes in --checkpoint.")
    ] = False,
    processes: Processes = 1,
    restarts: Annotated[
        int,
        typer.Option(
            help="Restarts after a lost process, each from --checkpoint.",
            min=0,
        ),
    ] = 3,
    quiet: Quiet = False,
) -> None:
    """Learn a metric: metric.npz, summary.json and report.html."""
    asked = dict(locals())
    size, restarts = asked.pop("processes"), asked.pop("restarts")
    with first(asked):
        asked["model"] = model = learner_name(model)
        sources(data, answers, rows=True)
        check_new(out, FILES["fit"], force=force)
        if resume and checkpoint is None:
            raise ValueError("--resume: expected --checkpoint beside it, got none")
    _launch(size, restarts, resume=checkpoint is not None)
    estimator_of(model)
    from probmetric.cli.fit import kept

    _leave("fit", asked, kept=lambda: kept(checkpoint), several=True)


@app.command(epilog=BELOW["neighbors"])
def neighbors(
    data: Rows,
    metric: MetricFile = None,
    draws: DrawsFile = None,
    queries: Annotated[
        str | None,
        typer.Option(
            help="Query points; default the rows of --data, each without itself."
        ),
    ] = None,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    dtype: Dtype = "float64",
    k: Annotated[
        int, typer.Option("-k", "--k", help="Neighbours per query.", min=1)
    ] = 5,
    out: TableOut = None,
    max_draws: MaxDraws = 200,
    quote_formulas: Quote = False,
    force: Force = False,
    processes: Processes = 1,
    quiet: Quiet = False,
) -> None:
    """Nearest rows; with --draws probabilities, and no distances."""
    asked = dict(locals())
    size = asked.pop("processes")
    with first(asked):
        if out is not None:
            check_new(out.parent, (out.name,), force=force)
        source(data, rows=True)
        source(queries, "--queries", rows=True)
    _launch(size, 0, resume=False)
    _leave("neighbors", asked, several=True)


@app.command(epilog=BELOW["sample"])
def sample(
    model: Model,
    *,
    data: Data = None,
    answers: Answers = None,
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(
            help="nuts or exact (exact up to Monte Carlo error), laplace or svi "
            "(approximations), bootstrap (refits under random weights of points). "
            "Default: the first of these that the model has."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(help="Draws per chain; default 1000, 200 for bootstrap.", min=1),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(help="Chains; default 4 for nuts, 1 for the others.", min=1),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which blocks of draws are kept as they come (nuts, "
            "bootstrap)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the blocks in --checkpoint.")
    ] = False,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    unlabeled: Unlabeled = "warn",
    groups: Groups = None,
    settings: Settings = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Sample the posterior of a metric: draws.nc and report.html."""
    asked = dict(locals())
    with first(asked):
        asked["model"] = model = learner_name(model)
        asked["method"] = method_of(model, method)
        sources(data, answers)
        check_new(out, FILES["sample"], force=force)
    estimator_of(model)
    from probmetric.cli.sample import kept

    _leave("sample", asked, kept=lambda: kept(checkpoint))


@app.command(epilog=BELOW["next"])
def next(
    *,
    data: Data = None,
    draws: DrawsFile,
    candidates: Annotated[
        str | None,
        typer.Option(help="Table of what could be asked; default: at random."),
    ] = None,
    random: Annotated[
        int | None, typer.Option(help="How many of those; default 10000.", min=1)
    ] = None,
    answers: Annotated[
        str | None, typer.Option(help="Table of answers, which are not asked for.")
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", help="Questions.", min=1)] = 10,
    criterion: Annotated[
        str, typer.Option(help="information or disagreement.")
    ] = "information",
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    max_draws: MaxDraws = 200,
    out: TableOut = None,
    seed: Seed = 0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Which pairs or triplets to ask about next: a table for --answers."""
    asked = dict(locals())
    with first(asked):
        if out is not None:
            check_new(out.parent, (out.name,), force=force)
        source(data)
        source(candidates, "--candidates")
        source(answers, "--answers")
    _leave("next", asked)


@app.command(epilog=BELOW["evaluate"])
def evaluate(
    data: Rows = None,
    answers: Judging = None,
    metric: MetricFile = None,
    draws: DrawsFile = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"Learner to fit on the other points: {NAMES}."),
    ] = None,
    settings: Settings = None,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    unlabeled: Unlabeled = "warn",
    dtype: Dtype = "float64",
    groups: Groups = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="File of labelled rows to judge on; with --answers, of answers."
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Or: number of cross-validation folds.")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k",
            help="Neighbours that set the bandwidth of the votes; default 5.",
            min=1,
        ),
    ] = None,
    max_draws: MaxDraws = 64,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for evaluation.csv, predictions.csv, summary.json and "
            "report.html; default: print only."
        ),
    ] = None,
    seed: Seed = 0,
    quote_formulas: Quote = False,
    force: Force = False,
    processes: Processes = 1,
    quiet: Quiet = False,
) -> None:
    """Judge a metric, draws or a learner on rows, answers or pairs held out."""
    asked = dict(locals())
    size = asked.pop("processes")
    with first(asked):
        asked["model"] = model = None if model is None else learner_name(model)
        sources(data, answers, rows=True)
        source(test, "--test", rows=answers is None)
        if out is not None:
            check_new(out, FILES["evaluate"], force=force)
    _launch(size, 0, resume=False)
    if model is not None:
        estimator_of(model)
    _leave("evaluate", asked, several=True)


@app.command(epilog=BELOW["explore"])
def explore(
    data: Data,
    out: Annotated[Path, typer.Option(help="A .html file.")],
    metric: MetricFile = None,
    draws: DrawsFile = None,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    k: Annotated[
        int, typer.Option("-k", "--k", help="Neighbours that vote.", min=1)
    ] = 10,
    max_draws: MaxDraws = 200,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write an interactive page (needs the extra explore)."""
    asked = dict(locals())
    with first(asked):
        check_new(out.parent, (out.name,), force=force)
        source(data)
    _leave("report", asked, work="explore")


@app.command(epilog=BELOW["report"])
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder.")],
    force: Annotated[
        bool, typer.Option("--force", hidden=True, help="Not needed here.")
    ] = False,
    explore: Annotated[
        bool,
        typer.Option(
            "--explore",
            help="Write explorer.html too, an interactive page, for a fit or draws. "
            "Needs the extra explore.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write report.html again from the files of a run."""
    del force  # Of 0.1: the page is the run's own, and is replaced in any case.
    asked = dict(locals())
    with first(asked):
        run_folder(folder)
        check_new(folder, ("report.html",), force=True)
    _leave("report", asked)


@app.command(epilog=BELOW["validate"])
def validate(
    model: Annotated[
        str | None, typer.Argument(help="A registered model, for example lca.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every registered model.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help=f"{SOURCES} Default: simulated problems.")
    ] = None,
    label: Label = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    na: Na = None,
    thousands: Thousands = None,
    drop: Drop = None,
    features: Features = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report, its tables and draws."),
    ] = None,
    force: Force = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Leave out the slow checks; fewer draws and splits in the study.",
        ),
    ] = False,
    broken: Annotated[
        bool,
        typer.Option(
            "--break",
            help="Check wrong formulas in place of the right ones: must exit with 1.",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with 1 as well where the model is in conflict with --data.",
        ),
    ] = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Check the package's formulas against references."""
    asked = dict(locals())
    with first(asked):
        asked["model"] = model = model_name(model, asked.pop("every"))
        source(data)
        if model is not None and out is not None:
            check_new(out, FILES["validate"], force=force)
    load_checks(model)
    _leave("validate", asked)


@app.command(epilog=BELOW["cache"])
def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the compiled programs.")
    ] = False,
) -> None:
    """Show where compiled programs are kept, and how many.

    Commands keep what JAX compiles, so that the next one starts sooner. The variable
    PROBMETRIC_CACHE sets the folder; empty, "0" or "off" disables it.
    """
    from probmetric.compilation import cache_folder, clear_cache, stored_programs

    folder = cache_folder()
    if folder is None:
        typer.echo("Disabled by PROBMETRIC_CACHE: each command compiles for itself")
        return
    number, size = stored_programs()
    if clear:
        clear_cache()
    did = "Removed" if clear else "Holds"
    typer.echo(f"{folder}\n{did} {number} programs, {size / 1e6:.1f} MB")


def main() -> None:
    """Run the command line."""
    run_command(lambda: app(prog_name="probmetric"))


if __name__ == "__main__":
    main()
