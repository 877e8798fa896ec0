"""The report of a run, made of what its folder holds: at the run's end, or again."""

from pathlib import Path
from typing import Any

from probmetric.report.evaluate import evaluate_page
from probmetric.report.fit import fit_page
from probmetric.report.page import render
from probmetric.report.run_folder import read_summary
from probmetric.report.sample import sample_page

__all__ = ["render_run"]

PAGES: dict[str, Any] = {
    "fit": fit_page,
    "sample": sample_page,
    "evaluate": evaluate_page,
}


def render_run(folder: "str | Path") -> str:
    """Return the report of a run's folder as one HTML page.

    Parameters
    ----------
    folder : str or Path
        What ``probmetric fit``, ``sample`` or ``evaluate`` wrote.

    Returns
    -------
    str
        The pictures that need the data are drawn where the data are still found,
        unchanged, where the summary says; the page says when they are not.

    Raises
    ------
    ValueError
        For a folder that is none of a run's, or files in it that are damaged.
    """
    folder = Path(folder)
    summary = read_summary(folder)
    command = summary.get("command")
    if command not in PAGES:
        raise ValueError(
            f"DIR: wanted a run of {', '.join(PAGES)}, got one of {command!r}"
        )
    try:
        page = PAGES[command](folder, summary)
    except KeyError as error:
        raise ValueError(
            f"DIR: wanted a whole summary in {str(folder)!r}, got one without {error}"
        ) from error
    return render(page)
