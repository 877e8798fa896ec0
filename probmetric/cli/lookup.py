"""What commands look up before anything heavy is loaded: names, and a run's folder."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from probmetric.cli.files import BadInput, bad_input
from probmetric.names import DTYPES, check_source, looked_up
from probmetric.registry import MODELS, model_of

UsageError: Any = typer.BadParameter.__base__
"""What typer raises at words that it cannot use: of its own click, or of click."""


class Commands(TyperGroup):
    """The commands; an argument too many says so where a shell made it of a pattern."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command that was asked for."""
        words = [*ctx.args]
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                if ctx.invoked_subcommand in ("fit", "neighbors", "evaluate"):
                    error.message += _quoted(words)
            raise


def _quoted(words: Sequence[str]) -> str:
    """Return the remedy where an option of rows is followed by several files, or ""."""
    for option, *files in zip(words, words[1:], words[2:], strict=False):
        ending = Path(files[0]).suffix
        if (
            option in ("--data", "--queries", "--test")
            and ending in (".parquet", ".npy")
            and all(file.endswith(ending) and os.path.isfile(file) for file in files)
        ):
            pattern = f"'FOLDER/*{ending}'"
            return f"; put a pattern of files in quotes: {option} {pattern}"
    return ""


@contextmanager
def first(asked: Mapping[str, Any]) -> Generator[None]:
    """Leave with exit code 2, and a sentence, at a ValueError of the block.

    Before the block paths among a command's options are looked at, and ``--dtype``.
    """
    try:
        with bad_input():
            for name, value in asked.items():
                if isinstance(value, Path):
                    looked_up(value, "DIR" if name == "folder" else f"--{name}")
            if (dtype := asked.get("dtype", "float64")) not in DTYPES:
                raise ValueError(
                    f"--dtype: expected {' or '.join(DTYPES)}, got {dtype!r}"
                )
            yield
    except BadInput as error:
        typer.echo(f"probmetric: {error}", err=True)
        raise typer.Exit(2) from error


def source(name: str | None, option: str = "data", *, rows: bool = False) -> None:
    """Raise ValueError for a data set that there is not; ``rows`` may be in parts."""
    if name is not None:
        check_source(name, option, rows=rows)


def sources(data: str | None, answers: str | None, *, rows: bool = False) -> None:
    """Raise ValueError for files that there are not, or neither data nor answers."""
    if data is None and answers is None:
        raise ValueError("--data: expected a data set, or --answers, got neither")
    source(data, rows=rows and answers is None)
    source(answers, "--answers")


def model_name(model: str | None, every: bool) -> str | None:
    """Return the registered model to validate; None for all.

    Raises
    ------
    ValueError
        For an unknown one, none, or one beside --all.
    """
    if every:
        if model is not None:
            raise ValueError(f"MODEL: expected none beside --all, got {model!r}")
        return None
    if model is None:
        known = ", ".join(MODELS)
        raise ValueError(f"MODEL: expected one of {known}, or --all, got none")
    return model_of(model)


def load_checks(model: str | None) -> int:
    """Import the checks of a registered model, of all for None; return their number."""
    names = MODELS if model is None else (model,)
    return sum(len(MODELS[name].checks) for name in names)


def run_folder(folder: Path) -> None:
    """Raise ValueError for what is no folder."""
    if not folder.is_dir():
        raise ValueError(f"DIR: expected a run's folder, got {str(folder)!r}")
