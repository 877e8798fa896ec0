"""One run a folder: a lock that the operating system lets go of when a run ends.

The lock is on a hidden file in the folder, which says what it is and is gone when the
run is done. One that a crash leaves behind locks nothing. Locks of the system hold
between processes and between threads; the thread that holds one may take it again.
"""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from probmetric.files import reason
from probmetric.interrupts import deferred

__all__ = ["LOCK", "locked"]

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
