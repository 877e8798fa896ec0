"""Options that several commands share; nothing heavy is loaded for them."""

from pathlib import Path
from typing import Annotated

import typer

from probmetric.registry import estimators

__all__ = [
    "Data",
    "Force",
    "Groups",
    "Label",
    "MaxDraws",
    "Model",
    "Out",
    "Seed",
    "Settings",
]

NAMES = ", ".join(estimators())

Model = Annotated[str, typer.Argument(help=f"A learner: {NAMES}.")]
Data = Annotated[
    str,
    typer.Option(
        help="Data set: wine, iris, digits, breast_cancer, waveform, twonorm, "
        "ringnorm, openml:NAME, or a .csv, .npz or .parquet file."
    ),
]
Label = Annotated[
    str | None, typer.Option(help="Column of the class; default the last.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Column that says which rows share a source (two_stage); default the "
        "class."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An argument of the learner, for example n_components=2; may be given "
        "again.",
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for what the run makes.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.", min=0)]
MaxDraws = Annotated[
    int, typer.Option(help="Draws to use, evenly spaced over those in --draws.", min=1)
]
