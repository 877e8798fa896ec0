"""Output files, errors and warnings of every command."""

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from probmetric.compilation import compilation_cache
from probmetric.files import LOCK, locked, reason
from probmetric.files import replacing as replacing
from probmetric.names import kind_of
from probmetric.progress import is_silent

if TYPE_CHECKING:  # Imported later, for help without heavy imports.
    from probmetric.datasets.loading import Dataset

    type Data = Dataset | None
    from pandas import DataFrame
else:
    Data = DataFrame = object

FILES: dict[str, tuple[str, ...]] = {
    "fit": ("metric.npz", "summary.json", "report.html"),
    "sample": ("draws.nc", "curves.csv", "summary.json", "report.html"),
    "evaluate": ("evaluation.csv", "predictions.csv", "summary.json", "report.html"),
    "validate": ("agreement.csv", "summary.json", "report.html"),
}
"""Files that each command may write."""

LONGEST = 400
"""Maximum length of a message on standard error. Longer messages are shortened."""


class BadInput(Exception):
    """Unusable input; the message is one sentence."""


def say(text: str) -> None:
    """Print a line about progress or written files."""
    if not is_silent():
        typer.echo(text)


def note(text: object) -> None:
    """Print a note on standard error."""
    if not is_silent():
        typer.echo(f"  note: {text}", err=True)


def sentence(error: BaseException) -> str:
    """Format the message of an error as one line of bounded length."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else f"{text[:300]} … {text[-90:]}"


def write_table(table: DataFrame, out: Path | None) -> bool:
    """Write a table to a CSV file (return True), or to standard output."""
    if out is None:
        typer.echo(table.to_csv(index=False), nl=False)
        return False
    with replacing(out) as part:
        table.to_csv(part, index=False)
    return True


def refuse(options: Mapping[str, object], other: str) -> None:
    """Raise for options that are set, but cannot be combined with ``other``."""
    for name, value in options.items():
        if value is not None:
            shown = value if isinstance(value, int | float) else str(value)
            raise ValueError(
                f"{name} cannot be combined with {other}, got {shown!r}. Omit {name}."
            )


@contextmanager
def bad_input() -> Generator[None]:
    """Convert a ValueError, or a missing optional module, to ``BadInput``."""
    try:
        yield
    except (ValueError, ModuleNotFoundError) as error:
        raise BadInput(sentence(error)) from error


def kept(checkpoint: Path | None, part: str) -> str:
    """Describe the files after an interrupted or failed run."""
    if checkpoint is None:
        stores = " (use --checkpoint to store draws during a run)" * (part == "block")
        return f"all files that were written are complete{stores}"
    if not any(checkpoint.glob(f"{part}_*.npz")):
        return f"no {part} was saved in {checkpoint} yet"
    several = {"pass": "passes", "block": "blocks"}[part]
    return f"the {several} in {checkpoint} are complete; use --resume to continue"


def exit_code(
    work: Callable[[], int], checkpoint: Path | None = None, part: str = ""
) -> int:
    """Run ``work`` and return its exit code, or the code of an error with a message."""
    try:
        # Without JAX nothing is compiled.
        with compilation_cache() if "jax" in sys.modules else nullcontext():
            return work()
    except BadInput as error:
        typer.echo(f"probmetric: {error}", err=True)
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        message = sentence(OSError(f"{reason(error)}{where}"))
        typer.echo(f"probmetric: {message}; {kept(checkpoint, part)}", err=True)
    except RuntimeError as error:  # A fit without a result.
        state = kept(checkpoint, part)
        typer.echo(f"probmetric: failed: {reason(error)}; {state}", err=True)
        return 1
    except KeyboardInterrupt:
        typer.echo(f"probmetric: interrupted; {kept(checkpoint, part)}", err=True)
        return 130
    return 2


@contextmanager
def noted() -> Generator[list[Warning]]:
    """Show warnings as notes without their location in the code, and list them."""
    shown: list[Warning] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        shown.append(message if isinstance(message, Warning) else UserWarning(message))
        note(message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield shown


def check_new(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    """Raise if a file (or link) exists without ``force``, or if a folder exists."""
    existing = [folder / name for name in names if os.path.lexists(folder / name)]
    for path in existing:
        if not path.is_symlink() and not path.is_file():
            raise ValueError(
                f"--out must be a file name, got {kind_of(path)} at {str(path)!r}. "
                "Choose another name."
            )
    if existing and not force:
        raise ValueError(
            f"--out: files already exist ({', '.join(map(str, existing))}). Add "
            "--force to overwrite them."
        )


@contextmanager
def claim(
    folder: Path, names: tuple[str, ...], *, force: bool, lock: str = LOCK
) -> Generator[None]:
    """Make a folder for files ``names``, and lock it before the work."""
    with locked(folder, "--out", lock):
        # Checked again: another run may have ended since the command began.
        check_new(folder, names, force=force)
        yield


def claim_file(path: Path, ending: str, *, force: bool) -> AbstractContextManager[None]:
    """``claim`` one file and lock only it, so that runs may share a folder."""
    if path.suffix.lower() != ending:
        raise ValueError(f"--out must end in {ending}, got {path.name!r}.")
    return claim(path.parent, (path.name,), force=force, lock=f".{path.name}.lock")


@contextmanager
def together(folder: Path) -> Generator[Path]:
    """Write files to a hidden folder, and move all of them at the end of the block."""
    with TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as name:
        part = Path(name)
        try:
            yield part
            for path in sorted(part.iterdir()):
                os.replace(path, folder / path.name)
        except OSError as error:
            if error.filename is not None and Path(error.filename).parent == part:
                error.filename = str(folder / Path(error.filename).name)
            raise


@contextmanager
def results(
    folder: Path,
    command: str,
    summary: Mapping[str, object],
    data: Data = None,
) -> Generator[Path]:
    """Write files as ``together``, with summary.json, and then the report."""
    from probmetric.report.run import SUMMARY, render_run, write_summary

    with together(folder) as part:
        yield part
        words = shlex.join(["probmetric", *sys.argv[1:]])
        write_summary(part / SUMMARY, command, {**summary, "asked": words})
        written = sorted(path.name for path in part.iterdir())
    with noted():
        page = render_run(folder, data=data)
    write_text(folder / "report.html", page)
    paths = [str(folder / name) for name in (*written, "report.html")]
    say(f"Wrote {', '.join(paths)}")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
