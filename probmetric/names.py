"""Names of the data sets that need no file, endings of files, and how to read them.

They are looked up before pandas and scikit-learn are loaded.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

STORED = ("breast_cancer", "digits", "iris", "wine")
GENERATED = ("ringnorm", "twonorm", "waveform")
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".npz", ".parquet")


class Reading(NamedTuple):
    """How a table is read; each field is an argument of ``datasets.load``."""

    sep: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    drop: Sequence[str] = ()
    features: Sequence[str] = ()


AS_IS = Reading()


def ending(path: Path) -> str:
    """Return the ending of a file's name, of two parts where it is compressed."""
    parts = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    return "".join(parts).lower()


def path_of(name: str | os.PathLike[str], argument: str = "data") -> Path:
    """Return a path, whose ~ is the user's folder where there is one.

    Raises
    ------
    ValueError
        Where the system does not even look: the name is too long, holds a null
        character, or leads through a folder that this user may not enter.
    """
    path = Path(os.path.expanduser(name))
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        text = str(name)
        shown = text if len(text) <= 100 else f"{text[:40]}...{text[-20:]}"
        raise ValueError(
            f"{argument}: expected a path that can be looked up, got {shown!r} "
            f"({getattr(error, 'strerror', None) or error})"
        ) from error
    return path


def kind_of(path: Path) -> str:
    """Say what stands at a path where a file should."""
    return "a folder" if path.is_dir() else "a pipe or a device"


def existing(name: str) -> Path:
    """Return the path of a file.

    Raises
    ------
    ValueError
        Where none exists, saying what there is instead.
    """
    path = path_of(name)
    if path.is_file():
        return path
    if path.exists():
        raise ValueError(f"data: expected a file, got {kind_of(path)} at {name!r}")
    if ending(path) in ENDINGS or len(path.parts) > 1:
        raise ValueError(f"data: expected a file that exists, got {name!r}")
    raise ValueError(
        f"data: expected one of {', '.join(sorted([*STORED, *GENERATED]))}, a file "
        f"ending in {', '.join(ENDINGS)}, or openml:NAME, got {name!r}"
    )


def in_parts(name: str) -> bool:
    """Say whether a name is of rows that are read in parts: .npy, a folder, a glob."""
    path = path_of(name)
    if path.exists():
        return path.is_dir() or ending(path) == ".npy"
    return any(c in name for c in "*?[")


def check_source(name: str, *, rows: bool = False) -> None:
    """Raise for what names no data set: no stored one, no file that exists.

    With ``rows`` those that are read in parts are data too, and are found when opened.
    """
    if rows and in_parts(name):
        return
    if name not in (*STORED, *GENERATED) and not name.startswith("openml:"):
        existing(name)
