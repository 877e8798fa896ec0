"""One self-contained HTML page: the verdict on top, then the sections.

``render`` knows nothing of models: it turns sections of text, figures and tables into a
page that needs no other file and no network. ``page``, ``data_again`` and
``settings_section`` are the parts that the reports of all runs share: banner, data
loaded again, provenance.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import pyplot as plt
from matplotlib import rc_context
from matplotlib.figure import Figure

from probmetric.data.containers import Labelled
from probmetric.data.hash import data_hash
from probmetric.datasets import loading as datasets
from probmetric.datasets.loading import Dataset
from probmetric.datasets.rows import last_column, open_rows, sample_of
from probmetric.files import readable
from probmetric.names import Reading
from probmetric.plots.style import words
from probmetric.registry import MODELS

TAGS = {"agree", "disagree", "inconclusive", "within", "outside", "rejected", "missed"}
TAGS |= {"adequate", "doubtful", "conflict"}
DPI = 160
MOST_SVG = 1_000_000
"""Bytes of a drawing beyond which a picture of its pixels is stored instead."""

RANKS = (
    "Rank plots: how far each chain's ranks are from uniform, near 0 where chains "
    "agree. A p or a band takes draws for independent, so that correlated chains that "
    "agree may be marked, and of two or three chains p is near 1 in any case: R-hat "
    "and the effective sizes decide."
)
"""The caption of rank plots."""


class Picture(NamedTuple):
    """A figure and its caption."""

    figure: Figure
    caption: str


class Table(NamedTuple):
    """A table and what it says; a folded one is opened by a click."""

    frame: pd.DataFrame
    caption: str
    folded: bool = False


class Section(NamedTuple):
    """One question: paragraphs, then figures, then tables."""

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


class Banner(NamedTuple):
    """A verdict: its word, which is its colour, a headline, and sentences."""

    verdict: str
    headline: str
    sentences: Sequence[str]


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
    banners : sequence of Banner
        Further verdicts, below the first.
    """

    title: str
    lead: str
    verdict: str
    headline: str
    explanation: str
    sections: Sequence[Section]
    provenance: Mapping[str, str]
    cards: Sequence[tuple[str, str]] = ()
    banners: Sequence[Banner] = ()


class _Image(NamedTuple):
    """A picture in the page: its address, width in CSS pixels, and words for it."""

    source: str
    width: int
    alt: str


def _image(figure: Figure) -> _Image:
    """Return a figure as it stands in the page, and let go of it.

    Drawn as lines (SVG), which are sharp at every size, or as pixels (PNG) where there
    are very many of them. The same figure is the same text.
    """
    size, kind = figure.get_size_inches(), "svg+xml"
    with rc_context({"svg.hashsalt": "probmetric", "svg.fonttype": "path"}):
        drawn = _saved(figure, format="svg", metadata={"Date": None})
    if len(drawn) > MOST_SVG:
        drawn, kind = _saved(figure, format="png", dpi=DPI), "png"
    plt.close(figure)
    source = f"data:image/{kind};base64,{base64.b64encode(drawn).decode()}"
    return _Image(source, round(float(size[0]) * 96), words(figure))


def _saved(figure: Figure, **how: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **how)
    return buffer.getvalue()


def _cell(value: object) -> tuple[str, bool, str]:
    """Return a cell's text, whether it is a number, and the tag it is shown as."""
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), False, ""
    if isinstance(value, int | np.integer):
        return f"{value:,}", True, ""
    if isinstance(value, float | np.floating):
        return ("–" if np.isnan(value) else f"{value:.4g}"), True, ""
    text = str(value)
    return text, False, text if text in TAGS else ""


def _cells(frame: pd.DataFrame) -> tuple[list[Any], list[Any]]:
    """Return columns, with whether they are numbers, and rows of cells."""
    rows = [[_cell(v) for v in row] for row in frame.itertuples(index=False)]
    d = frame.shape[1]
    numeric = [bool(rows) and all(row[k][1] for row in rows) for k in range(d)]
    return list(zip(map(str, frame.columns), numeric, strict=True)), rows


def render(report: Report, *, explorer: str | None = None) -> str:
    """Return a report as one HTML page that needs no other file.

    Parameters
    ----------
    report : Report
    explorer : str, optional
        A page beside it to lead to.

    Returns
    -------
    str
        HTML, with every figure inline and every text escaped.
    """
    environment = Environment(
        loader=PackageLoader("probmetric.report"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    filters: Any = {"image": _image, "cells": _cells}
    environment.filters.update(filters)
    template = environment.get_template("report.html.j2")
    return template.render(report=report, explorer=explorer)


AT_HAND = "data at hand"
"""Entry of a summary that is in no file: the run's data, which are not loaded again."""


def data_again(summary: Mapping[str, Any]) -> tuple[Dataset | None, str]:
    """Load a run's data, unless they are at hand, or say in words why not.

    Data of OpenML are not fetched again: a page needs no network.
    """
    if summary.get(AT_HAND) is not None:
        return summary[AT_HAND], ""
    said = summary["data"]
    lead = "Figures of the data are left out: "
    if str(said["source"]).startswith("openml:"):
        return None, f"{lead}{said['source']} is not fetched again."
    if "answers" in said:
        return None, f"{lead}they are of classes, and answers were learned from."
    try:
        data = _rows_again(said) if "sampled" in said else _loaded_again(said)
    except ValueError as error:
        return None, f"{lead}{error}"
    if data_hash(Labelled(data.X, data.y)) != said["hash"]:
        return None, f"{lead}{said['source']} holds other data than the run had."
    return data, ""


def _loaded_again(said: Mapping[str, Any]) -> Dataset:
    return datasets.load(
        said["source"],
        label=said["label"],
        groups=said.get("groups"),
        **Reading(**said.get("reading", {})).of_load(said["source"]),
    )


def _rows_again(said: Mapping[str, Any]) -> Dataset:
    """Return the sample of a source that a run looked at."""
    how, drawn = Reading(**said["reading"]), said["sampled"]
    if not said["classes"]:
        raise ValueError("the rows have no labels.")
    label = said["label"] or last_column(said["source"], how)
    source = open_rows(said["source"], label, how)
    return sample_of(source, said["source"], drawn["most"])


def read_table(folder: Path, name: str, **options: Any) -> pd.DataFrame:
    """Read a CSV table of a run's folder.

    Raises
    ------
    ValueError
        For a file that is missing or damaged.
    """
    with readable(f"DIR: expected a readable {name} in {str(folder)!r}"):
        # Opened here: of a folder named ~, pandas would read the user's own.
        with (folder / name).open(encoding="utf-8", newline="") as file:
            return pd.read_csv(file, **options)


def page(
    summary: Mapping[str, Any],
    *,
    title: str,
    headline: str,
    explanation: str,
    sections: list[Section],
    cards: list[tuple[str, str]],
    lead: str | None = None,
    doubted: bool = False,
) -> Report:
    """Return a run's page; its banner turns from blue to amber by a note, or a doubt.

    The lead is by default what the registry says of the learner.
    """
    if lead is None:
        known = MODELS.get(summary["model"])
        lead = str(summary["estimator"]) if known is None else known.summary
    notes = [str(note) for note in summary.get("notes", [])]
    if notes:
        sections = [Section("What the run said", notes), *sections]
    data, answers = summary["data"], summary["data"].get("answers")
    return Report(
        title=title,
        lead=lead,
        verdict="inconclusive" if notes or doubted else "done",
        headline=headline,
        explanation=explanation,
        sections=sections,
        provenance={
            "command": summary.get("asked", f"probmetric {summary['command']}"),
            "data": str(data["source"]),
            **({"answers": str(answers["source"])} if answers else {}),
            "data hash (SHA-256)": str(data["hash"]),
            "seed": str(summary["seed"]),
            **{name: str(v) for name, v in summary["versions"].items()},
        },
        cards=[*_sizes(data), *cards],
    )


def _sizes(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how much was learned from: points, classes, sources or answers."""
    answers, groups = data.get("answers"), data.get("groups")
    if answers is None:
        alone = groups is not None and data["label"] in (None, groups)
        last = str(len(data["classes"])), "sources" if alone else "classes"
    else:
        last = f"{answers['n']:,}", str(answers["kind"])
    return [(f"{data['n']:,} × {len(data['features'])}", "points × features"), last]


def settings_section(summary: Mapping[str, Any]) -> Section:
    """Return the learner's arguments and the classes, folded."""
    arguments = pd.DataFrame(
        summary["arguments"].items(), columns=["argument", "value"]
    )
    classes = pd.DataFrame(
        summary["data"]["classes"].items(), columns=["class", "points"]
    )
    return Section(
        "What it was learned from, and how",
        [],
        [],
        [
            *(
                [Table(classes, "Points of each class", folded=len(classes) > 12)]
                if len(classes)
                else []
            ),
            Table(arguments, f"Arguments of {summary['estimator']}", folded=True),
        ],
    )
