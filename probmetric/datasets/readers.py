"""Bytes to tables: CSV, NPZ and Parquet, each refused where it is not what it says."""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from probmetric.files import UNREADABLE, read_npz, reason

__all__ = ["READERS", "read_content"]


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV; a first line of numbers is data, not names."""
    head = pd.read_csv(path, nrows=1, header=None, dtype=str)
    first: pd.Series = pd.Series(pd.to_numeric(head.iloc[0], errors="coerce"))
    line = str(head.iloc[0, 0])
    if head.shape[1] == 1 and re.search(r"\S[;\t| ]\s*\S", line):
        raise ValueError(
            f"wanted columns split by commas, got lines like {line[:40]!r}"
        )
    numbers = first.notna()
    if bool(numbers.iloc[:-1].all() if len(first) > 1 else numbers.all()):
        return pd.read_csv(path, header=None)
    # A second line longer than the names: pandas would make an index of the rest.
    pd.read_csv(path, nrows=2, header=None, dtype=str)
    return pd.read_csv(path)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(
            "wanted pyarrow to read it: install the extra 'parquet'"
        ) from error
    return frame.reset_index(drop=True)


READERS = {".csv": _read_csv, ".npz": read_npz, ".parquet": _read_parquet}


def read_content(path: Path) -> Any:
    """Read a file by its suffix: arrays by name, or a frame.

    Raises
    ------
    ValueError
        For another suffix, and for what cannot be read as what its suffix says.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"data: wanted a file ending in {', '.join(READERS)}, got {path.name!r}"
        )
    try:
        return reader(path)
    except UNREADABLE as error:
        raise ValueError(
            f"data: wanted a readable {path.suffix[1:].upper()} file, got "
            f"{str(path)!r} ({reason(error)})"
        ) from error
