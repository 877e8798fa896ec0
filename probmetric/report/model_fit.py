"""The verdict of ``check_model`` on the pages of ``validate`` and ``sample``."""

import pandas as pd

from probmetric.checks.criticism import WORDS, Finding, ModelVerdict, Part
from probmetric.plots.checks import model_check
from probmetric.registry import MODELS
from probmetric.report.page import Banner, Picture, Section, Summary, Table

HEADLINES = {
    "adequate": "Adequate: the model could have produced these data",
    "doubtful": "Doubtful: the model fits these data in part",
    "conflict": "Conflict: the model would not have produced these data",
}


def parts_of(fit: ModelVerdict) -> list[dict[str, object]]:
    """Describe a verdict for summary.json."""
    return [
        {
            **part.finding._asdict(),
            "bins": None
            if part.finding.bins is None
            else part.finding.bins.to_dict("records"),
            "p_holm": part.p_holm,
            "verdict": part.verdict,
        }
        for part in fit.parts
    ]


def verdict_in(summary: Summary) -> ModelVerdict | None:
    """Return the verdict in summary.json, or None if the model was not checked."""
    if "fit" not in summary:
        return None
    parts: list[Part] = []
    for entry in summary["fit"]:
        values = dict(entry)
        if "said" in values:  # The name in runs of 0.1 and 0.2.
            values["summary"] = values.pop("said")
        p, verdict, bins = (values.pop(k) for k in ("p_holm", "verdict", "bins"))
        table = None if bins is None else pd.DataFrame(bins)
        parts.append(Part(Finding(**values, bins=table), p, verdict))
    return ModelVerdict(summary["model"], tuple(parts))


def fit_banner(fit: ModelVerdict | None) -> Banner:
    """Make a banner with the verdict, and a sentence for each part, the worst first."""
    if fit is None:
        sentence = "Use check_model if it supports this learner, or use held-out data."
        return Banner(
            "inconclusive", "The fit of the model was not checked", [sentence]
        )
    sentences = [
        f"{part.finding.part}, {part.verdict}: {part.finding.summary}."
        + ("" if part.verdict == "adequate" else f" {part.finding.remedy}")
        for part in sorted(fit.parts, key=lambda p: -WORDS.index(p.verdict))
    ]
    return Banner(fit.overall, HEADLINES[fit.overall], sentences)


def not_checked(summary: Summary) -> str:
    """Name the command that checks the model of a run, if the model can be checked."""
    model, about = MODELS.get(summary["model"]), summary["data"]
    if model is None or model.criticism is None or "answers" in about:
        return ""
    return (
        "The fit of the model to the data was not checked. Use “probmetric validate "
        f"{summary['model']} --data {about['source']}”."
    )


def fit_section(fit: ModelVerdict) -> Section:
    """Make a section with the binned labels (for pairs) and the table of parts."""
    binned = any(part.finding.bins is not None for part in fit.parts)
    return Section(
        "Does the model fit the data?",
        "A fit and its draws can agree although the model is wrong, so the model is "
        "compared with the data. In the table, p_holm is the p-value adjusted by "
        "Holm's method, size is the deviation from the model (for prior: the "
        "sensitivity of the result to the prior), and matters is the smallest size "
        "that counts. A part is adequate if p_holm ≥ 0.02. It is a conflict if "
        "p_holm < 0.01 and size ≥ matters. Otherwise it is doubtful.",
        Picture(
            model_check(fit),
            "Predictive: labels of the fitted pairs by fitted distance. Calibration: "
            "labels of held-out pairs by P(same) of the model. If the model is right, "
            "all dots of a panel are inside its band with 95% probability.",
        )
        if binned
        else None,
        Table(
            fit.to_dataframe().drop(columns=["summary", "remedy"]), "Parts of the check"
        ),
    )
