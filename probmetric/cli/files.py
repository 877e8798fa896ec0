"""Files, errors and warnings of every command."""

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from probmetric.compilation import compilation_cache
from probmetric.files import LOCK, locked, reason
from probmetric.files import replacing as replacing
from probmetric.interrupts import check, deferred, noticed
from probmetric.names import kind_of
from probmetric.progress import silent

FILES = {
    "fit": ("metric.npz", "summary.json", "report.html"),
    "sample": ("draws.nc", "summary.json", "report.html"),
    "evaluate": ("evaluation.csv", "predictions.csv", "summary.json", "report.html"),
    "validate": ("agreement.csv", "summary.json", "report.html"),
}
"""Files that each command writes; ``validate`` adds its draws where it has any."""

WHOLE = "files that stand are whole"
"""What an interrupted or failed run leaves behind."""


class _State:
    """Whether notes and lines about progress are shown; there is one command."""

    quiet = False


@contextmanager
def quieted(quiet: bool) -> Generator[None]:
    """Show neither progress nor notes in a block, if ``quiet``; errors remain."""
    before, _State.quiet = _State.quiet, quiet
    try:
        with silent() if quiet else nullcontext():
            yield
    finally:
        _State.quiet = before


def is_quiet() -> bool:
    """Whether neither progress nor notes are shown."""
    return _State.quiet


def say(text: str) -> None:
    """Print a line about what is under way or was written."""
    if not _State.quiet:
        typer.echo(text)


def note(text: object) -> None:
    """Print a note on standard error."""
    if not _State.quiet:
        typer.echo(f"  note: {text}", err=True)


class BadInput(Exception):
    """What the user gave cannot be used; the message says why in one sentence."""


LONGEST = 400
"""Characters of a sentence on standard error; a longer one loses its middle."""


def sentence(error: BaseException) -> str:
    """Return what an error says as one line of bounded length."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else f"{text[:300]} … {text[-90:]}"


@contextmanager
def bad_input() -> Generator[None]:
    """Take a ValueError of a block that looks at the user's input as just that.

    So is a module that an argument needs and that is not installed.
    """
    try:
        yield
    except (ValueError, ModuleNotFoundError) as error:
        raise BadInput(sentence(error)) from error


def exit_code(
    work: Callable[[], int], *, kept: Callable[[], str] = lambda: WHOLE
) -> int:
    """Do a command's work; return its exit code, or 1, 2 or 130 with a sentence.

    Parameters
    ----------
    work : callable
        Returns 0 or 1.
    kept : callable
        Describes what an interrupt, or a full disk, leaves behind, once it happened.
    """
    try:
        # Where JAX is not loaded by now there is nothing to compile.
        with noticed(), compilation_cache() if "jax" in sys.modules else nullcontext():
            return work()
    except BadInput as error:
        typer.echo(f"probmetric: {error}", err=True)
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        said = sentence(OSError(f"{reason(error)}{where}"))
        typer.echo(f"probmetric: {said}; {kept()}", err=True)
    except RuntimeError as error:  # How a fit says that it has no result.
        typer.echo(f"probmetric: failed: {reason(error)}; {kept()}", err=True)
        return 1
    except KeyboardInterrupt:
        typer.echo(f"probmetric: interrupted; {kept()}", err=True)
        return 130
    return 2


@contextmanager
def noted() -> Generator[list[Warning]]:
    """Show warnings as lines for readers, without the place in the code; list them."""
    seen: list[Warning] = []

    def show(message: Warning | str, *_: object, **__: object) -> None:
        seen.append(message if isinstance(message, Warning) else UserWarning(message))
        note(message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


def check_new(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    """Raise ValueError for files that exist, unless ``force`` allows it.

    A link counts as a file: it is replaced, and what it leads to stays as it is. A
    folder, pipe or device is never replaced.
    """
    there = [folder / name for name in names if os.path.lexists(folder / name)]
    for path in there:
        if not path.is_symlink() and not path.is_file():
            raise ValueError(
                f"--out: expected a file to write, got {kind_of(path)} at {str(path)!r}"
            )
    existing = [str(path) for path in there]
    if existing and not force:
        raise ValueError(
            f"--out: expected new files, got {', '.join(existing)}; add --force to "
            "overwrite"
        )


@contextmanager
def claim(
    folder: Path, names: tuple[str, ...], *, force: bool, lock: str = LOCK
) -> Generator[None]:
    """Make a folder and hold it for this run.

    Parameters
    ----------
    folder : Path
    names : tuple of str
        Of the files that will be written.
    force : bool
        Files may exist.
    lock : str
        Of the file that is locked.

    Raises
    ------
    ValueError
        When a file exists and ``force`` is False, another run holds the folder, or it
        cannot be made or written to. Asked before hours of work, not after.
    """
    with locked(folder, "--out", lock):
        # Asked again: another run may have ended since the command began.
        check_new(folder, names, force=force)
        yield


def claim_file(path: Path, ending: str, *, force: bool) -> AbstractContextManager[None]:
    """Return ``claim`` of one file, by its own lock: others may write beside it.

    Raises
    ------
    ValueError
        For a name of another ending; and, as the block begins, as ``claim``.
    """
    if path.suffix.lower() != ending:
        raise ValueError(
            f"--out: expected a file ending in {ending}, got {path.name!r}"
        )
    return claim(path.parent, (path.name,), force=force, lock=f".{path.name}.lock")


@contextmanager
def together(folder: Path) -> Generator[Path]:
    """Write files to a hidden folder; all move to ``folder`` when the block ends well.

    So that files of two runs never stand side by side, whichever write fails.
    """
    check()
    with (
        deferred(),
        TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as name,
    ):
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
    folder: Path, command: str, summary: Mapping[str, Any], data: Any = None
) -> Generator[Path]:
    """Write files as ``together`` with the run's summary; then the report; say so.

    The summary says what was typed, so that the run can be repeated.

    Parameters
    ----------
    folder : Path
        That is held.
    command, summary
        As in ``write_summary``.
    data : Dataset, optional
        The data that the report shows; otherwise they are loaded again.
    """
    from probmetric.report.run import SUMMARY, render_run, write_summary

    with together(folder) as part:
        yield part
        asked = shlex.join(["probmetric", *sys.argv[1:]])
        write_summary(part / SUMMARY, command, {**summary, "asked": asked})
        written = sorted(path.name for path in part.iterdir())
    with noted():
        page = render_run(folder, data=data)
    write_text(folder / "report.html", page)
    paths = [str(folder / name) for name in (*written, "report.html")]
    say(f"Wrote {', '.join(paths)}")


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula, unless it is a number."""


def safe_labels(table: Any, columns: tuple[str, ...], *, quote: bool) -> Any:
    """Return a table whose labels a spreadsheet does not run, or say that it would.

    Parameters
    ----------
    table : DataFrame
    columns : tuple of str
        Of labels; those that the table lacks are passed over.
    quote : bool
        Put ``'`` before labels that begin as formulas do; otherwise note them.
    """
    for column in columns:
        if column not in table:
            continue
        known = table[column].unique()
        risky = [v for v in known if isinstance(v, str) and _is_formula(v)]
        if not risky:
            continue
        if quote:
            table = table.assign(
                **{column: table[column].replace({v: f"'{v}" for v in risky})}
            )
            said = "is written with ' before it"
        else:
            said = "is written as it is; --quote-formulas puts ' before it"
        note(f"{column} {risky[0]!r}, which a spreadsheet runs as a formula, {said}")
    return table


def _is_formula(text: str) -> bool:
    """Say whether a spreadsheet would run a label."""
    if not text.startswith(FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
