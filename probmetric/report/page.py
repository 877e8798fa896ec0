"""One self-contained HTML page: the verdict on top, then what stands behind it.

``render`` knows nothing of models: it turns sections of text, pictures and tables
into a page that needs no other file and no network.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

__all__ = ["Picture", "Report", "Section", "Table", "render", "versions"]

TAGS = {"agree", "disagree", "inconclusive", "within", "outside", "rejected", "missed"}
DPI = 160


class Picture(NamedTuple):
    """A figure and what is seen in it."""

    figure: Figure
    caption: str


class Table(NamedTuple):
    """A table and what it says; a folded one is opened by a click."""

    frame: pd.DataFrame
    caption: str
    folded: bool = False


class Section(NamedTuple):
    """One question: paragraphs, then pictures, then tables."""

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


class Report(NamedTuple):
    """A page.

    Attributes
    ----------
    title, lead : str
        What it is about, in a line and in a sentence.
    verdict : {"agree", "disagree", "inconclusive", "done"}
        Colours the banner; "done" where nothing was judged.
    headline, explanation : str
        The verdict in words, and what it rests on.
    cards : sequence of (str, str)
        Figures to see at a glance, with their names.
    sections : sequence of Section
    provenance : mapping of str to str
    """

    title: str
    lead: str
    verdict: str
    headline: str
    explanation: str
    sections: Sequence[Section]
    provenance: Mapping[str, str]
    cards: Sequence[tuple[str, str]] = ()


def _png(picture: Picture) -> tuple[str, str, int]:
    """Return a picture as base64, its caption, and its width in CSS pixels."""
    buffer = io.BytesIO()
    picture.figure.savefig(buffer, format="png", dpi=DPI)
    width = round(float(picture.figure.get_size_inches()[0]) * 96)
    return base64.b64encode(buffer.getvalue()).decode(), picture.caption, width


def _cell(value: Any) -> tuple[str, bool, str]:
    """Return a cell's text, whether it is a number, and the tag it is shown as."""
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), False, ""
    if isinstance(value, int | np.integer):
        return f"{value:,}", True, ""
    if isinstance(value, float | np.floating):
        return ("–" if np.isnan(value) else f"{value:.4g}"), True, ""
    text = str(value)
    return text, False, text if text in TAGS else ""


def _rows(table: Table) -> dict[str, Any]:
    """Return a table as the template wants it."""
    rows = [[_cell(v) for v in row] for row in table.frame.itertuples(index=False)]
    numeric = [
        bool(rows) and all(row[k][1] for row in rows)
        for k in range(table.frame.shape[1])
    ]
    return {
        "caption": table.caption,
        "folded": table.folded,
        "columns": list(zip(map(str, table.frame.columns), numeric, strict=True)),
        "rows": rows,
    }


def render(report: Report) -> str:
    """Return a report as one HTML page that needs no other file.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str
        HTML, with every picture inline and every text escaped.
    """
    environment = Environment(
        loader=PackageLoader("probmetric"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    sections = [
        {
            "title": section.title,
            "text": section.text,
            "pictures": [_png(picture) for picture in section.pictures],
            "tables": [_rows(table) for table in section.tables],
        }
        for section in report.sections
    ]
    template = environment.get_template("report.html.j2")
    return template.render(report={**report._asdict(), "sections": sections})


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    names = ("probmetric", "jax", "numpyro", "arviz", "scikit-learn", "numpy")
    return {name: version(name) for name in names}
