"""The page of an evaluation: the table of scores, and calibration of probabilities.

Of neighbours that voted on points held out, of answers that were held out, or of pairs
of rows, of one source or of two: with intervals, and errors at every threshold.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric import plots
from probmetric.report.page import Picture, Report, Section, Table, page, read_table

WORDS = {
    "accuracy": "accuracy ↑",
    "log_loss": "log loss ↓",
    "brier": "Brier score ↓",
    "ece": "calibration error ↓",
    "precision_at_1": "nearest is of its class ↑",
    "r_precision": "R-precision ↑",
    "map_at_r": "MAP@R ↑",
    "pair_roc_auc": "pair ROC-AUC ↑",
    "roc_auc": "ROC-AUC ↑",
    "cllr": "Cllr ↓",
    "cllr_min": "least Cllr ↓",
    "eer": "equal error rate ↓",
    "min_dcf": "minDCF ↓",
}


def evaluate_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of an evaluation's folder."""
    if "answers" in summary["data"]:
        return _answers_page(folder, summary)
    if "pairs" in summary:
        return _sources_page(folder, summary)
    figures: dict[str, dict[str, float]] = summary["figures"]
    names = list(figures)
    name = names[-1]
    base, own = figures[names[0]], figures[name]
    split = read_table(folder, "evaluation.csv")
    words = {"truth": str, "predicted": str}
    stated = read_table(folder, "predictions.csv", dtype=words)
    held = (
        f"{summary['folds']} stratified folds"
        if summary["folds"]
        else f"{stated['row'].nunique():,} points of {Path(summary['test']).name}"
    )
    data = Path(summary["data"]["source"]).name
    how = "Soft votes of neighbours, bandwidth by leave-one-out"
    if summary.get("votes") == "count":
        k = summary["neighbors"]
        how = f"One vote for each of the {k} nearest; probabilities of a sample below"
    return page(
        summary,
        title=f"{name} judged on {data}",
        lead=f"Nearest neighbours among {data}, judged on {held} held out.",
        headline=f"{own['accuracy']:.1%} right, Euclidean {base['accuracy']:.1%}",
        explanation=f"{how}; log loss "
        f"{own['log_loss']:.3f}, Euclidean {base['log_loss']:.3f}.",
        sections=[
            _table(figures, split, "neighbours under", VOTES),
            _calibration(stated),
        ],
        cards=[
            (f"{own['log_loss']:.3f}", "log loss (lower is better)"),
            (f"{own['ece']:.3f}", "calibration error"),
        ],
    )


VOTES = (
    "Probabilities of the classes are judged by accuracy, log loss, Brier score and "
    "calibration error; retrieval and pairs among the points held out, each looked up "
    "among the others."
)
JUDGMENTS = (
    "Probabilities of the answers are judged by the share of judgments foretold "
    "(accuracy), log loss, Brier score and calibration error, each a mean over "
    "judgments; pairs by the ranking of same before different too."
)


def _answers_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of answers that were held out."""
    figures: dict[str, dict[str, float]] = summary["figures"]
    base, name = list(figures)
    own, without = figures[name], figures[base]
    split = read_table(folder, "evaluation.csv")
    stated: Any = read_table(folder, "predictions.csv")
    of = Path(str(summary["data"]["answers"]["source"])).name
    kind = summary["data"]["answers"]["kind"]
    held = f"{kind} of {of}"
    if summary["test"]:
        held = f"{kind} of {Path(summary['test']).name}"
    elif summary["folds"]:
        held = f"{kind} of {of}, in {summary['folds']} folds"
    knows = own.get("log_loss") is not None
    loss = (
        f"log loss {own['log_loss']:.3f}, of {base} {without['log_loss']:.3f}"
        if knows
        else f"no probabilities; {_first(own)}"
    )
    sections = [_table(figures, split, "stated by", JUDGMENTS)]
    if knows:
        sections.append(_shares(stated[stated["method"] == name]))
    return page(
        summary,
        title=f"{name} judged by answers",
        lead=f"Judged by {held}, held out.",
        headline=loss,
        explanation="Means over splits; an answer of k of m judges counts m times.",
        sections=sections,
        cards=[(f"{own['ece']:.3f}", "calibration error")] if knows else [],
    )


def _sources_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of pairs of rows, of one source or of two."""
    costs = with_limits(summary)
    base, name = costs.index
    first = "eer" if costs.loc[name, "cllr"] == "–" else "cllr"
    stated = read_table(folder, "predictions.csv")
    scores = {each: stated[each].to_numpy(float) for each in costs.index}
    data = Path(summary["data"]["source"]).name
    table = costs.rename(columns=WORDS).rename_axis("scores of").reset_index()
    return page(
        summary,
        title=f"{name} judged by pairs of {data}",
        lead=f"Are two rows of {data} of one source? {pairs_in_words(summary)}.",
        headline=f"{WORDS[first].rstrip(' ↓')} {costs.loc[name, first]}",
        explanation=f"Equal error rate {costs.loc[name, 'eer']}, "
        f"{base} {costs.loc[base, 'eer']}.",
        sections=[
            Section(
                "What the metric is worth",
                [COSTS],
                [],
                [Table(table, "Costs and their intervals: lower is better")],
            ),
            Section(
                "Which errors does each threshold make?",
                [],
                [Picture(plots.det(scores, stated["same"].to_numpy(bool)), DET)],
            ),
        ],
        cards=[
            (f"{summary['pairs']['same']:,}", "pairs of one source"),
            (f"{summary['pairs']['different']:,}", "pairs of two"),
        ],
    )


DET = (
    "Misses against false alarms at every threshold, on normal axes (DET plot); points "
    "are the equal error rates. There is no band, as pairs that share a source are not "
    "independent: the table has the limits."
)
COSTS = (
    "Cllr is the cost of log likelihood ratios in bits: 0 is perfect, 1 says nothing; "
    "its least value is what is left where they are calibrated. Of a distance, which "
    "states no ratio, it is not defined. minDCF is the least detection cost where one "
    "pair in a hundred is of one source and both errors cost the same, relative to the "
    "better of two answers that look at no pair."
)


def with_limits(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return costs in words, each with its interval, a line a method."""

    def said(value: Any, low: Any, high: Any) -> str:
        if value is None or np.isnan(float(value)):  # JSON has null, and "inf".
            return "–"
        return f"{float(value):.4f} [{float(low):.4f}, {float(high):.4f}]"

    words = {
        name: {k: said(v, *summary["intervals"][name][k]) for k, v in own.items()}
        for name, own in summary["figures"].items()
    }
    return pd.DataFrame(words).T


def pairs_in_words(summary: Mapping[str, Any]) -> str:
    """Say how many pairs of either kind were judged, and of how many."""
    pairs = summary["pairs"]

    def rest(kind: str) -> str:
        n, of = pairs[kind], pairs[f"{kind}_in_all"]
        return "" if n == of else f" (chosen at random of {of:,})"

    return (
        f"{pairs['sources']:,} sources: {pairs['same']:,} pairs of one{rest('same')}, "
        f"{pairs['different']:,} of two{rest('different')}"
        f"{', in both orders' * pairs['ordered']}; in brackets {summary['prob']:.0%} "
        "intervals, by leaving out sources"
    )


def _first(figures: Mapping[str, Any]) -> str:
    """Return in words the one figure of what states no probability."""
    word, value = next((k, v) for k, v in figures.items() if v is not None)
    return f"{WORDS[word].rstrip(' ↑↓')} {value:.3f}"


def _shares(stated: pd.DataFrame) -> Section:
    """Show, by what was stated, how many judgments were yes.

    Of triplets by what was stated of the likelier answer: near may as well be far.
    """
    if "anchor" in stated:
        turned = stated["P"] < 0.5
        P, y = stated["P"], stated["y"]
        stated = stated.assign(P=P.where(~turned, 1 - P), y=y.where(~turned, 1 - y))
    trials = stated["trials"] if "trials" in stated else pd.Series(1, stated.index)
    weight = stated.get("sample_weight", pd.Series(1.0, stated.index))
    frame: Any = pd.DataFrame(
        {
            "bin": np.minimum((stated["P"] * 10).astype(int), 9),
            "judgments": trials,
            "weight": weight * trials,
            "P": stated["P"] * weight * trials,
            "yes": stated["y"] * weight,
        }
    )
    sums = frame.groupby("bin").sum()
    table = pd.DataFrame(
        {
            "stated": [f"{b / 10:.1f} to {(b + 1) / 10:.1f}" for b in sums.index],
            "mean P": (sums["P"] / sums["weight"]).round(3),
            "share seen": (sums["yes"] / sums["weight"]).round(3),
            "judgments": sums["judgments"].astype(int),
        }
    )
    words = (
        "Judgments by what was stated, and the share that was yes (triplets: right)."
    )
    tables = [Table(table, words)]
    pictures = []
    if "trials" not in stated:
        pictures.append(
            Picture(
                plots.calibration(
                    stated["y"].to_numpy().astype(int),
                    stated["P"].to_numpy(float),
                    label="probability",
                ),
                "Of answers that were given a probability, how many were yes, or right "
                "(bars: 95 % Wilson limits; answers that share rows spread more).",
            )
        )
    return Section("Can its probabilities be believed?", [], pictures, tables)


def _table(
    figures: Mapping[str, Any], split: pd.DataFrame, by: str, words: str
) -> Section:
    means: Any = pd.DataFrame(figures).T.rename(columns=WORDS)
    means = means.map("{:.4f}".format, na_action="ignore").fillna("–")
    means = means[[word for word in WORDS.values() if word in means]]
    means = means.rename_axis(by).reset_index()
    tables = [Table(means, "Means over splits; arrows say which way is better")]
    if len(np.unique(split["split"].to_numpy())) > 1:
        tables.append(Table(split.round(4), "Every split", folded=True))
    return Section(
        "What the metric is worth",
        [words],
        [],
        tables,
    )


def _calibration(stated: pd.DataFrame) -> Section:
    columns = [name for name in stated.columns if name.startswith("P(")]
    label = "probability of the predicted class"
    right: dict[str, np.ndarray] = {}
    sure: dict[str, np.ndarray] = {}
    for method, rows in stated.groupby("method", sort=False):
        right[str(method)] = (rows["truth"] == rows["predicted"]).to_numpy().astype(int)
        # A class that a split did not have has no probability there.
        sure[str(method)] = rows[columns].max(axis=1).to_numpy(float).clip(0, 1)
    picture = Picture(
        plots.calibration(right, sure, label=label),
        "Of the points whose predicted class was given a probability, how many were of "
        "that class (bars: 95 % Wilson limits). Below the diagonal: too sure of "
        "itself.",
    )
    return Section("Can its probabilities be believed?", [], [picture])
