"""The page of a validation: what was checked, and the study of a data set."""

from typing import Any

import numpy as np
import pandas as pd

from probmetric.plots.checks import agreement
from probmetric.provenance import versions
from probmetric.report.page import Picture, Report, Section, Table
from probmetric.validation import Validation

__all__ = ["validate_page"]


def validate_page(
    found: Validation, study: Any, *, title: str, lead: str, seed: int, command: str
) -> Report:
    """Return the page of a validation.

    Parameters
    ----------
    found : Validation
    study : Study or None
        Its sections and cards are added.
    title, lead : str
        The model and the data that it was checked on; what the model is.
    seed : int
    command : str
        What was asked for, in the shell's words.
    """
    verdict, headline, explanation = _verdict_words(found)
    counts = found.counts
    cards = [] if study is None else list(study.cards)
    if counts.controls == 0:
        cards = [(f"{counts.agree} / {counts.exact}", "exact claims agree"), *cards]
    return Report(
        title=title,
        lead=lead,
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        sections=[_check_section(found), *([] if study is None else study.sections)],
        provenance={
            "command": command,
            "seed": str(seed),
            **versions(),
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
    summary = found.summary()
    shown = summary.rename(
        columns={"largest_error": "largest error", "largest_z": "largest |z|"}
    )
    dropped = ["model", *([] if found.broken else ["control"])]
    pictures: list[Picture] = []
    for judgement in found.judgements:
        table = judgement.table
        # Only compare's own tables state the limits that z was judged by.
        compared = {"z_crit", "tol", "alpha"} <= table.attrs.keys()
        if compared and table.attrs["kind"] == "exact" and not table.attrs["control"]:
            figure = agreement(
                table, title=f"{table.attrs['check']} ({judgement.problem})"
            )
            pictures.append(
                Picture(
                    figure,
                    "Left: difference in Monte Carlo errors, inside the band where the "
                    "two agree. Right: the shift this run would have found.",
                )
            )
    return Section(
        "Closed forms against independent references",
        [
            "Exact claims must agree. What is an approximation is never called "
            "agreement: its distance from the reference is stated with the bound that "
            "it keeps."
        ],
        pictures,
        [
            Table(
                shown.drop(columns=dropped).round({"seconds": 1}),
                "Every check, by claim",
            ),
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
