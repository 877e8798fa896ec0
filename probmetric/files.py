"""Files written whole or not at all, arrays read without running code, and locks.

One run a folder: a lock that the operating system lets go of when a run ends. The lock
is on a hidden file in the folder, which says what it is and is gone when the run is
done. One that a crash leaves behind locks nothing. Locks of the system hold between
processes and between threads; the thread that holds one may take it again.
"""

import io
import json
import math
import os
import stat
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


FEW_NODES = 1 << 16
"""Lists and mappings of JSON text that are always read; more, one in 32 bytes of the
file, as each takes 64 to 230 in memory."""


def parsed(text: str, size: int, **options: Any) -> Any:
    """Return what JSON text of a file of ``size`` bytes holds.

    Raises
    ------
    ValueError, RecursionError
        For text that is no JSON, or has so many lists and mappings that they would take
        many times its bytes.
    """
    nodes = text.count("[") + text.count("{")
    if nodes > max(FEW_NODES, size // 32):
        raise ValueError(f"{nodes} lists and mappings are too many")
    return json.loads(text, **options)


LARGEST_RATIO = 1032
"""Bytes that deflate makes of one, at most."""

LONGEST_HEADER = 10_000
"""Bytes of the header of an array; NumPy reads no longer one either."""

SMALL_DIRECTORY = 1 << 19
"""Bytes of an archive's directory that are always read: some 10,000 arrays."""


class Form(NamedTuple):
    """What the header of a stored array says of it, before it is read."""

    shape: tuple[int, ...]
    dtype: Any


class Archive(Mapping[str, Any]):
    """Arrays of an NPZ file by name, read when they are asked for.

    Each call opens the file, and reads its directory, anew. Objects, which need pickle,
    are an error. An array's header is checked against the bytes that are there before
    anything is allocated for it, and ``forms`` tells what it says: memory is that of
    the arrays that are asked for.

    Parameters
    ----------
    path : Path
    expected : str
        Start of the sentence of the ValueError for a file that is missing, truncated,
        damaged, or no archive of arrays, as in ``readable``. Empty: what readers raise,
        ``UNREADABLE``, is raised as it is.
    packed : bool, default=True
        Whether arrays may be compressed, up to a thousand times.
    """

    def __init__(self, path: Path, expected: str = "", *, packed: bool = True) -> None:
        self.path, self._expected = path, expected
        with self._opened() as archive:
            self._members = {
                member.filename.removesuffix(".npy"): member
                for member in archive.infolist()
            }
            for name, member in self._members.items():
                if not packed and member.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(f"{name}: compressed, which is never written")

    @contextmanager
    def _opened(self) -> Generator[zipfile.ZipFile]:
        translated = readable(self._expected) if self._expected else nullcontext()
        # Python 2 wrote headers that NumPy warns of.
        with translated, warnings.catch_warnings(action="ignore"):
            with self.path.open("rb") as file:
                if not zipfile.is_zipfile(file):
                    raise ValueError("not an NPZ archive, or the end is missing")
                _check_directory(file)
                with zipfile.ZipFile(file) as archive:
                    yield archive

    def forms(self, names: Iterable[str]) -> dict[str, Form]:
        """Return the shapes and dtypes of arrays, which are not read."""
        members = {name: self._members[name] for name in names}
        with self._opened() as archive:
            return {name: _form(archive, member) for name, member in members.items()}

    def read(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Read arrays by name; all of them where none is named."""
        import numpy as np

        chosen = self._members if names is None else names
        members = {name: self._members[name] for name in chosen}
        found: dict[str, Any] = {}
        with self._opened() as archive:
            for name, member in members.items():
                _form(archive, member)
                with archive.open(member) as stream:
                    found[name] = np.lib.format.read_array(stream, allow_pickle=False)
                    if stream.read(1):
                        raise ValueError(f"{name}: more bytes than its header says")
        return found

    def form(self, name: str) -> Form:
        """Return the shape and dtype of one array."""
        return self.forms([name])[name]

    def __getitem__(self, name: str) -> Any:
        """Read one array."""
        return self.read([name])[name]

    def __contains__(self, name: object) -> bool:
        """Say whether there is such an array, whatever it is."""
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the arrays."""
        return iter(self._members)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._members)


def _check_directory(file: io.BufferedIOBase) -> None:
    """Raise where an archive's directory is large beside what it lists.

    Twelve times its bytes are taken in memory. An array's entry of it is 46 bytes and
    the name; beside that it has some 200 bytes of its own (headers, padding) and the
    name again: only of many arrays with very long names and next to no numbers is a
    directory more than a third of the file.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 98))  # The longest comment, and the records.
    tail = file.read()
    end = len(tail) - 22
    if not (tail[end:].startswith(b"PK\x05\x06") and tail.endswith(b"\0\0")):
        end = tail.rfind(b"PK\x05\x06")
    directory, large = tail[end + 12 : end + 16], tail[max(0, end - 76) : end]
    if large.startswith(b"PK\x06\x06") and large[56:].startswith(b"PK\x06\x07"):
        directory = large[40:48]  # Of an archive of more than 4 GB.
    listed = int.from_bytes(directory, "little")
    if listed > max(SMALL_DIRECTORY, size // 3):
        raise ValueError(f"a directory of {listed} bytes in a file of {size}")


def _form(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Form:
    """Return an array's form; raise where it asks for other than the bytes there."""
    import numpy as np

    held = LARGEST_RATIO * (member.compress_size + 1)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename}: neither stored nor deflated")
    if member.file_size > held:
        raise ValueError(f"{member.filename}: {member.file_size} bytes are too many")
    with archive.open(member) as file:
        stream: Any = file
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"{member.filename}: format {version} is unknown")
        digits = 2 if version == (1, 0) else 4
        if int.from_bytes(stream.peek(digits)[:digits], "little") > LONGEST_HEADER:
            raise ValueError(f"{member.filename}: its header is too long")
        read: Any = getattr(np.lib.format, f"read_array_header_{min(version[0], 2)}_0")
        shape, _, dtype = read(stream)
        start = stream.tell()
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{member.filename}: no shape {shape}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError(f"{member.filename}: objects, which need pickle")
    if n_bytes != member.file_size - start or (
        dtype.itemsize == 0 and math.prod(shape)
    ):
        raise ValueError(
            f"{member.filename}: {n_bytes} bytes by its header, other are there"
        )
    return Form(shape, dtype)


LOCK = ".probmetric.lock"
BEGIN = "Locked while probmetric (process "
TEXT = BEGIN + (
    "{}) writes here. A file left by a crash locks nothing and may be deleted.\n"
)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none.
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
            file = os.open(path, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o666)
        except OSError as error:
            if path.is_symlink():
                raise _in_the_way(path, argument) from error
            raise ValueError(
                f"{argument}: expected a folder to write to, got {str(folder)!r} "
                f"({reason(error)})"
            ) from error
        try:
            _take(file)
            # A run that ended in between has deleted the file that was opened.
            if _stands(file, path):
                if not _is_lock(file):
                    raise _in_the_way(path, argument)
                os.lseek(file, 0, os.SEEK_SET)
                os.ftruncate(file, 0)
                os.write(file, TEXT.format(os.getpid()).encode())
                return file
        except ValueError:
            os.close(file)
            raise
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


def _is_lock(file: int) -> bool:
    """Whether a file is new and empty, or a lock that a crash left behind."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        return False
    return not about.st_size or os.read(file, len(BEGIN)) == BEGIN.encode()


def _in_the_way(path: Path, argument: str) -> ValueError:
    return ValueError(
        f"{argument}: {str(path)!r} is a link or the file of another program, not a "
        "lock of probmetric. Delete it, or use another folder."
    )


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
