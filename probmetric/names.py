"""Names of the data sets that need no file, and endings of files that hold one.

They are looked up before pandas and scikit-learn are loaded.
"""

from pathlib import Path

STORED = ("breast_cancer", "digits", "iris", "wine")
GENERATED = ("ringnorm", "twonorm", "waveform")
ENDINGS = (".csv", ".npz", ".parquet")


def existing(name: str) -> Path:
    """Return the path of a file.

    Raises
    ------
    ValueError
        Where none exists, saying what there is instead.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.suffix.lower() in ENDINGS or len(path.parts) > 1:
        raise ValueError(f"data: expected a file that exists, got {name!r}")
    raise ValueError(
        f"data: expected one of {', '.join(sorted([*STORED, *GENERATED]))}, a file "
        f"ending in {', '.join(ENDINGS)}, or openml:NAME, got {name!r}"
    )


def check_source(name: str) -> None:
    """Raise for what names no data set: no stored one, no file that exists."""
    if name not in (*STORED, *GENERATED) and not name.startswith("openml:"):
        existing(name)
