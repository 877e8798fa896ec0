"""Files written whole or not at all, arrays read without running code, and locks.

One run a folder: a lock that the operating system lets go of when a run ends. The lock
is on a hidden file in the folder, which says what it is and is gone when the run is
done. One that a crash leaves behind locks nothing. Locks of the system hold between
processes and between threads; the thread that holds one may take it again.
"""

import math
import os
import struct
import sys
import threading
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probmetric.interrupts import check, deferred

# What readers raise when the bytes are not what the name says. RuntimeError: a zip
# flag that asks for a password, recursion; SyntaxError, TokenError: an array's header.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Write to a temporary name; the file appears, whole, when the block ends well.

    An interrupted or failed block leaves what was there before, and no debris. An
    OSError of the block carries the path that was to be written. The temporary name is
    absolute: pandas takes ``http:/a.csv`` for an address.
    """
    part = path.absolute().with_name(
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
    """Raise ValueError, with what was expected and the reason, for a file unread.

    Readers of damaged bytes raise whatever comes: tokens, recursion, memory, structs.
    """
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(f"{expected} ({reason(error)})") from error


LARGEST_RATIO = 1032
"""Bytes that deflate makes of one, at most."""


def read_npz(
    path: Path,
    wanted: Callable[[Collection[str]], Collection[str]] | None = None,
    most: float | int = math.inf,
) -> dict[str, Any]:
    """Read arrays of an NPZ file; objects, which need pickle, are an error.

    An array's header is checked against the bytes that are there before anything is
    allocated for it, so that memory is that of the arrays returned.

    Parameters
    ----------
    path : Path
    wanted : callable, optional
        Of the names in the file, those to read; the others are None. Default: all.
    most : float
        Bytes of the largest array that is read.

    Raises
    ------
    one of UNREADABLE
        For a file that is missing, truncated, damaged, or no archive of arrays; to be
        called in ``readable``.
    """
    import numpy as np

    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("not an NPZ archive, or the end is missing")
        with zipfile.ZipFile(file) as archive, warnings.catch_warnings(action="ignore"):
            # Python 2 wrote headers that NumPy warns of.
            members = {
                member.filename.removesuffix(".npy"): member
                for member in archive.infolist()
            }
            chosen = members if wanted is None else wanted(members)
            found: dict[str, Any] = dict.fromkeys(members)
            for name in chosen:
                if name in members:
                    _check_member(archive, members[name], most)
                    with archive.open(members[name]) as stream:
                        found[name] = np.lib.format.read_array(
                            stream, allow_pickle=False
                        )
                        if stream.read(1):
                            raise ValueError(f"{name}: more bytes than its header says")
            return found


def _check_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: float | int
) -> None:
    """Raise for an array whose header asks for other than the bytes that are there."""
    import numpy as np

    held = LARGEST_RATIO * (member.compress_size + 1)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename}: neither stored nor deflated")
    if member.file_size > min(held, most):
        raise ValueError(f"{member.filename}: {member.file_size} bytes are too many")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"{member.filename}: format {version} is unknown")
        read: Any = getattr(np.lib.format, f"read_array_header_{min(version[0], 2)}_0")
        shape, _, dtype = read(stream)
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"{member.filename}: no shape {shape}")
        n_bytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise ValueError(f"{member.filename}: objects, which need pickle")
        if n_bytes != member.file_size - stream.tell() or (
            dtype.itemsize == 0 and math.prod(shape)
        ):
            raise ValueError(
                f"{member.filename}: {n_bytes} bytes by its header, other are there"
            )


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
