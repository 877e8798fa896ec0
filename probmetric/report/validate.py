"""The page of a validation: what was checked, and the study of a data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric.checks.check import COLUMNS
from probmetric.checks.compare import entry_table
from probmetric.checks.criticism import WORDS, Finding, ModelVerdict, Part
from probmetric.inference.sampling.diagnostics import KHAT_MAX, diagnose
from probmetric.plots.checks import agreement, model_check
from probmetric.registry import MODELS
from probmetric.report.page import (
    Banner,
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


def khat_words(judgement: Judgement) -> str:
    """Return what a k-hat of 0.7 or more leaves open, in a sentence."""
    khat = float(judgement.table["khat"].max())
    return (
        f"{judgement.table.attrs['check']}: k-hat {khat:.2g} is not below {KHAT_MAX}. "
        "The distances that were measured keep their bound; others need not: sample "
        "with method='nuts' where they matter."
    )


def _sampler_words(found: Sequence[Mapping[str, str]]) -> Banner:
    """Return the banner of what is wrong with the study's draws, by name."""
    if not found:
        sentence = (
            "Divergences, tree depth, E-BFMI, R-hat and effective sizes of bulk and "
            "tails were looked at: nothing was found."
        )
        return Banner("agree", "The draws of NUTS can be trusted", [sentence])
    names = ", ".join(dict.fromkeys(one["name"] for one in found))
    sentences = [f"{one['what']}: {one['advice']}." for one in found]
    headline = f"The draws of NUTS are not to be trusted yet: {names}"
    return Banner("inconclusive", headline, sentences)


def described(
    found: Validation, study: Study | None, fit: ModelVerdict | None = None
) -> dict[str, Any]:
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
        kept["diagnosed"] = [one._asdict() for one in diagnose(study.draws)]
    if fit is not None:
        kept["fit"] = [
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
    return kept


def agreement_table(found: Validation, fit: ModelVerdict | None) -> pd.DataFrame:
    """Return ``agreement.csv``: every entry of every check, then the model's parts.

    Of a part ``z`` is the statistic and ``error`` the size of the difference.
    """
    table = found.to_dataframe()
    if fit is None:
        return table
    rows = [
        {
            "model": found.name,
            "problem": found.judgements[0].problem,
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


def _fit(summary: Mapping[str, Any]) -> ModelVerdict | None:
    """Return the verdict on the model, from its folder."""
    if "fit" not in summary:
        return None
    parts: list[Part] = []
    for one in summary["fit"]:
        kept = dict(one)
        p, verdict, bins = (kept.pop(k) for k in ("p_holm", "verdict", "bins"))
        table = None if bins is None else pd.DataFrame(bins)
        parts.append(Part(Finding(**kept, bins=table), p, verdict))
    return ModelVerdict(summary["model"], tuple(parts))


def _fit_words(fit: ModelVerdict) -> Banner:
    """Return the banner of a verdict on the model: the worst part first."""
    word = fit.overall
    headline = {
        "adequate": "adequate: the model could have produced these data",
        "doubtful": "doubtful: the model fits these data in part",
        "conflict": "conflict: the model would not have produced these data",
    }[word]
    sentences = [
        f"{part.finding.part}, {part.verdict}: {part.finding.said}."
        + ("" if part.verdict == "adequate" else f" {part.finding.remedy}")
        for part in sorted(fit.parts, key=lambda p: -WORDS.index(p.verdict))
    ]
    return Banner(word, headline[0].upper() + headline[1:], sentences)


def _fit_section(fit: ModelVerdict) -> Section:
    """Show what the verdict on the model rests on."""
    shown = fit.to_dataframe().drop(columns=["said", "remedy"])
    return Section(
        "Does the model fit the data?",
        [
            "Closed form and sampling share the model and its prior, and may agree on "
            "the answer to a wrong question. A part is in conflict where the data are "
            "surprising (p below .01 after Holm) and the difference matters, doubtful "
            "where it does not matter, or p is only below .02."
        ],
        [
            Picture(
                model_check(fit),
                "Left: labels of the pairs of the fit by their distance under the fit, "
                "against the model's own P(same). Right: labels of held-out pairs "
                "against P(same) as shipped. Bands are simultaneous: they hold the "
                "whole curve with 95 % probability where the model is right.",
            )
        ],
        [Table(shown, "What was judged")],
    )


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
    study, cards = _study(folder, summary)
    sections = [_check_section(found), *study]
    fit, banners = _fit(summary), list[Banner]()
    if fit is not None:
        banners, sections = [_fit_words(fit)], [_fit_section(fit), *sections]
        explanation += " This judges the formulas; the next banner judges the model."
    if "diagnosed" in summary:
        banners.append(_sampler_words(summary["diagnosed"]))
    if counts.controls == 0:
        cards = [(f"{counts.agree} / {counts.exact}", "exact claims agree"), *cards]
    return Report(
        title=f"{found.name} validated on {summary['where']}",
        lead=summary["lead"],
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        sections=sections,
        provenance={
            "command": summary["asked"],
            "seed": str(summary["seed"]),
            **summary["versions"],
            "time of checks": f"{sum(j.seconds for j in found.judgements):.0f} s",
        },
        cards=cards,
        banners=banners,
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
        f", {counts.within + found.unreliable} of {counts.approximate} "
        "approximations keep their bound"
        if counts.approximate
        else ""
    )
    if found.unreliable:
        headline += f", {found.unreliable} of them inconclusive by k-hat"
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
    bounds = [j.table.attrs.get("bound", np.nan) for j in found.judgements]
    if not np.isnan(bounds).all():
        shown.insert(list(shown).index("largest error") + 1, "bound", bounds)
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
            "Exact claims must agree with the reference. Approximations are judged by "
            "a bound instead, shown beside their largest error (in posterior sd where "
            "draws were compared).",
            *_khat_sentences(found),
        ],
        pictures,
        [
            Table(shown, "Every check, by claim"),
            Table(
                _entries(found),
                "Every entry of every check. The error of values is relative, or "
                "absolute beside an absolute tolerance; of an approximation's mean it "
                "is in posterior sd, of its sd the log of their ratio.",
                folded=True,
            ),
        ],
    )


def _khat_sentences(found: Validation) -> list[str]:
    """Say what each k-hat leaves open, and why it alone does not count."""
    doubted = [khat_words(j) for j in found.judgements if j.unreliable]
    if not doubted:
        return []
    return [
        "A k-hat alone does not count: the approximation was held against draws that "
        "do not depend on it.",
        *doubted,
    ]


def _entries(found: Validation, limit: int = 400) -> pd.DataFrame:
    """Return the entries behind the checks, the worst first where they are many."""
    whole = found.to_dataframe().drop(columns=["model", "layer"])
    if not found.broken:
        whole = whole.drop(columns="control")
    if len(whole) <= limit:
        return whole
    size = whole[["z", "error"]].abs().fillna(0).sum(axis=1).to_numpy()
    return whole.iloc[np.argsort(-size, kind="stable")[:limit]]
