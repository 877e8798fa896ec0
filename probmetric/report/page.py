"""One self-contained HTML page: the verdict, then the sections.

``render`` converts sections of text, figures and tables to a page without other files
or network. All commands use ``page``, ``data_again`` and ``settings_section``.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from matplotlib import pyplot as plt
from matplotlib import rc_context
from matplotlib.figure import Figure

from probmetric.data.containers import Labeled
from probmetric.data.hash import data_hash
from probmetric.datasets import loading as datasets
from probmetric.datasets.loading import Dataset
from probmetric.files import readable
from probmetric.large.rows import last_column, open_rows, sample_of
from probmetric.names import Reading
from probmetric.plots.style import words
from probmetric.registry import MODELS

TAGS = {"agree", "disagree", "inconclusive", "within", "outside", "rejected", "missed"}
TAGS |= {"adequate", "doubtful", "conflict"}
DPI = 160
MOST_CLASSES = 100
"""Number of classes above which only the frequencies of class sizes are shown."""
MOST_SVG = 1_000_000
"""Size of an SVG figure in bytes above which PNG is stored instead."""

RANKS = (
    "Rank plots show the difference between each chain's ranks and uniform ranks. If "
    "the chains agree, the difference is near 0. The p-values and bands assume "
    "independent draws, so autocorrelated chains that agree may be marked. With two or "
    "three chains, p is always near 1. Use R-hat and effective sample sizes to decide."
)
"""Caption of rank plots."""

type Summary = Mapping[str, Any]
"""Content of summary.json."""

type Cards = list[tuple[str, str]]
"""Numbers at the top of the page, and the names of the numbers."""


class Picture(NamedTuple):
    """A figure and its caption."""

    figure: Figure
    caption: str


class Table(NamedTuple):
    """A table and its caption. A folded table is shown after a click."""

    frame: pd.DataFrame
    caption: str
    folded: bool = False


class Section:
    """A title with sentences, figures and tables. Empty parts are omitted."""

    def __init__(self, title: str, *parts: str | Picture | Table | None) -> None:
        self.title = title
        self.text = [part for part in parts if isinstance(part, str) and part]
        self.pictures = [part for part in parts if isinstance(part, Picture)]
        self.tables = [part for part in parts if isinstance(part, Table)]

    def __bool__(self) -> bool:
        return bool(self.text or self.pictures or self.tables)


class Banner(NamedTuple):
    """A verdict (a word that sets the color), a headline, and sentences."""

    verdict: str
    headline: str
    sentences: Sequence[str]


class Report(NamedTuple):
    """A page. ``verdict`` colors the first banner, and ``banners`` are shown below."""

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
    source: str
    width: int
    alt: str


def _image(figure: Figure) -> _Image:
    """Draw a figure as SVG (PNG if large), reproducibly, and close it."""
    size, kind = figure.get_size_inches(), "svg+xml"
    with rc_context({"svg.hashsalt": "probmetric", "svg.fonttype": "path"}):
        drawn = _saved(figure, format="svg", metadata={"Date": None})
    if len(drawn) > MOST_SVG:
        drawn, kind = _saved(figure, format="png", dpi=DPI), "png"
    plt.close(figure)
    source = f"data:image/{kind};base64,{base64.b64encode(drawn).decode()}"
    return _Image(source, round(float(size[0]) * 96), words(figure))


def _saved(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


class _Cell(NamedTuple):
    text: str
    number: bool
    tag: str = ""


def _cell(value: object) -> _Cell:
    if isinstance(value, bool | np.bool_):
        return _Cell("yes" if value else "no", False)
    if isinstance(value, int | np.integer):
        return _Cell(f"{value:,}", True)
    if isinstance(value, float | np.floating):
        return _Cell("–" if np.isnan(value) else f"{value:.4g}", True)
    text = str(value)
    return _Cell(text, False, text if text in TAGS else "")


def _cells(frame: pd.DataFrame) -> tuple[list[tuple[str, bool]], list[list[_Cell]]]:
    rows = [[_cell(v) for v in row] for row in frame.itertuples(index=False)]
    d = frame.shape[1]
    numeric = [bool(rows) and all(row[k].number for row in rows) for k in range(d)]
    return list(zip(map(str, frame.columns), numeric, strict=True)), rows


def template(name: str, **filters: Callable[..., object]) -> Template:
    """Load a template of this package, with autoescape."""
    environment = Environment(
        loader=PackageLoader("probmetric.report"),
        autoescape=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= filters
    return environment.get_template(name)


def render(report: Report, *, explorer: str | None = None) -> str:
    """Render a report as one HTML page, with a link to ``explorer`` if it is set."""
    report = report._replace(sections=[s for s in report.sections if s])
    html = template("report.html.j2", image=_image, cells=_cells)
    return html.render(report=report, explorer=explorer)


def data_again(summary: Summary, data: Dataset | None) -> tuple[Dataset | None, str]:
    """Load the data of a run again (never from OpenML), or explain why not."""
    if data is not None:
        return data, ""
    about, lead = summary["data"], "Figures of the data are left out: "
    source = str(about["source"])
    if source.startswith("openml:"):
        return None, f"{lead}{source} is not downloaded again."
    if "sites" in about:
        return None, ""
    if "answers" in about:
        return None, f"{lead}they require classes, but the fit used judgments."
    try:
        # An earlier version also stored other options.
        stored: Mapping[str, Any] = about.get("reading", {})
        reading = Reading(**{k: v for k, v in stored.items() if k in Reading._fields})
        if "sampled" in about:
            data = _rows_again(about, reading)
        else:
            label, groups = about["label"], about.get("groups")
            data = datasets.load(
                source, label=label, groups=groups, **reading._asdict()
            )
    except ValueError as error:
        return None, f"{lead}{error}"
    if data_hash(Labeled(data.X, data.y)) != about["hash"]:
        return None, f"{lead}{source} has changed since the run."
    return data, ""


def _rows_again(about: Summary, reading: Reading) -> Dataset:
    if not about["classes"]:
        raise ValueError("the data must have labels for this report. Set --label.")
    label = about["label"] or last_column(about["source"], reading)
    source = open_rows(about["source"], label, reading)
    return sample_of(source, about["source"], about["sampled"]["most"])


def read_table(folder: Path, name: str, **options: Any) -> pd.DataFrame:
    """Read a CSV table of a run's folder. Raises ValueError if it cannot be read."""
    with readable(f"DIR must contain a readable {name}, got {str(folder)!r}"):
        # Opened here because pandas expands a folder that is named ~.
        with (folder / name).open(encoding="utf-8", newline="") as file:
            return pd.read_csv(file, **options)


def page(
    summary: Summary,
    *,
    title: str,
    headline: str,
    explanation: str,
    sections: Sequence[Section],
    cards: Cards,
    lead: str | None = None,
    doubted: bool = False,
) -> Report:
    """Assemble a run's page. With notes, or if ``doubted``, the banner is amber."""
    if lead is None:
        spec = MODELS.get(summary["model"])
        lead = str(summary["estimator"]) if spec is None else spec.summary
    notes = list(dict.fromkeys(map(str, summary.get("notes", []))))
    data, answers = summary["data"], summary["data"].get("answers")
    provenance = {
        "command": summary.get("asked", f"probmetric {summary['command']}"),
        "data": data["source"],
        "judgments": answers["source"] if answers else None,
        "species": data.get("sites", {}).get("species"),
        "data hash (SHA-256)": data["hash"],
        "seed": summary["seed"],
        **summary["versions"],
    }
    return Report(
        title=title,
        lead=lead,
        verdict="inconclusive" if notes or doubted else "done",
        headline=headline,
        explanation=explanation.rstrip() + " See the notes below." * bool(notes),
        sections=[Section("Notes of the run", *notes), *sections],
        provenance={k: str(v) for k, v in provenance.items() if v is not None},
        cards=[*_sizes(data), *cards],
    )


def _sizes(data: Summary) -> Cards:
    answers = data.get("answers")
    if (sites := data.get("sites")) is not None:
        size = f"{data['n']:,} × {len(data['features'])}"
        return [(size, "sites × columns"), (f"{sites['n_species']:,}", "species")]
    if answers is None:
        last = str(len(data["classes"])), "sources" if of_sources(data) else "classes"
    else:
        last = f"{answers['n']:,}", str(answers["kind"])
    if of_objects(data):
        return [(f"{data['n']:,}", "objects"), last]
    return [(f"{data['n']:,} × {len(data['features'])}", "points × features"), last]


def of_sources(data: Summary) -> bool:
    """Return whether the classes of the data are sources (groups of rows)."""
    groups = data.get("groups")
    return groups is not None and data["label"] in (None, groups)


def of_objects(data: Summary) -> bool:
    """Return whether the judgments are about objects without features."""
    answers = data.get("answers")
    return answers is not None and data["source"] == answers["source"]


def settings_section(summary: Summary) -> Section:
    """Make a section with the class sizes and the learner's arguments."""
    arguments = pd.DataFrame(
        summary["arguments"].items(), columns=["argument", "value"]
    )
    data = summary["data"]
    what = "source" if of_sources(data) else "class"
    classes = pd.DataFrame(data["classes"].items(), columns=[what, "points"])
    caption = f"Points of each {what}"
    if len(classes) > MOST_CLASSES:
        counts = classes["points"].value_counts().sort_index()
        classes = counts.rename("count").reset_index()
        caption = f"Count of every {what} size ({len(data['classes']):,} in all)"
    return Section(
        "Data and arguments",
        Table(classes, caption, folded=len(classes) > 12) if len(classes) else None,
        Table(arguments, f"Arguments of {summary['estimator']}", folded=True),
    )
