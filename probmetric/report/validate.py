"""The page of a validation: the checks, and the verdict about the model."""

from pathlib import Path

import numpy as np
import pandas as pd

from probmetric.checks.check import COLUMNS
from probmetric.checks.compare import entry_table
from probmetric.checks.criticism import ModelVerdict
from probmetric.checks.validation import Judgement, Validation
from probmetric.inference.sampling.diagnostics import KHAT_MAX
from probmetric.plots.checks import agreement
from probmetric.report.model_fit import (
    fit_banner,
    fit_section,
    parts_of,
    verdict_in,
)
from probmetric.report.page import (
    Banner,
    Picture,
    Report,
    Section,
    Summary,
    Table,
    read_table,
)

TABLE = "agreement.csv"
AGREEMENT = (
    "Left: difference between estimate and reference, in Monte Carlo errors. The "
    "difference is inside the band if estimate and reference agree. Right: the "
    "smallest shift that this run could detect."
)
ENTRIES = (
    "Every entry of every check. Errors of values are relative, or absolute if the "
    "tolerance is absolute. Errors of an approximate mean are in posterior sd. Errors "
    "of an approximate sd are log ratios."
)


def khat_words(judgement: Judgement) -> str:
    """Explain a k-hat of 0.7 or more, in a sentence."""
    khat = float(judgement.table["khat"].max())
    return (
        f"{judgement.table.attrs['check']}: k-hat {khat:.2g} is not below {KHAT_MAX}. "
        "The measured distances are within their bound, but other quantities may not "
        "be. If you need other quantities, sample with method='nuts'."
    )


def described(result: Validation, fit: ModelVerdict | None = None) -> dict[str, object]:
    """Describe a validation for summary.json, without the tables."""
    checks = [
        {
            "problem": judgement.problem,
            "entries": judgement.table.sizes["entry"],
            "seconds": judgement.seconds,
            **judgement.table.attrs,
        }
        for judgement in result.judgements
    ]
    content: dict[str, object] = {"broken": result.broken, "checks": checks}
    if fit is not None:
        content["fit"] = parts_of(fit)
    return content


def agreement_table(result: Validation, fit: ModelVerdict | None) -> pd.DataFrame:
    """Make the table ``agreement.csv``: entries of all checks, then of the model."""
    table = result.to_dataframe()
    if fit is None:
        return table
    rows = [
        {
            "model": result.name,
            "problem": result.judgements[0].problem,
            "check": "the model fits the data",
            "kind": "model",
            "layer": "data",
            "control": "",
            "entry": part.finding.part,
            "error": part.finding.size,
            "z": part.finding.statistic,
            "verdict": part.verdict,
        }
        for part in fit.parts
    ]
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


def _validation(folder: Path, summary: Summary) -> Validation:
    whole = read_table(folder, TABLE, dtype=str, keep_default_na=False)
    name, judged, begin = summary["model"], list[Judgement](), 0
    for check in summary["checks"]:
        attrs = dict(check)
        problem, n, seconds = (attrs.pop(k) for k in ("problem", "entries", "seconds"))
        rows = whole.iloc[begin : begin + n]
        begin += n
        # Python's float restores exactly the numbers that were written.
        columns = {k: [float(v or "nan") for v in rows[k]] for k in COLUMNS}
        columns["verdict"] = list(rows["verdict"])
        table = entry_table(columns, list(rows["entry"]), attrs)
        judged.append(Judgement(name, problem, table, seconds))
    return Validation(name, tuple(judged), summary["broken"])


def validate_page(folder: Path, summary: Summary, data: object = None) -> Report:
    """Make the page of a validation's folder."""
    result = _validation(folder, summary)
    verdict, headline, explanation = _verdict_words(result)
    counts = result.counts
    sections, cards = [_check_section(result)], list[tuple[str, str]]()
    fit, banners = verdict_in(summary), list[Banner]()
    if fit is not None:
        banners, sections = [fit_banner(fit)], [fit_section(fit), *sections]
        explanation += (
            " This verdict is about the formulas. The next verdict is about the model."
        )
    if counts.controls == 0:
        cards = [(f"{counts.agree} / {counts.exact}", "exact claims agree")]
    seconds = sum(judgement.seconds for judgement in result.judgements)
    return Report(
        title=f"{result.name} validated on {summary['where']}",
        lead=summary["lead"],
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        sections=sections,
        provenance={
            "command": summary["asked"],
            "seed": str(summary["seed"]),
            **summary["versions"],
            "time of checks": f"{seconds:.0f} s",
        },
        cards=cards,
        banners=banners,
    )


def _verdict_words(result: Validation) -> tuple[str, str, str]:
    counts = result.counts
    if result.broken:
        verdict = "agree" if result.verdict == "rejected" else "disagree"
        headline = f"{counts.rejected} of {counts.controls} wrong claims were rejected"
        return (
            verdict,
            headline,
            "In negative controls, wrong formulas replace the correct ones.",
        )
    headline = f"{counts.agree} of {counts.exact} exact claims agree"
    if counts.approximate:
        within = counts.within + result.unreliable
        headline += f", {within} of {counts.approximate} approximations are within "
        headline += "their bound"
    if result.unreliable:
        headline += f", {result.unreliable} of them inconclusive by k-hat"
    text = (
        "Each exact claim was compared with an independent reference: quadrature, "
        "automatic derivatives of the NumPyro model, or sampling. If a run is too "
        "short to detect a relevant difference, the verdict is inconclusive. An "
        "inconclusive check does not pass."
    )
    if result.unreliable:
        text += " Approximations that are inconclusive only by k-hat are ignored."
    return result.verdict, headline, text


def _check_section(result: Validation) -> Section:
    shown = (
        result.summary()
        .rename(columns={"largest_error": "largest error", "largest_z": "largest |z|"})
        .drop(columns=["model"] if result.broken else ["model", "control"])
        .round({"seconds": 1})
    )
    bounds = [j.table.attrs.get("bound", np.nan) for j in result.judgements]
    if not np.isnan(bounds).all():
        shown.insert(list(shown).index("largest error") + 1, "bound", bounds)
    pictures: list[Picture] = []
    for judgement in result.judgements:
        table = judgement.table
        # Tables of compare have these limits of z.
        compared = {"z_crit", "tol", "alpha"} <= table.attrs.keys()
        if compared and table.attrs["kind"] == "exact" and not table.attrs["control"]:
            title = f"{table.attrs['check']} ({judgement.problem})"
            pictures.append(Picture(agreement(table, title=title), AGREEMENT))
    by_khat = [khat_words(j) for j in result.judgements if j.unreliable]
    if by_khat:
        reason = "the reference draws do not depend on the approximation."
        by_khat = [f"A high k-hat does not change the verdict: {reason}", *by_khat]
    return Section(
        "Closed forms against independent references",
        "Exact claims must agree with the reference. Approximations have a bound, "
        "shown beside their largest error (in posterior sd for comparisons of draws).",
        *by_khat,
        *pictures,
        Table(shown, "Every check, by claim"),
        Table(_entries(result), ENTRIES, folded=True),
    )


def _entries(result: Validation, limit: int = 400) -> pd.DataFrame:
    whole = result.to_dataframe().drop(columns=["model", "layer"])
    if not result.broken:
        whole = whole.drop(columns="control")
    if len(whole) <= limit:
        return whole
    size = whole[["z", "error"]].abs().fillna(0).sum(axis=1).to_numpy()
    return whole.iloc[np.argsort(-size, kind="stable")[:limit]]
