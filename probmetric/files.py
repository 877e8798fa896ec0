"""Files written whole or not at all, and arrays read without running code."""

import os
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probmetric.interrupts import check, deferred

__all__ = ["UNREADABLE", "read_npz", "reason", "replacing"]

# What readers raise when the bytes are not what the name says. RuntimeError: a zip
# flag that asks for a password; SyntaxError: the header of an array.
UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    SyntaxError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Write to a temporary name; the file appears, whole, when the block ends well.

    An interrupted or failed block leaves what was there before, and no debris. An
    OSError of the block carries the path that was to be written.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    check()
    with deferred():
        try:
            yield part
            with part.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            error.filename, error.filename2 = str(path), None
            raise
        finally:
            part.unlink(missing_ok=True)


def reason(error: BaseException) -> str:
    """Return the first line of what an error says, for a sentence of our own."""
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def read_npz(path: Path) -> dict[str, Any]:
    """Read every array of an NPZ file; objects, which need pickle, are an error.

    Raises
    ------
    one of UNREADABLE
        For a file that is missing, truncated, damaged, or no archive of arrays.
    """
    import numpy as np

    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("not an NPZ archive, or the end is missing")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
