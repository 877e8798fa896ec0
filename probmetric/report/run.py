"""The report of a run, made from its folder, and the folder's ``summary.json``.

The summary says which command made the folder, from which data, with which settings,
under which versions, and the figures that came out. The report is made from it and from
the results beside it, so that it can be made again at any time.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from probmetric import __version__
from probmetric.datasets.loading import Dataset
from probmetric.files import parsed, readable, reason, replacing
from probmetric.report.evaluate import evaluate_page
from probmetric.report.fit import fit_page
from probmetric.report.page import AT_HAND, render
from probmetric.report.sample import sample_page
from probmetric.report.validate import validate_page

SUMMARY = "summary.json"
EXPLORER = "explorer.html"
"""The page of ``report.explore`` beside a run's own, where it is asked for."""

FORMAT = "probmetric-run"
VERSION = 1


def write_summary(path: Path, command: str, content: Mapping[str, Any]) -> None:
    """Write a summary, whole or not at all; NaN becomes null.

    Parameters
    ----------
    path : Path
    command : str
        ``fit``, ``sample``, ``evaluate`` or ``validate``.
    content : mapping
        Numbers, strings, lists and mappings; arrays become lists.
    """
    head = {
        "format": FORMAT,
        "format_version": VERSION,
        "probmetric_version": __version__,
        "command": command,
    }
    text = json.dumps(_plain({**head, **content}), indent=1, ensure_ascii=False)
    with replacing(path) as part:
        # A file's name may hold bytes that are no UTF-8; JSON reads \udcff as one.
        part.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run's folder.

    Raises
    ------
    ValueError
        For a folder without one, or one that is damaged or of a newer version.
    """
    path = folder / SUMMARY
    if not path.is_file():
        raise ValueError(
            f"DIR: expected the folder of a fit, sample, evaluate or validate run, "
            f"got {str(folder)!r} without {SUMMARY}"
        )
    where = f"in {str(folder)!r}, got one damaged"
    with readable(f"DIR: expected a readable {SUMMARY} {where}"):
        text = path.read_text(encoding="utf-8")
        found = parsed(text, path.stat().st_size, parse_constant=_refused)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(
            f"DIR: expected a run's summary, got {str(path)!r}, which is none"
        )
    if found.get("format_version") != VERSION:
        raise ValueError(
            f"DIR: expected format version {VERSION} in {str(path)!r}, got "
            f"{found.get('format_version')}, written by probmetric "
            f"{found.get('probmetric_version')}; this is {__version__}"
        )
    return found


def _plain(value: object) -> object:
    """Turn a value into what JSON holds."""
    if isinstance(value, Mapping):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return repr(value)


def _refused(constant: str) -> None:
    """Refuse NaN and infinity, which no summary is written with."""
    raise ValueError(f"{constant}, which JSON does not know")


DAMAGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a page raises of a summary whose entries are of other kinds."""

PAGES: dict[str, Any] = {
    "fit": fit_page,
    "sample": sample_page,
    "evaluate": evaluate_page,
    "validate": validate_page,
}


def render_run(
    folder: "str | Path", *, explorer: bool = False, data: Dataset | None = None
) -> str:
    """Return the report of a run's folder as one HTML page.

    Parameters
    ----------
    folder : str or Path
        What ``probmetric fit``, ``sample``, ``evaluate`` or ``validate`` wrote.
    explorer : bool, default=False
        Whether the page leads to ``explorer.html``, which is made with it.
    data : Dataset, optional
        The run's data. Default: loaded again, but never from OpenML.

    Returns
    -------
    str
        The figures that need the data are drawn where the data are still found,
        unchanged, where the summary says; the page says when they are not.

    Raises
    ------
    ValueError
        For a folder that is none of a run's, or files in it that are damaged.
    """
    folder = Path(folder)
    summary = read_summary(folder)
    command = summary.get("command")
    if not isinstance(command, str) or command not in PAGES:
        raise ValueError(
            f"DIR: expected a run of {', '.join(PAGES)}, got one of {command!r}"
        )
    try:
        page = PAGES[command](folder, {**summary, AT_HAND: data})
    except KeyError as error:
        raise ValueError(
            f"DIR: expected a whole summary in {str(folder)!r}, got one without {error}"
        ) from error
    except DAMAGED as error:
        if isinstance(error, ValueError) and ": expected" in str(error):
            raise
        raise ValueError(
            f"DIR: expected a whole summary and files beside it in {str(folder)!r}, got"
            f" one damaged ({type(error).__name__}: {reason(error)})"
        ) from error
    return render(page, explorer=EXPLORER if explorer else None)
