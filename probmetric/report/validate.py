"""The page of a validation: what was checked, and the study of a data set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric.checks.check import COLUMNS
from probmetric.checks.compare import entry_table
from probmetric.plots.checks import agreement
from probmetric.registry import MODELS
from probmetric.report.page import (
    Picture,
    Report,
    Section,
    Table,
    data_again,
    read_table,
)
from probmetric.report.study import Study
from probmetric.storage.draws_file import load_draws
from probmetric.validation import Judgement, Validation

TABLE = "agreement.csv"


def described(found: Validation, study: Study | None) -> dict[str, Any]:
    """Return what a validation's folder says of it beside its tables, for JSON."""
    checks = [
        {
            "problem": one.problem,
            "entries": one.table.sizes["entry"],
            "seconds": one.seconds,
            **one.table.attrs,
        }
        for one in found.judgements
    ]
    kept: dict[str, Any] = {"broken": found.broken, "checks": checks}
    if study is not None:
        tables = {k: t.to_dict("records") for k, t in study.tables.items()}
        kept["study"] = {"tables": tables, "cards": study.cards}
    return kept


def _validation(folder: Path, summary: Mapping[str, Any]) -> Validation:
    """Return what a validation found, from its folder."""
    whole = read_table(folder, TABLE, dtype=str, keep_default_na=False)
    name, judged, begin = summary["model"], list[Judgement](), 0
    for one in summary["checks"]:
        attrs = dict(one)
        problem, n, seconds = (attrs.pop(k) for k in ("problem", "entries", "seconds"))
        rows = whole.iloc[begin : begin + n]
        begin += n
        # Numbers as Python reads them: exactly those that were written.
        columns = {k: [float(v or "nan") for v in rows[k]] for k in COLUMNS}
        columns["verdict"] = list(rows["verdict"])
        table = entry_table(columns, list(rows["entry"]), attrs)
        judged.append(Judgement(name, problem, table, seconds))
    return Validation(name, tuple(judged), summary["broken"])


def _study(
    folder: Path, summary: Mapping[str, Any]
) -> tuple[list[Section], list[tuple[str, str]]]:
    """Return the sections and cards of a run's study, none where it made none."""
    if "study" not in summary:
        return [], []
    kept = summary["study"]
    tables = {
        name: pd.DataFrame(rows).fillna(np.nan) for name, rows in kept["tables"].items()
    }
    cards = [(figure, name) for figure, name in kept["cards"]]
    study = Study(load_draws(folder / "draws.nc"), tables, cards)
    data, lacking = data_again(summary)
    if data is None:
        shown = [Table(table, name) for name, table in tables.items()]
        return [Section("The study", [lacking], [], shown)], cards
    sections: Any = MODELS[summary["model"]].study_sections
    return sections(study, data, seed=summary["seed"]), cards


def validate_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of a validation's folder."""
    found = _validation(folder, summary)
    verdict, headline, explanation = _verdict_words(found)
    counts = found.counts
    sections, cards = _study(folder, summary)
    if counts.controls == 0:
        cards = [(f"{counts.agree} / {counts.exact}", "exact claims agree"), *cards]
    return Report(
        title=f"{found.name} on {summary['where']}",
        lead=summary["lead"],
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        sections=[_check_section(found), *sections],
        provenance={
            "command": summary["asked"],
            "seed": str(summary["seed"]),
            **summary["versions"],
            "time of checks": f"{sum(j.seconds for j in found.judgements):.0f} s",
        },
        cards=cards,
    )


def _verdict_words(found: Validation) -> tuple[str, str, str]:
    """Return the banner's colour, headline and explanation."""
    counts = found.counts
    if found.broken:
        good = found.verdict == "rejected"
        headline = f"{counts.rejected} of {counts.controls} wrong claims were rejected"
        text = "Negative controls: wrong formulas in place of the right ones."
        return ("agree" if good else "disagree"), headline, text
    headline = f"{counts.agree} of {counts.exact} exact claims agree" + (
        f", {counts.within} of {counts.approximate} approximations keep their bound"
        if counts.approximate
        else ""
    )
    text = (
        "Each exact claim was compared with an independent reference: quadrature, "
        "automatic derivatives of the NumPyro model, or sampling. A run too weak to "
        "find a difference worth finding is inconclusive, and never passes."
    )
    return found.verdict, headline, text


def _check_section(found: Validation) -> Section:
    """Tell what was checked, with the z of everything that was compared by draws."""
    shown = (
        found.summary()
        .rename(columns={"largest_error": "largest error", "largest_z": "largest |z|"})
        .drop(columns=["model"] if found.broken else ["model", "control"])
        .round({"seconds": 1})
    )
    pictures: list[Picture] = []
    for judgement in found.judgements:
        table = judgement.table
        # Only compare's own tables state the limits that z was judged by.
        compared = {"z_crit", "tol", "alpha"} <= table.attrs.keys()
        if compared and table.attrs["kind"] == "exact" and not table.attrs["control"]:
            title = f"{table.attrs['check']} ({judgement.problem})"
            caption = (
                "Left: difference in Monte Carlo errors, inside the band where the two "
                "agree. Right: the shift this run would have found."
            )
            pictures.append(Picture(agreement(table, title=title), caption))
    return Section(
        "Closed forms against independent references",
        [
            "Exact claims must agree. What is an approximation is never called "
            "agreement: its distance from the reference is stated with the bound that "
            "it keeps."
        ],
        pictures,
        [
            Table(shown, "Every check, by claim"),
            Table(_entries(found), "Every entry of every check", folded=True),
        ],
    )


def _entries(found: Validation, limit: int = 400) -> pd.DataFrame:
    """Return the entries behind the checks, the worst first where they are many."""
    whole = found.to_dataframe().drop(columns=["model", "layer"])
    if not found.broken:
        whole = whole.drop(columns="control")
    if len(whole) <= limit:
        return whole
    size = whole[["z", "error"]].abs().fillna(0).sum(axis=1).to_numpy()
    return whole.iloc[np.argsort(-size, kind="stable")[:limit]]
