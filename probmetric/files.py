"""Files written whole or not at all, arrays read without running code, and locks.

One run a folder: a lock that the operating system lets go of when a run ends. The lock
is on a hidden file in the folder, which says what it is and is gone when the run is
done. One that a crash leaves behind locks nothing. Locks of the system hold between
processes and between threads; the thread that holds one may take it again.
"""

import os
import sys
import threading
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probmetric.interrupts import check, deferred

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
    part = path.with_name(
        f".{path.stem}.{os.getpid()}.{threading.get_ident()}.part{path.suffix}"
    )
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


@contextmanager
def readable(expected: str) -> Generator[None]:
    """Raise ValueError, with what was expected and the reason, for a file unread."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(f"{expected} ({reason(error)})") from error


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


LOCK = ".probmetric.lock"
TEXT = (
    "Locked while probmetric (process {}) writes here. A file left by a crash locks "
    "nothing and may be deleted.\n"
)
_held = threading.local()

if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path, argument: str, name: str = LOCK) -> Generator[None]:
    """Hold a folder, which is made, for one run.

    Parameters
    ----------
    folder : Path
    argument : str
        That gave the folder, for the message of a refusal.
    name : str
        Of the file that is locked.

    Raises
    ------
    ValueError
        When another run holds it, or where no file can be written and locked.
    """
    mine: set[str] = _held.__dict__.setdefault("paths", set())
    key = os.path.join(os.path.realpath(folder), name)
    if key in mine:
        yield
        return
    file: int | None = None
    try:
        with deferred():  # It may raise at its end, with the lock taken.
            file = _acquire(folder, argument, name)
            mine.add(key)
        yield
    finally:
        if file is not None:
            with deferred():
                mine.discard(key)
                _release(file, folder / name)


def _acquire(folder: Path, argument: str, name: str) -> int:
    """Return the descriptor of the locked file."""
    path = folder / name
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ValueError(
                f"{argument}: expected a folder to write to, got {str(folder)!r} "
                f"({reason(error)})"
            ) from error
        try:
            _take(file)
            # A run that ended in between has deleted the file that was opened.
            if _stands(file, path):
                os.ftruncate(file, 0)
                os.write(file, TEXT.format(os.getpid()).encode())
                return file
        except (BlockingIOError, PermissionError) as error:
            os.close(file)
            raise ValueError(
                f"{argument}: expected a folder that no other run is writing to, got "
                f"{str(folder)!r}, which one is"
            ) from error
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            raise ValueError(
                f"{argument}: expected a folder in which files can be locked, got "
                f"{str(folder)!r} ({reason(error)})"
            ) from error
        os.close(file)


def _stands(file: int, path: Path) -> bool:
    """Say whether the open file is the one that the path names."""
    return path.exists() and os.path.samestat(os.fstat(file), path.stat())


def _release(file: int, path: Path) -> None:
    """Delete the file and let go; Windows deletes no file that is open."""
    if sys.platform != "win32":
        if _stands(file, path):
            path.unlink(missing_ok=True)
        fcntl.flock(file, fcntl.LOCK_UN)  # A forked child may have it open too.
    os.close(file)
    if sys.platform == "win32":
        try:
            path.unlink(missing_ok=True)
        except PermissionError:
            pass  # The next run has it open already.
