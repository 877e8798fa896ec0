"""Names of datasets, endings of file names, and options for reading files.

This module loads neither pandas nor scikit-learn.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import NamedTuple

STORED = ("breast_cancer", "digits", "iris", "wine")
GENERATED = ("ringnorm", "twonorm", "waveform")
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".npz", ".parquet")

UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?")
"""Names that pandas gives to unnamed columns, such as its index in a file."""

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".json", ".jsonl")
"""Endings of text files, which are not read in chunks."""

CONVERT = (
    "convert it once: pandas.read_csv('rows.csv').to_parquet('rows.parquet'), or in "
    "batches: with pyarrow.csv.open_csv('rows.csv') as rows, pyarrow.parquet."
    "ParquetWriter('rows.parquet', rows.schema) as out: [out.write_batch(batch) for "
    "batch in rows]"
)
"""The remedy for CSV files that must be read in chunks."""

WILD = "*?["
"""Wildcards of file patterns."""


class Reading(NamedTuple):
    """Options of ``datasets.load`` to read rows."""

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    drop: Sequence[str] = ()
    features: Sequence[str] = ()
    unlabeled: int | float | str | None = "warn"
    na: Sequence[str] = ()
    thousands: str | None = None
    feature_names: Sequence[str] = ()
    handle_unknown: str = "error"


AS_IS = Reading()


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def ending(path: Path) -> str:
    """Return the lower-case ending of a file name, such as .csv or .csv.gz."""
    parts = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    return "".join(parts).lower()


def looked_up(path: Path, argument: str) -> Path:
    """Return a path that may or may not exist; raise if it cannot be looked up."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        text = str(path)
        shown = text if len(text) <= 100 else f"{text[:40]}...{text[-20:]}"
        raise ValueError(
            f"{argument} must be a valid path, got {shown!r} "
            f"({getattr(error, 'strerror', None) or error})"
        ) from error
    return path


def path_of(name: str | os.PathLike[str], argument: str = "data") -> Path:
    """Expand ~ in a path; raise for web addresses and invalid paths."""
    text = os.path.expanduser(name)
    if "://" in text:
        raise ValueError(
            f"{argument} must be a file on this machine, got the URL {text!r}. "
            "Download it first."
        )
    return looked_up(Path(text), argument)


def is_pattern(text: str) -> bool:
    """Return whether a name is a pattern of files, and not a file."""
    return any(c in text for c in WILD) and not os.path.exists(text)


def files_at(where: str | os.PathLike[str], name: str = "data") -> list[Path]:
    """Return the files of a path, a folder or a glob, sorted by name."""
    text = os.path.expanduser(os.fspath(where))
    if is_pattern(text):
        paths = sorted(map(Path, glob(text)))
    else:
        path = path_of(text, name)
        paths = [path] if path.exists() else []
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
        elif [path] == paths and (inside := _rows_in(path)):
            files += inside
        else:
            raise ValueError(
                f"{name} must be files, or one folder of .parquet files, got the "
                f"folder {str(path)!r}. Use a pattern, such as '{path}/*.npy'."
            )
    if not files:
        raise ValueError(f"{name} must be existing files, got none at {text!r}")
    return files


def _rows_in(folder: Path) -> list[Path]:
    if rows := sorted(folder.glob("*.parquet")):
        return rows
    files = sorted(path for path in folder.iterdir() if path.is_file())
    text = all(path.name.lower().endswith(TEXT) for path in files)
    return files if text else []


def kind_of(path: Path) -> str:
    """Describe a path that is not a file."""
    return "a folder" if path.is_dir() else "a pipe or a device"


def check_file(path: Path, argument: str) -> None:
    """Raise unless a path is an existing file."""
    if not path.is_file():
        problem = kind_of(path) + " at " if path.exists() else ""
        wanted = "a file" if problem else "a file that exists"
        raise ValueError(f"{argument} must be {wanted}, got {problem}{str(path)!r}")


def is_set(name: str) -> bool:
    """Return whether a name is a data set that needs no file."""
    return name in (*STORED, *GENERATED) or name.startswith("openml:")


def existing(name: str, argument: str = "data") -> Path:
    """Return the path of an existing file, or raise and list the alternatives."""
    path = path_of(name, argument)
    if path.is_file():
        return path
    if path.exists():
        raise ValueError(f"{argument} must be a file, got {kind_of(path)} at {name!r}")
    if ending(path) in ENDINGS or len(path.parts) > 1:
        raise ValueError(f"{argument} must be an existing file, got {name!r}")
    raise ValueError(
        f"{argument} must be one of {', '.join(sorted([*STORED, *GENERATED]))}, a "
        f"file ending in {', '.join(ENDINGS)}, or openml:NAME, got {name!r}"
    )


def in_parts(name: str, argument: str = "data") -> bool:
    """Return whether data are read in chunks: .npy files, folders, globs and URLs."""
    if is_set(name):
        return False
    if "://" in name or is_pattern(os.path.expanduser(name)):
        return True
    path = path_of(name, argument)
    return path.is_dir() or (path.exists() and ending(path) == ".npy")


def check_source(name: str, argument: str = "data", *, rows: bool = False) -> None:
    """Raise for a name that is no dataset or file (or, with ``rows``, data on disk)."""
    if not is_set(name) and not (rows and in_parts(name, argument)):
        existing(name, argument)
