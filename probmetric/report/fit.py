"""The page of a fit: the metric, and the training points under the metric."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from probmetric import plots
from probmetric.datasets.loading import Dataset
from probmetric.metric import Dissimilarity, Mahalanobis, SplineCityBlock
from probmetric.posterior.curves import curves
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.report.model_fit import not_checked
from probmetric.report.page import (
    Picture,
    Report,
    Section,
    Summary,
    Table,
    data_again,
    of_objects,
    of_sources,
    page,
    settings_section,
)
from probmetric.report.sites import cards_of, curves_section
from probmetric.storage.metric_file import load_metric

FIGURES = {
    "precision_at_1": "nearest has its class",
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "pair_roc_auc": "pair ROC-AUC",
}
REFITS = (
    "The file also has the refits, so that “probmetric neighbors” has intervals of "
    "distances and probabilities of neighbors. "
)
MOST_POINTS = 2000
"""Maximum number of points in a figure."""


def fit_page(folder: Path, summary: Summary, data: Dataset | None) -> Report:
    """Make the page of a fit's folder."""
    stored = load_metric(folder / "metric.npz")
    refits = isinstance(stored, IntervalMetric)
    metric = cast("Dissimilarity", stored.point_metric() if refits else stored)
    data, lacking = data_again(summary, data)
    about, training = summary["data"], summary["training"]
    shown: list[Picture | Table] = []
    if data is not None:
        shown += _pictures(metric, data)
    elif "answers" in about:
        shown += _of_answers(metric, about)
    sections = [Section("The learned metric", *shown)]
    cards: list[tuple[str, str]] = []
    if "gdm" in summary:
        sections, cards = [curves_section(summary, curves(metric))], cards_of(summary)
    if learned := training.get("learned"):
        cards = [
            (f"{learned['precision_at_1']:.1%}", "nearest has its class (training)"),
            (f"{learned['pair_roc_auc']:.3f}", "pair ROC-AUC (training)"),
        ]
        table: Any = pd.DataFrame(training).T[list(FIGURES)]
        table = table.rename(columns=FIGURES).map("{:.3f}".format)
        table = table.rename_axis("neighbors under").reset_index()
        training_section = Section(
            "On the training points",
            "Each point is compared with all other points. The metric was fitted to "
            "these points, so the scores are too optimistic. Use “probmetric "
            "evaluate” for held-out points.",
            _of_sample(about),
            lacking,
            Table(table, "Retrieval and pairs (higher is better)"),
        )
        sections.append(training_section)
    d = len(about["features"])
    what = f"{d} objects" if of_objects(about) else f"points with {d} features"
    what = "sites" if "sites" in about else what
    kind = "distance" if metric.is_distance else "dissimilarity"
    return page(
        summary,
        title=f"{summary['model']} learned from {Path(about['source']).name}",
        headline=f"A {kind} between {what}, learned in {summary['seconds']:.1f} s",
        explanation=f"{type(metric).__name__}, stored in metric.npz for "
        "“probmetric neighbors” and probmetric.load_metric. Smaller values are closer. "
        f"{REFITS * refits}"
        f"{_not_shown(summary)}" + " A class is a source here." * of_sources(about),
        sections=[*sections, settings_section(summary)],
        cards=cards,
    )


def _not_shown(summary: Summary) -> str:
    """Name the commands for held-out scores and for the fit of the model."""
    how = f"--model {summary['model']} … --folds 5"
    if of_sources(about := summary["data"]):  # Folds would split the sources.
        how = f"--data … --groups {about['groups']} --metric metric.npz"
    return (
        "This page has no scores on new data. Use “probmetric evaluate "
        f"{how}”. {not_checked(summary)}"
    )


def _of_answers(metric: Dissimilarity, about: Summary) -> list[Picture | Table]:
    names = list(about["features"])
    if isinstance(metric, SplineCityBlock):
        caption = "Contribution of each covariate over its range, largest first."
        found = curves(metric)
        return [Picture(plots.curves(found, metric.curve_names(names)), caption)]
    if not isinstance(metric, Mahalanobis):
        return []
    L = np.asarray(metric.factor, float)
    if of_objects(about):
        table = pd.DataFrame(L.T, columns=[f"z{k}" for k in range(len(L))])
        caption = "Coordinates of the objects (only distances are identified)"
        picture = plots.objects(metric, names=names)
        shown = [Picture(picture, "The objects in the plane of the largest spread.")]
    else:
        table = pd.DataFrame(L.T @ L, columns=names)
        caption, shown = "M, in units of the data", []
    table.insert(0, "", names)
    return [*shown, Table(table, caption, folded=len(table) > 12)]


def _pictures(metric: Dissimilarity, data: Dataset) -> list[Picture]:
    rows = np.unique(np.linspace(0, len(data.X) - 1, MOST_POINTS).astype(int))
    X, y = data.X[rows], data.y[rows]
    pictures: list[Picture] = []
    if isinstance(metric, Mahalanobis):
        pictures = [
            Picture(
                plots.matrix(metric, data.X, feature_names=data.feature_names),
                "The squared distance is the sum over j and k of M[j, k] times the "
                "product of the differences in features j and k. Bars are shares of "
                "the mean squared distance between two points.",
            ),
            Picture(
                plots.importance(metric, data.X),
                "The learned distance between two points that differ by one standard "
                "deviation in one feature and agree in the others. For a numeric "
                "feature it is the square root of the diagonal entry of the matrix "
                "above. The figure has no "
                "intervals. The order of correlated features can differ in another "
                "sample.",
            ),
            Picture(
                plots.embedding(metric, X, y, links=3, target_names=data.target_names),
                "The training points in the plane with the largest share of the "
                "learned distance. Each point is linked to its three nearest "
                "neighbors.",
            ),
        ]
    elif hasattr(metric, "matrix_at") and data.X.shape[1] > 1:
        names = {n: getattr(data, n) for n in ("feature_names", "target_names")}
        pictures = [
            Picture(
                plots.local_ellipses(metric, X, y, **names),
                "All points on an ellipse have the same distance from its center. The "
                "plane shows the first two features.",
            )
        ]
    histogram = Picture(
        plots.pair_histogram(metric, X, y),
        "If the two histograms overlap little, the metric separates pairs of one class "
        "well from pairs of two classes.",
    )
    return [*pictures, histogram]


def _of_sample(about: Summary) -> str:
    if "sampled" not in about or about["sampled"]["rows"] == about["n"]:
        return ""
    return (
        "The fit used all rows, read in chunks. Scores and figures use "
        f"{about['sampled']['rows']:,} rows, sampled by a hash of the row number."
    )
