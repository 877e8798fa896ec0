"""The page of an evaluation: the table of scores, and calibration of probabilities."""

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
    "cllr": "Cllr ↓",
    "cllr_min": "least Cllr ↓",
    "eer": "equal error rate ↓",
    "min_dcf": "minDCF ↓",
}


def evaluate_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of an evaluation's folder."""
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
        sections=[_table(figures, split), _calibration(stated)],
        cards=[
            (f"{own['log_loss']:.3f}", "log loss (lower is better)"),
            (f"{own['ece']:.3f}", "calibration error"),
        ],
    )


def _table(figures: Mapping[str, Any], split: pd.DataFrame) -> Section:
    means: Any = pd.DataFrame(figures).T.rename(columns=WORDS)
    means = means.map("{:.4f}".format, na_action="ignore").fillna("–")
    means = means[[word for word in WORDS.values() if word in means]]
    means = means.rename_axis("neighbours under").reset_index()
    tables = [Table(means, "Means over splits; arrows say which way is better")]
    if len(np.unique(split["split"].to_numpy())) > 1:
        tables.append(Table(split.round(4), "Every split", folded=True))
    return Section(
        "What the metric is worth",
        [
            "Probabilities of the classes are judged by accuracy, log loss, Brier "
            "score and calibration error; retrieval and pairs among the points held "
            "out, each looked up among the others."
        ],
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
        sure[str(method)] = rows[columns].to_numpy(float).max(1).clip(0, 1)
    picture = Picture(
        plots.calibration(right, sure, label=label),
        "Of the points whose predicted class was given a probability, how many were of "
        "that class (bars: 95 % Wilson limits). Below the diagonal: too sure of "
        "itself.",
    )
    return Section("Can its probabilities be believed?", [], [picture])
