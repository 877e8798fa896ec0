"""What every command does with files, mistakes and warnings."""

import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from probmetric.files import reason
from probmetric.files import replacing as replacing

__all__ = [
    "BadInput",
    "bad_input",
    "claim",
    "exit_code",
    "noted",
    "replacing",
    "write_text",
]


class BadInput(Exception):
    """What the user gave cannot be used; the message says why in one sentence."""


@contextmanager
def bad_input() -> Generator[None]:
    """Take a ValueError of a block that looks at the user's input as just that."""
    try:
        yield
    except ValueError as error:
        raise BadInput(" ".join(str(error).split())) from error


def exit_code(
    work: Callable[[], int], *, kept: str = "files that stand are whole"
) -> int:
    """Do a command's work; return its exit code, or 1, 2 or 130 with a sentence.

    Parameters
    ----------
    work : callable
        Returns 0 or 1.
    kept : str
        What an interrupt, or a disk that is full, leaves behind.
    """
    try:
        return work()
    except BadInput as error:
        typer.echo(f"probmetric: {error}", err=True)
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        typer.echo(f"probmetric: {reason(error)}{where}; {kept}", err=True)
    except RuntimeError as error:  # How a fit says that it has no result.
        typer.echo(f"probmetric: failed: {reason(error)}; {kept}", err=True)
        return 1
    except KeyboardInterrupt:
        typer.echo(f"probmetric: interrupted; {kept}", err=True)
        return 130
    return 2


@contextmanager
def noted() -> Generator[list[Warning]]:
    """Show warnings as lines for readers, without the place in the code; list them."""
    seen: list[Warning] = []

    def note(message: Warning | str, *_: object, **__: object) -> None:
        seen.append(message if isinstance(message, Warning) else UserWarning(message))
        typer.echo(f"  note: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield seen


def claim(folder: Path, names: tuple[str, ...], *, force: bool) -> dict[str, Path]:
    """Make a folder and return the paths to write, refusing files that exist.

    Raises
    ------
    ValueError
        When a file exists and ``force`` is False, or the folder cannot be made or
        written to. Asked before hours of work, not after.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"--out: wanted a folder, got {str(folder)!r} ({error.strerror})"
        ) from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--out: wanted a folder to write to, got {str(folder)!r}")
    paths = {name: folder / name for name in names}
    existing = [str(path) for path in paths.values() if path.exists()]
    if existing and not force:
        raise ValueError(
            f"--out: wanted new files, got {', '.join(existing)}; add --force to "
            "overwrite"
        )
    return paths


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
