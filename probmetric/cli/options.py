"""Options that several commands share, and what help says of exit codes and data."""

from pathlib import Path
from typing import Annotated

import typer

from probmetric.registry import estimators

VALIDATED = (
    "Exit code: 0 all agree; 1 something disagrees, leaves its bound or is "
    "inconclusive (k-hat alone does not count); 2 unusable input. With --strict 1 also "
    "for a conflict with data."
)
LEARNED = (
    "Exit code: 0 done; 1 done, but a fit did not converge or the draws have "
    "problems (named in the notes), or a fit failed; 2 unusable input, or a file could "
    "not be written; 130 interrupted."
)
USED = (
    "Exit code: 0 done; 2 unusable input, or a file could not be written; 130 "
    "interrupted."
)
SOURCES = (
    "Data set: wine, iris, digits, breast_cancer, waveform, twonorm, ringnorm, "
    "openml:NAME, or a .csv, .tsv, .npz or .parquet file (text also as .gz)."
)
PARTS = (
    f"{SOURCES[:-1]}; rows read in parts, never all at once: a quoted glob "
    "('rows/*.parquet'), a folder of Parquet files, .npy files, one large .parquet."
)
NAMES = ", ".join(estimators())


def _with_examples(ending: str, *commands: str) -> str:
    """Return what stands below the options of a command: examples, then ``ending``."""
    listed = "\n".join(f"  probmetric {command}" for command in commands)
    return f"\b\nExamples:\n{listed}\n\n{ending}"


BELOW = {
    "fit": _with_examples(
        LEARNED,
        "fit lca --data mine.csv --label kind --out out/fit",
        "fit lda --data wine --set n_components=2 --out out/wine",
    ),
    "neighbors": _with_examples(
        USED,
        "neighbors --metric out/fit/metric.npz --data mine.csv -k 5",
        "neighbors --draws out/draws/draws.nc --data mine.csv --out near.csv",
    ),
    "sample": _with_examples(
        LEARNED,
        "sample lca --data wine --method laplace --out out/draws",
        "sample lca --data mine.csv --out out/draws --checkpoint out/blocks",
    ),
    "next": _with_examples(
        USED,
        "next --data sites.csv --draws out/draws/draws.nc -n 10 --out ask.csv",
        "next --data sites.csv --draws out/draws/draws.nc --answers known.csv",
    ),
    "evaluate": _with_examples(
        USED,
        "evaluate --metric out/fit/metric.npz --data mine.csv --test held_out.csv",
        "evaluate --model lca --data mine.csv --folds 5 --out out/judged",
    ),
    "explore": _with_examples(
        USED,
        "explore --data wine --metric out/fit/metric.npz --out wine.html",
        "explore --data mine.csv --draws out/draws/draws.nc --out mine.html",
    ),
    "report": _with_examples(
        USED,
        "report out/fit",
        "report out/fit --explore",
    ),
    "validate": _with_examples(
        VALIDATED,
        "validate lca --data wine --out out/wine",
        "validate --all --quick",
    ),
    "cache": _with_examples(
        "Exit code: 0 done.",
        "cache",
        "cache --clear",
    ),
    "": _with_examples(
        "--help of a command lists its options.",
        "fit lca --data wine --out out/fit",
        "evaluate --model lca --data wine --folds 5",
    ),
}
"""What help of each command shows below its options."""

Model = Annotated[str, typer.Argument(help=f"A learner: {NAMES}.")]
Data = Annotated[str | None, typer.Option(help=SOURCES)]
Rows = Annotated[str | None, typer.Option(help=PARTS)]
Answers = Annotated[
    str | None,
    typer.Option(
        help="Learn from answers about rows of --data, which then needs no label: a "
        "table of pairs (columns i, j, y and, for counts, trials), or of triplets "
        "(anchor, near, far and, where far may be the nearer, y; of quadruplets other "
        "too, from which far is seen)."
    ),
]
Judging = Annotated[
    str | None,
    typer.Option(
        help="Judge by answers about rows of --data, a table as of fit: all of it with "
        "--metric or --draws, which did not learn from it; with --model, that learns "
        "from it, its --folds, or the table --test."
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Column of the class; default the last.")
]
Na = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Text, or number such as -999, of a text file that means missing; repeat "
        "for more.",
    ),
]
Thousands = Annotated[
    str | None,
    typer.Option(help="Thousands separator of a text file, such as a comma."),
]
Sep = Annotated[
    str | None,
    typer.Option(
        help="Column separator of a text file; default a comma, a tab in .tsv."
    ),
]
Decimal = Annotated[str, typer.Option(help="Decimal point of a text file.")]
Encoding = Annotated[
    str, typer.Option(help="Encoding of a text file, such as latin-1.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Ignore this column; repeat for more."),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Use only this column as a feature; repeat for more.",
    ),
]
Unlabeled = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Leave out rows with this label or group, such as -1; nan: no label.",
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        help="Of rows read in parts: float64, or float32, to which numbers are rounded "
        "as they are read. Sums over rows then take less time."
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Column that says which rows share a source (two_stage); default the "
        "class. evaluate without --test and --folds: judge pairs, of one or two?"
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of the learner, for example n_components=2; repeat for more.",
    ),
]
Out = Annotated[Path, typer.Option(help="Output folder.")]
TableOut = Annotated[
    Path | None, typer.Option(help="A .csv file; default standard output.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Quote = Annotated[
    bool,
    typer.Option(
        "--quote-formulas",
        help="Put ' before labels that a spreadsheet would run, such as =1+1.",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        help="Processes on this machine that share passes over rows read in parts.",
        min=1,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Neither progress nor notes.")
]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.", min=0)]
MaxDraws = Annotated[
    int, typer.Option(help="Draws to use, evenly spaced over those in --draws.", min=1)
]
MetricFile = Annotated[
    Path | None, typer.Option(help="metric.npz of fit, or what save_metric wrote.")
]
DrawsFile = Annotated[Path | None, typer.Option(help="draws.nc of sample.")]
