"""The report of a run, made from the run's folder, and the folder's ``summary.json``.

The summary stores the command, the data, the settings, the versions, and the scores.
The report is made only from the summary and the result files of the folder.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from probmetric import __version__
from probmetric.datasets.loading import Dataset
from probmetric.files import readable, reason, replacing
from probmetric.report.evaluate import evaluate_page
from probmetric.report.fit import fit_page
from probmetric.report.page import Report, Summary, render
from probmetric.report.sample import sample_page
from probmetric.report.validate import validate_page

SUMMARY = "summary.json"
EXPLORER = "explorer.html"
"""File name of the page of ``report.explore`` in a run's folder."""

FORMAT = "probmetric-run"
VERSION = 1

type MakePage = Callable[[Path, Summary, Dataset | None], Report]
PAGES: dict[str, MakePage] = {
    "fit": fit_page,
    "sample": sample_page,
    "evaluate": evaluate_page,
    "validate": validate_page,
}
DAMAGED = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError
"""Errors that making a page can raise if entries of the summary have wrong types."""


def write_summary(path: Path, command: str, content: Mapping[str, object]) -> None:
    """Write a summary atomically. Arrays become lists; NaN becomes null."""
    head = {
        "format": FORMAT,
        "format_version": VERSION,
        "probmetric_version": __version__,
        "command": command,
    }
    text = json.dumps(_plain({**head, **content}), indent=1, ensure_ascii=False)
    with replacing(path) as part:
        # File names may contain bytes that are not UTF-8; JSON reads \udcff as one.
        part.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run's folder."""
    path = folder / SUMMARY
    if not path.is_file():
        raise ValueError(
            "DIR must be the folder of a fit, sample, evaluate or validate run, got "
            f"{str(folder)!r} without {SUMMARY}."
        )
    with readable(f"DIR must contain a readable {SUMMARY}, got {str(folder)!r}"):
        text = path.read_text(encoding="utf-8")
        summary = json.loads(text)
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ValueError(f"DIR must contain a run's summary, got {str(path)!r}.")
    if summary.get("format_version") != VERSION:
        raise ValueError(
            f"DIR must have format version {VERSION}, got "
            f"{summary.get('format_version')} in {str(path)!r}. It was written by "
            f"probmetric {summary.get('probmetric_version')}; this is {__version__}."
        )
    return summary


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return (
        value if value is None or isinstance(value, str | int | float) else repr(value)
    )


def render_run(
    folder: "str | Path", *, explorer: bool = False, data: Dataset | None = None
) -> str:
    """Render the report of a run's folder as one HTML page.

    ``explorer=True`` adds a link to ``explorer.html``. If ``data`` is None, the data of
    the run are loaded again, but never from OpenML. If this fails, or if the data have
    changed, the page gives the reason instead of figures of the data.
    """
    folder = Path(folder)
    summary = read_summary(folder)
    command = summary.get("command")
    if not isinstance(command, str) or command not in PAGES:
        raise ValueError(f"DIR must be a run of {', '.join(PAGES)}, got {command!r}.")
    lead = "DIR must contain a complete summary and its files, got"
    try:
        page = PAGES[command](folder, summary, data)
    except KeyError as error:
        raise ValueError(
            f"{lead} {str(folder)!r} without the entry {error}."
        ) from error
    except (*DAMAGED, ValueError) as error:
        # Readers of files raise sentences about an argument.
        if isinstance(error, ValueError) and " must " in str(error):
            raise
        raise ValueError(
            f"{lead} damaged ones in {str(folder)!r} "
            f"({type(error).__name__}: {reason(error)})."
        ) from error
    return render(page, explorer=EXPLORER if explorer else None)
