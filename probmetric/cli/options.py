"""Options of the commands, and the checks that need no heavy import.

Each command has one dataclass. The fields are typer options (``expand``), and the
command's file receives the dataclass as one object.
"""

# ruff: noqa: RUF009  # ``option`` makes fields, not default values.

import inspect
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from probmetric.cli.files import BadInput, bad_input, refuse
from probmetric.names import AS_IS, Reading, check_source, existing, looked_up
from probmetric.registry import MODELS, estimators, method_of, model_of

VALIDATED = (
    "Exit code: 0 all claims agree; 1 a claim disagrees, is outside its bound, or is "
    "inconclusive for another reason than a high k-hat; 1 with --strict if the model "
    "conflicts with the data; 2 invalid input."
)
LEARNED = (
    "Exit code: 0 done; 1 a fit failed or did not converge, or the draws have problems "
    "(see the notes); 2 invalid input or unwritable file; 130 interrupted."
)
USED = "Exit code: 0 done; 2 invalid input or unwritable file; 130 interrupted."
SOURCES = (
    "Dataset: wine, iris, digits, breast_cancer, waveform, twonorm, ringnorm, "
    "openml:NAME, or a .csv, .tsv, .npz or .parquet file (text also as .gz)."
)
PARTS = (
    f"{SOURCES[:-1]}. These are read in chunks: a quoted glob ('rows/*.parquet'), a "
    "folder of Parquet files, .npy files, or one large .parquet file."
)
NAMES = ", ".join(estimators())

EXAMPLES = {
    "fit": (
        LEARNED,
        "fit lca --data mine.csv --label kind --intervals --out out/fit",
        "fit lda --data wine --set n_components=2 --out out/wine",
    ),
    "neighbors": (
        USED,
        "neighbors --metric out/fit/metric.npz --data mine.csv -k 5",
        "neighbors --metric out/fit/metric.npz --data mine.csv --queries new.csv "
        "--out near.csv",
    ),
    "sample": (
        LEARNED,
        "sample lca --data wine --method laplace --out out/draws",
        "sample lca --data mine.csv --out out/draws --checkpoint out/blocks",
    ),
    "next": (
        USED,
        "next --data sites.csv --draws out/draws/draws.nc -n 10 --out ask.csv",
        "next --data sites.csv --draws out/draws/draws.nc --answers known.csv",
    ),
    "evaluate": (
        USED,
        "evaluate --metric out/fit/metric.npz --data mine.csv --test held_out.csv",
        "evaluate --model lca --data mine.csv --folds 5 --out out/judged",
    ),
    "lr": (
        USED,
        "lr --metric out/fit/metric.npz --questioned q.csv --known k.csv --by item",
        "lr --metric out/fit/metric.npz --questioned q.csv --known k.csv --by item "
        "--prior-odds 1/319 --out lr.csv",
    ),
    "explore": (
        USED,
        "explore --data wine --metric out/fit/metric.npz --out wine.html",
        "explore --data mine.csv --draws out/draws/draws.nc --out mine.html",
    ),
    "report": (USED, "report out/fit", "report out/fit --explore"),
    "validate": (
        VALIDATED,
        "validate lca --data wine --out out/wine",
        "validate --all --quick",
    ),
    "cache": ("Exit code: 0 done.", "cache", "cache --clear"),
    "": (
        "COMMAND --help lists the options of a command.",
        "fit lca --data wine --out out/fit",
        "evaluate --model lca --data wine --folds 5",
    ),
}
"""Exit codes and two examples for the help of each command."""


def below(command: str) -> str:
    """Return the text below the options of a command: examples, then exit codes."""
    ending, *commands = EXAMPLES[command]
    listed = "\n".join(f"  probmetric {words}" for words in commands)
    return f"\b\nExamples:\n{listed}\n\n{ending}"


class DataSpec(NamedTuple):
    """A dataset by name, its label and group columns, and how its rows are read."""

    name: str
    label: str | None = None
    groups: str | None = None
    how: Reading = AS_IS


def option(default: object, help: str, *names: str, **settings: Any) -> Any:
    """Field of an option, with its help; ``default=MISSING`` makes it required."""
    shown = typer.Option(*names, help=help, **settings)
    return field(default=default, metadata={"typer": shown})


def argument(default: object, help: str, **settings: Any) -> Any:
    """Field of a positional argument."""
    shown = typer.Argument(help=help, **settings)
    return field(default=default, metadata={"typer": shown})


ANSWERS = (
    "Table of judgments about rows of --data (instead of labels). Columns of pairs: i, "
    "j, y (also trials, if y counts judgments). Columns of triplets: anchor, near, far "
    "(also y, if far may be nearer). Quadruplets also have other: near-anchor is "
    "compared with far-other. Columns of odd-one-out responses: object1, object2, odd."
)
GROUPS = (
    "Column with the source of each row (two_stage). Default: the class. With --groups "
    "and without --test and --folds, evaluate compares pairs from the same source with "
    "pairs from different sources."
)
MAX_DRAWS = "Maximum number of draws to use, evenly spaced."
OVERWRITE = "Overwrite existing files."
SETTING = "Argument of the learner, for example n_components=2. Repeatable."
TABLE_OUT = "Output .csv file. Default: standard output."
NOVELTY = (
    "Nominal fraction of points of known classes that are called novel, such as 0.05 "
    "(requires at least 19 points). Too many points are called novel if a stored "
    "metric was learned from the same data. Default: no point is called novel."
)
UNLABELED = "Label or group of rows to ignore, such as -1, or nan for a missing label."


@dataclass(kw_only=True)
class Options:
    """Options of every command."""

    quiet: bool = option(False, "Hide progress and notes.", "--quiet", "-q")


@dataclass(kw_only=True)
class ReadOptions(Options):
    """Options for reading --data."""

    label: str | None = option(None, "Column of the class. Default: the last column.")
    sep: str | None = option(
        None, "Column separator of a text file. Default: a comma (a tab in .tsv)."
    )
    decimal: str = option(".", "Decimal point of a text file.")
    encoding: str = option("utf-8", "Encoding of a text file, such as latin-1.")
    na: list[str] | None = option(
        None,
        "Text or number, such as -999, to read as missing in a text file. Repeatable.",
        metavar="TEXT",
    )
    thousands: str | None = option(
        None, "Thousands separator of a text file, such as a comma."
    )
    drop: list[str] | None = option(
        None, "Column to ignore. Repeatable.", metavar="COLUMN"
    )
    features: list[str] | None = option(
        None, "Feature column to use (instead of all). Repeatable.", metavar="COLUMN"
    )

    def spec(self, name: str) -> DataSpec:
        """Describe dataset ``name``, read with these options."""
        values = {k: v for k, v in vars(self).items() if k in Reading._fields}
        for repeated in ("drop", "features", "na"):
            values[repeated] = tuple(values[repeated] or ())
        groups: str | None = getattr(self, "groups", None)
        return DataSpec(name, self.label, groups, Reading(**values))


@dataclass(kw_only=True)
class SiteOptions(ReadOptions):
    """Options for tables of sites and species."""

    sites: str | None = option(
        None, "Table of sites with their covariates (gdm, instead of --data)."
    )
    species: str | None = option(
        None,
        "Table of species of --sites: wide (a column for each species), or long (site, "
        "species, and optionally an amount).",
    )
    id: str | None = option(
        None,
        "Column with the names of sites. Default: the only column that is in both "
        "tables.",
    )
    measure: str = option(
        "counts",
        "Meaning of the numbers in --species: counts (integers; 0 and 1 for presence), "
        "presence (above 0 is present), or cover (any amounts; each pair has weight "
        "1).",
    )
    coordinates: str | None = option(
        None,
        "Columns of --sites with coordinates, such as lon,lat. Geographic distance "
        "is then a predictor. For coordinates in a plane add --set distance=plane.",
        metavar="LON,LAT",
    )


@dataclass(kw_only=True)
class LearnOptions(SiteOptions):
    """Options of the commands that fit a learner."""

    model: str = argument(MISSING, f"Learner: {NAMES}.")
    data: str | None = option(None, SOURCES)
    answers: str | None = option(None, ANSWERS)
    out: Path = option(MISSING, "Output folder.")
    unlabeled: str = option("warn", UNLABELED, metavar="TEXT")
    groups: str | None = option(None, GROUPS)
    settings: list[str] | None = option(None, SETTING, "--set", metavar="NAME=VALUE")
    seed: int = option(0, "Random seed.", min=0)
    force: bool = option(False, OVERWRITE, "--force")


@dataclass(kw_only=True)
class WorkerOptions(Options):
    """Options of the commands that divide rows read in chunks among workers."""

    workers: int | None = option(
        None, "Number of workers on this machine (requires the extra dask).", min=1
    )
    scheduler: str | None = option(
        None,
        "Address of a running Dask scheduler, such as tcp://host:8786 (instead of "
        "--workers).",
    )


@dataclass(kw_only=True)
class Fit(LearnOptions, WorkerOptions):
    """Options of ``fit``."""

    data: str | None = option(None, PARTS)
    store_votes: bool = option(
        False,
        "Store the transformed training rows and their labels in metric.npz, to "
        "compute P(same). Anyone with the file can read these rows. They add rows × "
        "components numbers to the file.",
        "--store-votes",
    )
    intervals: bool = option(
        False,
        "Repeat the fit 52 times without a quarter of the rows (only lca, with class "
        "labels, without --store-votes). Then `neighbors` has intervals of distances "
        "and probabilities. --seed chooses the quarters.",
        "--intervals",
    )
    checkpoint: Path | None = option(
        None, "Folder for checkpoints of the passes over the rows."
    )
    resume: bool = option(
        False, "Continue from the passes in --checkpoint.", "--resume"
    )
    permutations: int | None = option(
        None,
        "Number of permutations to compute the importance of predictors (--sites). "
        "Default: none.",
        min=1,
    )


@dataclass(kw_only=True)
class Sample(LearnOptions):
    """Options of ``sample``."""

    method: str | None = option(
        None,
        "nuts or exact (correct up to Monte Carlo error), laplace or svi "
        "(approximations). Only gdm: bootstrap (refits with random weights of the "
        "sites) or jackknife (refits without each site). Default: jackknife with "
        "--sites, otherwise the first that the model supports.",
    )
    draws: int | None = option(
        None, "Number of draws per chain. Default: 1000 (bootstrap: 200).", min=1
    )
    chains: int | None = option(
        None, "Number of chains. Default: 4 for nuts, otherwise 1.", min=1
    )
    checkpoint: Path | None = option(
        None, "Folder for finished blocks of draws (only nuts)."
    )
    resume: bool = option(
        False, "Continue from the blocks in --checkpoint.", "--resume"
    )


@dataclass(kw_only=True)
class UseOptions(ReadOptions):
    """Options of the commands that use a stored metric or draws."""

    metric: Path | None = option(None, "metric.npz of fit, or a file of save_metric.")
    draws: Path | None = option(None, "draws.nc of sample.")
    max_draws: int = option(200, MAX_DRAWS, min=1)
    force: bool = option(False, OVERWRITE, "--force")


@dataclass(kw_only=True)
class Neighbors(UseOptions, WorkerOptions):
    """Options of ``neighbors``."""

    data: str = option(MISSING, PARTS)
    queries: str | None = option(
        None,
        "Query points. Default: the rows of --data (a row is not its own neighbor).",
    )
    k: int = option(5, "Number of neighbors per query.", "-k", "--k", min=1)
    novelty: float | None = option(None, NOVELTY)
    out: Path | None = option(None, TABLE_OUT)


@dataclass(kw_only=True)
class Evaluate(UseOptions, SiteOptions, WorkerOptions):
    """Options of ``evaluate``."""

    data: str | None = option(None, PARTS)
    answers: str | None = option(
        None,
        "Table of judgments, as in fit. A stored metric (--metric or --draws) is "
        "evaluated on all judgments, a --model on --folds or on the table --test.",
    )
    model: str | None = option(None, f"Learner to fit to the training points: {NAMES}.")
    settings: list[str] | None = option(None, SETTING, "--set", metavar="NAME=VALUE")
    test: str | None = option(
        None, "File of held-out rows, or (with --answers) of held-out judgments."
    )
    folds: int | None = option(
        None, "Number of cross-validation folds (instead of --test)."
    )
    k: int | None = option(
        None,
        "Number of neighbors used to set the bandwidth of the votes. Default: 5.",
        *("-k", "--k"),
        min=1,
    )
    novelty: float | None = option(None, NOVELTY)
    groups: str | None = option(None, GROUPS)
    out: Path | None = option(
        None,
        "Folder for evaluation.csv, predictions.csv, summary.json and report.html. "
        "Default: print only.",
    )
    max_draws: int = option(64, MAX_DRAWS, min=1)
    unlabeled: str = option("warn", UNLABELED, metavar="TEXT")
    seed: int = option(0, "Random seed.", min=0)


@dataclass(kw_only=True)
class Ratios(ReadOptions):
    """Options of ``lr``."""

    metric: Path = option(MISSING, "metric.npz of a fit of two_stage.")
    questioned: str = option(
        MISSING,
        "File with measurements of questioned items.",
        *("--questioned", "--left"),
    )
    known: str = option(
        MISSING, "File with measurements of known items.", "--known", "--right"
    )
    by: str | None = option(
        None, "Column with the item of each measurement. Default: each row is an item."
    )
    prior_odds: str | None = option(
        None,
        "Prior odds that two items have the same source, such as 1/319, to compute "
        "the posterior probability. Default: no posterior probability.",
    )
    out: Path | None = option(None, TABLE_OUT)
    force: bool = option(False, OVERWRITE, "--force")


@dataclass(kw_only=True)
class Explore(UseOptions):
    """Options of ``explore``."""

    data: str = option(MISSING, SOURCES)
    out: Path = option(MISSING, "Output .html file.")
    k: int = option(10, "Number of neighbors that vote.", "-k", "--k", min=1)


@dataclass(kw_only=True)
class Next(ReadOptions):
    """Options of ``next``."""

    data: str = option(MISSING, SOURCES)
    draws: Path = option(MISSING, "draws.nc of sample.")
    candidates: str | None = option(
        None, "Table of candidate pairs. Default: random pairs."
    )
    random: int | None = option(
        None, "Number of random candidates. Default: 10000.", min=1
    )
    answers: str | None = option(
        None, "Table of earlier judgments. Their pairs are not chosen again."
    )
    n: int = option(10, "Number of pairs to choose.", "-n", "--n", min=1)
    criterion: str = option(
        "information", "Criterion to choose pairs: information or disagreement."
    )
    max_draws: int = option(200, MAX_DRAWS, min=1)
    out: Path | None = option(None, TABLE_OUT)
    seed: int = option(0, "Random seed.", min=0)
    force: bool = option(False, OVERWRITE, "--force")


@dataclass(kw_only=True)
class Validate(ReadOptions):
    """Options of ``validate``."""

    model: str | None = argument(None, "Registered model, for example lca.")
    every: bool = option(False, "All registered models.", "--all")
    data: str | None = option(None, f"{SOURCES} Default: simulated problems.")
    out: Path | None = option(None, "Folder for the report and its tables.")
    quick: bool = option(False, "Skip slow checks, and use fewer draws.", "--quick")
    broken: bool = option(
        False,
        "Check wrong formulas (negative controls) instead. The exit code should then "
        "be 1.",
        "--break",
    )
    strict: bool = option(
        False, "Return exit code 1 also if the model conflicts with --data.", "--strict"
    )
    seed: int = option(0, "Random seed.", min=0)
    force: bool = option(False, OVERWRITE, "--force")


@dataclass(kw_only=True)
class Report(Options):
    """Options of ``report``; --force (of 0.1) has no effect."""

    folder: Path = argument(MISSING, "Folder of a run.", metavar="DIR")
    force: bool = option(False, "Not needed.", "--force", hidden=True)
    explore: bool = option(
        False,
        "Also write an interactive page, explorer.html, of a fit or draws (requires "
        "the extra explore).",
        "--explore",
    )


def expand[O: Options](
    options: type[O], command: Callable[[O], None]
) -> Callable[..., None]:
    """Give a command the fields of its options as parameters, inherited fields last."""
    hints, by_name = get_type_hints(options), {f.name: f for f in fields(options)}
    order = [name for kind in options.__mro__ for name in inspect.get_annotations(kind)]

    def expanded(**values: Any) -> None:
        command(options(**values))

    expanded.__doc__ = command.__doc__
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=Annotated[hints[name], f.metadata["typer"]],
        )
        for name in dict.fromkeys(order)
        for f in [by_name[name]]
    ]
    setattr(expanded, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return expanded


@contextmanager
def first(options: Options) -> Generator[None]:
    """Check all paths. Exit with code 2 if a check or the block raises ValueError."""
    try:
        with bad_input():
            for name, value in vars(options).items():
                if isinstance(value, Path):
                    looked_up(value, "DIR" if name == "folder" else f"--{name}")
            yield
    except BadInput as error:
        typer.echo(f"probmetric: {error}", err=True)
        raise typer.Exit(2) from error


def check_sources(options: SiteOptions, *, rows: bool = False) -> None:
    """Raise ValueError for missing files, or neither data, judgments nor sites."""
    data, answers = (getattr(options, name) for name in ("data", "answers"))
    sites, species = options.sites, options.species
    if (sites is None) != (species is None):
        given = "--species" if sites is None else "--sites"
        raise ValueError(f"--sites and --species must be used together, got {given}.")
    if sites is not None and species is not None:
        for name in ("data", "answers", "label", "groups"):
            refuse({f"--{name}": getattr(options, name)}, "--sites")
        existing(sites, "--sites")
        existing(species, "--species")
        return
    for name in ("id", "coordinates", "permutations"):
        if getattr(options, name, None) is not None:
            raise ValueError(f"--{name} requires --sites.")
    if data is None and answers is None:
        raise ValueError("--data, --answers or --sites is required, got none of them.")
    if data is not None:
        check_source(data, rows=rows and answers is None)
    if answers is not None:
        check_source(answers, "--answers")


def sampling_method(options: Sample) -> str:
    """Check --method. The jackknife requires gdm, and has no number of draws."""
    default = "jackknife" if options.sites is not None else None
    if options.model == "gdm" and (options.method or default) == "jackknife":
        return "jackknife"
    return method_of(options.model, options.method)


def model_name(model: str | None, every: bool) -> str | None:
    """Check the name of the model to validate; None for all."""
    if every:
        refuse({"MODEL": model}, "--all")
        return None
    if model is None:
        raise ValueError(
            f"MODEL must be one of {', '.join(MODELS)}, or --all, got none."
        )
    return model_of(model)


def quoted(words: list[str]) -> str:
    """Explain that an unquoted pattern became several files of an option, or ""."""
    for option, *files in zip(words, words[1:], words[2:], strict=False):
        ending = Path(files[0]).suffix
        if (
            option in ("--data", "--queries", "--test")
            and ending in (".parquet", ".npy")
            and all(file.endswith(ending) and os.path.isfile(file) for file in files)
        ):
            return f"; put a pattern of files in quotes: {option} 'FOLDER/*{ending}'"
    return ""
