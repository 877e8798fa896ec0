"""What the reports of all runs share: the banner, the data again, provenance."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from probmetric.data.containers import Labelled
from probmetric.datasets import loading as datasets
from probmetric.datasets.loading import Dataset
from probmetric.inference.sampling.datatree import data_hash
from probmetric.report.page import Report, Section, Table

__all__ = ["data_again", "page", "settings_section"]


def data_again(summary: Mapping[str, Any]) -> tuple[Dataset | None, str]:
    """Load a run's data where they still are, or say in words why not."""
    said = summary["data"]
    lead = "Pictures of the data are left out: "
    try:
        data = datasets.load(
            said["source"], label=said["label"], groups=said.get("groups")
        )
    except ValueError as error:
        return None, f"{lead}{error}"
    if data_hash(Labelled(data.X, data.y)) != said["hash"]:
        return None, f"{lead}{said['source']} holds other data than the run had."
    return data, ""


def page(
    summary: Mapping[str, Any],
    *,
    title: str,
    lead: str,
    headline: str,
    explanation: str,
    sections: list[Section],
    cards: list[tuple[str, str]],
) -> Report:
    """Return a run's page; a note of the run turns its banner from blue to amber."""
    notes = [str(note) for note in summary.get("notes", [])]
    if notes:
        sections = [Section("What the run said", notes), *sections]
    data = summary["data"]
    return Report(
        title=title,
        lead=lead,
        verdict="inconclusive" if notes else "done",
        headline=headline,
        explanation=explanation,
        sections=sections,
        provenance={
            "command": f"probmetric {summary['command']}",
            "data": str(data["source"]),
            "data hash (SHA-256)": str(data["hash"]),
            "seed": str(summary["seed"]),
            **{name: str(v) for name, v in summary["versions"].items()},
        },
        cards=[
            (f"{data['n']:,} × {len(data['features'])}", "points × features"),
            (str(len(data["classes"])), "classes"),
            *cards,
        ],
    )


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
            Table(classes, "Points of each class", folded=len(classes) > 12),
            Table(arguments, f"Arguments of {summary['estimator']}", folded=True),
        ],
    )
