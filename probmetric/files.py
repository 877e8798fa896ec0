"""Atomic writing of files, reading of arrays without running code, and locks.

A lock allows one run per folder. The operating system locks a hidden file, which is
deleted at the end of the run. If the file remains after a crash, it is not locked.
Locks exclude other processes and threads. The same thread may lock a folder again.
"""

import os
import struct
import sys
import threading
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

# Errors of readers when the bytes do not match the ending of the file. RuntimeError: a
# zip file with a password, recursion. SyntaxError, TokenError: the header of an array.
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
    """Write to a temporary file, and move it to ``path`` at the end of the block.

    If the block fails or is interrupted, the old file is not changed and the temporary
    file is removed. An OSError of the block has ``path`` as its filename.
    """
    # Absolute, because pandas takes http:/a.csv for an address.
    part = path.absolute().with_name(
        f".{path.stem}.{os.getpid()}.{threading.get_ident()}.part{path.suffix}"
    )
    try:
        part.unlink(missing_ok=True)  # It might be a link.
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
    """Return the first line of an error's message."""
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


@contextmanager
def readable(expected: str) -> Generator[None]:
    """Convert an error of a reader to a ValueError with the message ``expected``."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(f"{expected} ({reason(error)})") from error


class Form(NamedTuple):
    """Shape and dtype of a stored array."""

    shape: tuple[int, ...]
    dtype: Any


class Archive(Mapping[str, Any]):
    """Arrays of an NPZ file by name, read on access, without pickle.

    If the file is missing, damaged or not an archive of arrays, a ValueError is raised
    that starts with ``expected``. If ``expected`` is empty, readers raise their errors.
    """

    def __init__(self, path: Path, expected: str = "") -> None:
        self.path, self._expected = path, expected
        with self._opened() as archive:
            self._members = {n.removesuffix(".npy"): n for n in archive.namelist()}

    @contextmanager
    def _opened(self) -> Generator[zipfile.ZipFile]:
        translated = readable(self._expected) if self._expected else nullcontext()
        # NumPy warns about headers that Python 2 wrote.
        with translated, warnings.catch_warnings(action="ignore"):
            with zipfile.ZipFile(self.path) as archive:
                yield archive

    def form(self, name: str) -> Form:
        """Return the shape and dtype of an array without reading it."""
        from numpy.lib import format as npy

        with self._opened() as archive, archive.open(self._members[name]) as file:
            old = npy.read_magic(file) == (1, 0)
            read = npy.read_array_header_1_0 if old else npy.read_array_header_2_0
            shape, _, dtype = read(file)
            return Form(shape, dtype)

    def read(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Read arrays by name (default: all arrays)."""
        from numpy.lib import format as npy

        arrays: dict[str, Any] = {}
        with self._opened() as archive:
            for name in self._members if names is None else names:
                with archive.open(self._members[name]) as file:
                    arrays[name] = npy.read_array(file, allow_pickle=False)
        return arrays

    def __getitem__(self, name: str) -> Any:
        return self.read([name])[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is an array of this name, without reading it."""
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


LOCK = ".probmetric.lock"
BEGIN = "Locked while probmetric (process "
TEXT = BEGIN + (
    "{}) writes here. A file left by a crash locks nothing and may be deleted.\n"
)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Do not open the target of a link (not available on Windows)."""
_locks = threading.local()

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
    """Lock a folder, which is created if needed, for one run.

    Messages use ``argument``, the name of the argument with the folder. The file
    ``name`` is locked. ValueError is raised if another run has locked the folder, or if
    this file cannot be written and locked.
    """
    mine: set[str] = _locks.__dict__.setdefault("paths", set())
    key = os.path.join(os.path.realpath(folder), name)
    if key in mine:
        yield
        return
    file = _acquire(folder, argument, name)
    mine.add(key)
    try:
        yield
    finally:
        mine.discard(key)
        _release(file, folder / name)


def _acquire(folder: Path, argument: str, name: str) -> int:
    path = folder / name
    place = f"got {str(folder)!r}"
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o666)
        except OSError as error:
            raise ValueError(
                f"{argument} must be a folder to write to, {place} ({reason(error)})"
            ) from error
        try:
            _take(file)
        except (BlockingIOError, PermissionError) as error:
            os.close(file)
            raise ValueError(
                f"{argument}: folder {str(folder)!r} is locked by another probmetric "
                "run. Wait for it, or use another folder."
            ) from error
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            raise ValueError(
                f"{argument} must be a folder that supports file locks, {place} "
                f"({reason(error)})"
            ) from error
        if not _is_open(file, path):  # Deleted by a run that ended in between.
            os.close(file)
            continue
        if os.read(file, len(BEGIN)) not in (b"", BEGIN.encode()):
            os.close(file)
            raise ValueError(
                f"{argument}: {str(path)!r} is a file of another program. Delete it, "
                "or use another folder."
            )
        os.lseek(file, 0, os.SEEK_SET)
        os.ftruncate(file, 0)
        os.write(file, TEXT.format(os.getpid()).encode())
        return file


def _is_open(file: int, path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(file), path.stat())


def _release(file: int, path: Path) -> None:
    """Delete and unlock the file. (Windows cannot delete an open file.)"""
    if sys.platform != "win32":
        if _is_open(file, path):
            path.unlink(missing_ok=True)
        fcntl.flock(file, fcntl.LOCK_UN)  # A forked child may have it open too.
    os.close(file)
    if sys.platform == "win32":
        try:
            path.unlink(missing_ok=True)
        except PermissionError:
            pass  # The next run has opened it.
