"""The page of an evaluation: scores, and calibration of probabilities.

There are three kinds of evaluation: votes of neighbors for held-out points, predictions
of held-out judgments, and same-source against different-source pairs of rows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric import plots
from probmetric.datasets.loading import Dataset
from probmetric.report.model_fit import not_checked
from probmetric.report.page import (
    Picture,
    Report,
    Section,
    Summary,
    Table,
    page,
    read_table,
)
from probmetric.report.sites import held_out_page

WORDS = {
    "accuracy": "accuracy ↑",
    "log_loss": "log loss ↓",
    "brier": "Brier score ↓",
    "ece": "calibration error ↓",
    "false_alarms": "false alarms",
    "caught": "unknown found ↑",
    "precision_at_1": "nearest has its class ↑",
    "r_precision": "R-precision ↑",
    "map_at_r": "MAP@R ↑",
    "pair_roc_auc": "pair ROC-AUC ↑",
    "roc_auc": "ROC-AUC ↑",
    "cllr": "Cllr ↓",
    "cllr_min": "minimum Cllr ↓",
    "eer": "equal error rate ↓",
    "min_dcf": "minDCF ↓",
}
VOTES = (
    "Accuracy, log loss, Brier score and calibration error measure the class "
    "probabilities. Retrieval scores are about the neighbors of each evaluated point "
    "among the other evaluated points. Pair ROC-AUC compares their pairs."
)
NOVELTY = (
    " False alarms are points of known classes that are called novel. The nominal "
    "share of false alarms is --novelty."
)
JUDGMENTS = (
    "Accuracy is the share of judgments predicted correctly. Accuracy, log loss, Brier "
    "score and calibration error are means over judgments. Pairs also have the "
    "ROC-AUC of same against different."
)
COSTS = (
    "Cllr is the cost of log likelihood ratios in bits. 0 is perfect, and 1 means no "
    "information. Minimum Cllr is the cost after calibration. A distance has no "
    "likelihood ratio, so Cllr of a distance is undefined. minDCF is the minimum "
    "detection cost at 1% same-source pairs and equal error costs, relative to the "
    "better constant decision."
)
DET = (
    "Misses against false alarms at every threshold, on normal-quantile axes (DET "
    "plot). Points are the equal error rates. There is no band, because pairs that "
    "share a source are dependent. The table contains the intervals."
)
RATIOS = (
    "Top: share of pairs with a log10 LR at or above a value, for same-source and "
    "different-source pairs. Middle: log10 LR after calibration to these pairs, "
    "against the log10 LR of the metric. Calibrated ratios are on the diagonal. "
    "Bottom: empirical cross-entropy by prior odds. The cross-entropy at log10 odds 0 "
    "is Cllr. Dashed line: after calibration to these pairs. Dotted line: LR = 1."
)
SHARES = "Share of yes by predicted P (for triplets: share predicted correctly)."
CALIBRATION = "Are the probabilities calibrated?"


def evaluate_page(
    folder: Path, summary: Summary, data: Dataset | None = None
) -> Report:
    """Make the page of an evaluation's folder."""
    if "sites" in summary["data"]:
        return held_out_page(folder, summary)
    if "answers" in summary["data"]:
        return _answers_page(folder, summary)
    if "pairs" in summary:
        return _sources_page(folder, summary)
    figures: dict[str, dict[str, float]] = summary["figures"]
    base, *_, name = figures
    score, baseline = figures[name], figures[base]
    names = {"truth": str, "predicted": str}  # A class may be named NA.
    predictions: Any = read_table(folder, "predictions.csv", converters=names)
    test = (
        f"{summary['folds']} stratified folds"
        if summary["folds"]
        else f"{predictions['row'].nunique():,} points of {Path(summary['test']).name}"
    )
    source = Path(summary["data"]["source"]).name
    gain, error = 100 * (score["accuracy"] - baseline["accuracy"]), ""
    sem = None
    votes = "Soft votes of neighbors, with the bandwidth chosen by leave-one-out"
    if summary.get("votes") == "count":
        votes = f"One vote for each of the {summary['neighbors']} nearest neighbors"
        votes += ". The probabilities below are from a sample of the points"
    else:
        sem = 100 * _error_of_gain(predictions, base, name)
        error = f" ± {sem:.1f}"
        votes = f"± is one standard error over the points. {votes}"
    # The points were held out only from the votes: a stored metric had them in its fit.
    seen = any("learned from the same points" in n for n in summary.get("notes", []))
    where = "points of the metric's own fit" if seen else "held-out points"
    against = f"{gain:+.1f}{error} percentage points against the Euclidean distance"
    if gain == sem == 0:
        against = "the same points are correct as under the Euclidean distance"
    return page(
        summary,
        title=f"{name} evaluated on {source}",
        lead=f"Nearest neighbors among {source}, evaluated on {test}.",
        headline=f"Accuracy on {where} {score['accuracy']:.1%}: {against}",
        explanation=f"{votes}. Log loss {score['log_loss']:.3f}, Euclidean "
        f"{baseline['log_loss']:.3f}. {not_checked(summary)}",
        sections=[
            _table(
                folder,
                figures,
                "neighbors under",
                VOTES + NOVELTY * ("false_alarms" in score),
            ),
            _confusion(predictions[predictions["method"] == name], sampled=not error),
            _calibration(predictions),
        ],
        cards=[
            (f"{score['log_loss']:.3f}", "log loss (lower is better)"),
            (f"{score['ece']:.3f}", "calibration error"),
        ],
    )


def _confusion(predictions: pd.DataFrame, *, sampled: bool = False) -> Section:
    truth, predicted = predictions["truth"], predictions["predicted"]
    table = pd.crosstab(truth, predicted).rename_axis("true class").reset_index()
    what = "A sample of evaluated points" if sampled else "Evaluated points"
    caption = f"{what} by true class (rows) and predicted class (columns)"
    folded = len(table) > 12
    return Section("Which classes are confused?", Table(table, caption, folded))


def _error_of_gain(predictions: pd.DataFrame, base: str, name: str) -> float:
    right = predictions["truth"] == predictions["predicted"]
    keys = [predictions[key] for key in ("split", "row", "method")]
    table: Any = right.astype(float).groupby(keys).first().unstack()
    return float((table[name] - table[base]).sem())


def _answers_page(folder: Path, summary: Summary) -> Report:
    figures: dict[str, dict[str, float | None]] = summary["figures"]
    base, name = figures
    score, baseline = figures[name], figures[base]
    about, folds = summary["data"]["answers"], summary["folds"]
    test = Path(str(summary["test"] or about["source"])).name
    has_P = score.get("log_loss") is not None
    if has_P:
        headline = f"Log loss {score['log_loss']:.3f}, {base} "
        headline += f"{baseline['log_loss']:.3f}"
    else:
        word, value = next((k, v) for k, v in score.items() if v is not None)
        headline = f"No probabilities; {WORDS[word].rstrip(' ↑↓')} {value:.3f}"
    sections = [_table(folder, figures, "P from", JUDGMENTS)]
    if has_P:
        predictions: Any = read_table(folder, "predictions.csv")
        sections.append(_shares(predictions[predictions["method"] == name]))
    return page(
        summary,
        title=f"{name} evaluated by judgments",
        lead=f"Held-out {about['kind']} of {test}"
        + (f", in {folds} folds." if folds and not summary["test"] else "."),
        headline=headline,
        explanation="Means over splits. A response of m judges has weight m.",
        sections=sections,
        cards=[(f"{score['ece']:.3f}", "calibration error")] if has_P else [],
    )


def _sources_page(folder: Path, summary: Summary) -> Report:
    costs = with_limits(summary)
    base, name = costs.index
    first = "eer" if costs.loc[name, "cllr"] == "–" else "cllr"
    predictions = read_table(folder, "predictions.csv")
    scores = {each: predictions[each].to_numpy(float) for each in costs.index}
    data, pairs = Path(summary["data"]["source"]).name, summary["pairs"]
    table = costs.rename(columns=WORDS).rename_axis("scores of").reset_index()
    same = predictions["same"].to_numpy(bool)
    sections = [
        Section("Scores", COSTS, Table(table, "Costs with intervals (lower is better)"))
    ]
    if costs.loc[name, "cllr"] != "–":
        picture = Picture(plots.likelihood_ratios(scores[name], same), RATIOS)
        sections.append(Section("Likelihood ratios", picture))
    picture = Picture(plots.det(scores, same), DET)
    sections.append(Section("Errors at each threshold", picture))
    return page(
        summary,
        title=f"{name} evaluated on pairs of {data}",
        lead=f"Do two rows of {data} have the same source? {pairs_in_words(summary)}.",
        headline=f"{WORDS[first].rstrip(' ↓')} {costs.loc[name, first]}",
        explanation=f"Equal error rate {costs.loc[name, 'eer']}, "
        f"{base} {costs.loc[base, 'eer']}.",
        sections=sections,
        cards=[
            (f"{pairs['same']:,}", "same-source pairs"),
            (f"{pairs['different']:,}", "different-source pairs"),
        ],
    )


def with_limits(summary: Summary) -> pd.DataFrame:
    """Format costs and intervals of the costs, with one row per method."""

    def text(value: float | str | None, low: float | str, high: float | str) -> str:
        if value is None or np.isnan(float(value)):  # JSON has null and "inf".
            return "–"
        return f"{float(value):.4f} [{float(low):.4f}, {float(high):.4f}]"

    cells = {
        name: {k: text(v, *summary["intervals"][name][k]) for k, v in costs.items()}
        for name, costs in summary["figures"].items()
    }
    return pd.DataFrame(cells).T


def pairs_in_words(summary: Summary) -> str:
    """Describe the numbers of same-source and different-source pairs, and sampling."""
    pairs = summary["pairs"]

    def count(kind: str) -> str:
        n, total = pairs[kind], pairs[f"{kind}_in_all"]
        sampled = "" if n == total else f" (sampled from {total:,})"
        return f"{n:,} {kind}-source pairs{sampled}"

    return (
        f"{pairs['sources']:,} sources: {count('same')}, {count('different')}"
        f"{', in both orders' * pairs['ordered']}; in brackets {summary['prob']:.0%} "
        "jackknife intervals over sources"
    )


def _shares(predictions: pd.DataFrame) -> Section:
    """Show the share of yes by predicted P. Triplets with P < ½ are exchanged."""
    if "anchor" in predictions:
        P, y = predictions["P"], predictions["y"]
        likely = P >= 0.5
        P, y = P.where(likely, 1 - P), y.where(likely, 1 - y)
        predictions = predictions.assign(P=P, y=y)
    if "odd" in predictions:
        P = predictions["P_largest"]
        predictions = predictions.assign(P=P, y=predictions["P"] == P)
    ones = np.ones(len(predictions))
    trials = np.asarray(predictions.get("trials", ones))
    weight = np.asarray(predictions.get("sample_weight", ones))
    frame: Any = pd.DataFrame(
        {
            "bin": np.minimum((predictions["P"] * 10).astype(int), 9),
            "judgments": trials,
            "weight": weight * trials,
            "P": predictions["P"] * weight * trials,
            "yes": predictions["y"] * weight,
        }
    )
    sums = frame.groupby("bin").sum()
    table = pd.DataFrame(
        {
            "predicted P": [f"{b / 10:.1f} to {(b + 1) / 10:.1f}" for b in sums.index],
            "mean P": (sums["P"] / sums["weight"]).round(3),
            "share of yes": (sums["yes"] / sums["weight"]).round(3),
            "judgments": sums["judgments"].astype(int),
        }
    )
    if "trials" in predictions:
        return Section(CALIBRATION, Table(table, SHARES))
    codes, P = predictions["y"].to_numpy().astype(int), predictions["P"].to_numpy(float)
    caption = (
        "Share of yes (for triplets: share predicted correctly) by predicted "
        "probability. Bars are 95% Wilson intervals, which are too narrow for "
        "judgments that share rows."
    )
    figure = plots.calibration(codes, P, label="probability")
    return Section(CALIBRATION, Picture(figure, caption), Table(table, SHARES))


def _table(folder: Path, figures: Summary, by: str, text: str) -> Section:
    splits = read_table(folder, "evaluation.csv")
    means: Any = pd.DataFrame(figures).T.rename(columns=WORDS)
    means = means.map(lambda value: "–" if pd.isna(value) else f"{value:.4f}")
    means = means[[word for word in WORDS.values() if word in means]]
    means = means.rename_axis(by).reset_index()
    return Section(
        "Scores",
        text,
        Table(means, "Means over splits (arrows point to better values)"),
        Table(splits.round(4), "Every split", folded=True)
        if len(np.unique(splits["split"].to_numpy())) > 1
        else None,
    )


def _calibration(predictions: pd.DataFrame) -> Section:
    columns = [name for name in predictions.columns if name.startswith("P(")]
    right: dict[str, np.ndarray] = {}
    confidence: dict[str, np.ndarray] = {}
    for name, rows in predictions.groupby("method", sort=False):
        right[str(name)] = (rows["truth"] == rows["predicted"]).to_numpy().astype(int)
        # Classes that are missing in a split have no probability there.
        top = rows[columns].max(axis=1).to_numpy(float)
        confidence[str(name)] = top.clip(0, 1)
    label = "probability of the predicted class"
    caption = (
        "Share of correct predictions by the probability of the predicted class. Bars "
        "are 95% Wilson intervals. Probabilities are overconfident below the diagonal."
    )
    figure = plots.calibration(right, confidence, label=label)
    return Section(CALIBRATION, Picture(figure, caption))
