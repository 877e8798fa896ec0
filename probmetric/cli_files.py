"""Files that are never half-written, and never overwritten unasked."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["BadInput", "bad_input", "claim", "replacing"]


class BadInput(Exception):
    """What the user gave cannot be used; the message says why in one sentence."""


@contextmanager
def bad_input() -> Generator[None]:
    """Take a ValueError of a block that looks at the user's input as just that."""
    try:
        yield
    except ValueError as error:
        raise BadInput(" ".join(str(error).split())) from error


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


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Write to a temporary name; the file appears, whole, when the block ends well.

    An interrupted or failed block leaves what was there before, and no debris.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
