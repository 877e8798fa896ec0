"""Names of the data sets that need no file, endings of files, and how to read them.

They are looked up before pandas and scikit-learn are loaded.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

STORED = ("breast_cancer", "digits", "iris", "wine")
GENERATED = ("ringnorm", "twonorm", "waveform")
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".npz", ".parquet")

UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?")
"""What pandas calls a column without a name, such as its own index in a file."""

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".json", ".jsonl")
"""Endings of text, whose rows are not read in parts."""

CONVERT = (
    "convert it once: pandas.read_csv('rows.csv').to_parquet('rows.parquet'), or in "
    "batches: with pyarrow.csv.open_csv('rows.csv') as rows, pyarrow.parquet."
    "ParquetWriter('rows.parquet', rows.schema) as out: [out.write_batch(batch) for "
    "batch in rows]"
)
"""What to do with CSV, whose rows are to be read in parts."""

DTYPES = "float64", "float32"
"""Of numbers of rows that are read in parts."""

WILD = "*?["
"""Characters of a pattern of files."""


class Reading(NamedTuple):
    """How rows are read: as ``datasets.load`` says, and ``dtype`` as ``pm.open``."""

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    drop: Sequence[str] = ()
    features: Sequence[str] = ()
    dtype: str = "float64"
    unlabeled: int | float | str | None = "warn"
    na: Sequence[str] = ()
    thousands: str | None = None

    def of_load(self, name: str) -> dict[str, Any]:
        """Return the arguments of ``datasets.load``.

        Raises
        ------
        ValueError
            For rows in float32, as those that are loaded are not.
        """
        asked = self._asdict()
        if (dtype := asked.pop("dtype")) != "float64":
            raise ValueError(
                f"--dtype: expected float64 where all rows are loaded, as of {name!r}, "
                f"got {dtype}; in parts are read .npy files, a quoted glob, and "
                "Parquet files: a folder of them, or a large one"
            )
        return asked


AS_IS = Reading()


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that stand more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def ending(path: Path) -> str:
    """Return the ending of a file's name, of two parts where it is compressed."""
    parts = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    return "".join(parts).lower()


def looked_up(path: Path, argument: str) -> Path:
    """Return a path at which the system can look, whether or not anything is there.

    Raises
    ------
    ValueError
        Where it cannot: the name is too long, holds a null character, or leads through
        a folder that this user may not enter.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        text = str(path)
        shown = text if len(text) <= 100 else f"{text[:40]}...{text[-20:]}"
        raise ValueError(
            f"{argument}: expected a path that can be looked up, got {shown!r} "
            f"({getattr(error, 'strerror', None) or error})"
        ) from error
    return path


def path_of(name: str | os.PathLike[str], argument: str = "data") -> Path:
    """Return the path of data, whose ~ is the user's folder; as ``looked_up``."""
    text = os.path.expanduser(name)
    if "://" in text:
        raise ValueError(
            f"{argument}: expected a file of this machine, got the address {text!r}; "
            "fetch it first"
        )
    return looked_up(Path(text), argument)


def is_pattern(text: str) -> bool:
    """Say whether a name stands for several files, and is not itself one."""
    return any(c in text for c in WILD) and not os.path.exists(text)


def files_at(where: str | os.PathLike[str], name: str = "data") -> list[Path]:
    """Return the files of a path, a folder of Parquet files or a glob, by name.

    Of a folder of text files all, so that their reader says what they are.
    """
    text = os.path.expanduser(os.fspath(where))
    if is_pattern(text):
        found = sorted(map(Path, glob(text)))
    else:
        path = path_of(text, name)
        found = [path] if path.exists() else []
    files: list[Path] = []
    for path in found:
        if not path.is_dir():
            files.append(path)
        elif [path] == found and (rows := _rows_in(path)):
            files += rows
        else:
            raise ValueError(
                f"{name}: expected files, or one folder of .parquet files, got the "
                f"folder {str(path)!r}"
            )
    if not files:
        raise ValueError(f"{name}: expected files, got none at {text!r}")
    return files


def _rows_in(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, or its files where all are text."""
    if rows := sorted(folder.glob("*.parquet")):
        return rows
    files = sorted(path for path in folder.iterdir() if path.is_file())
    text = all(path.name.lower().endswith(TEXT) for path in files)
    return files if text else []


def kind_of(path: Path) -> str:
    """Say what stands at a path where a file should."""
    return "a folder" if path.is_dir() else "a pipe or a device"


def is_set(name: str) -> bool:
    """Say whether a name is of a data set that needs no file."""
    return name in (*STORED, *GENERATED) or name.startswith("openml:")


def existing(name: str, argument: str = "data") -> Path:
    """Return the path of a file.

    Raises
    ------
    ValueError
        Where none exists, saying what there is instead.
    """
    path = path_of(name, argument)
    if path.is_file():
        return path
    if path.exists():
        raise ValueError(
            f"{argument}: expected a file, got {kind_of(path)} at {name!r}"
        )
    if ending(path) in ENDINGS or len(path.parts) > 1:
        raise ValueError(f"{argument}: expected a file that exists, got {name!r}")
    raise ValueError(
        f"{argument}: expected one of {', '.join(sorted([*STORED, *GENERATED]))}, a "
        f"file ending in {', '.join(ENDINGS)}, or openml:NAME, got {name!r}"
    )


def in_parts(name: str, argument: str = "data") -> bool:
    """Say whether a name is of rows that are read in parts: .npy, a folder, a glob."""
    if is_set(name):
        return False
    if is_pattern(os.path.expanduser(name)):
        return True
    path = path_of(name, argument)
    return path.is_dir() or (path.exists() and ending(path) == ".npy")


def check_source(name: str, argument: str = "data", *, rows: bool = False) -> None:
    """Raise for what names no data set: no stored one, no file that exists.

    With ``rows`` those that are read in parts are data too, and are found when opened.
    """
    if not is_set(name) and not (rows and in_parts(name, argument)):
        existing(name, argument)
