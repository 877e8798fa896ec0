"""The page of a fit: the metric, and the points it was learned from under it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric import plots
from probmetric.datasets.loading import Dataset
from probmetric.metric import Mahalanobis, SplineCityBlock
from probmetric.posterior.curves import curves
from probmetric.report.page import (
    Picture,
    Report,
    Section,
    Table,
    data_again,
    page,
    settings_section,
)
from probmetric.storage.metric_file import load_metric

FIGURES = {
    "precision_at_1": "nearest is of its class",
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "pair_roc_auc": "pair ROC-AUC",
}
MOST_POINTS = 2000
"""Points in a figure, at most."""


def fit_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of a fit's folder."""
    metric = load_metric(folder / "metric.npz")
    data, lacking = data_again(summary)
    kind = type(metric).__name__
    d = len(summary["data"]["features"])
    learned = summary["training"].get("learned")
    answered = "answers" in summary["data"]
    return page(
        summary,
        title=f"{summary['model']} learned from {Path(summary['data']['source']).name}",
        headline=f"{kind} learned in {summary['seconds']:.1f} s",
        explanation=f"How far one point of {d} features is from another; smaller is "
        f"closer. Stored in metric.npz, for probmetric.load_metric, "
        f"“probmetric neighbors” and “probmetric evaluate”.",
        sections=[
            *([_pictures(metric, data)] if data is not None else []),
            *([_answered(metric, summary["data"])] if answered else []),
            *([_figures(summary, lacking)] if learned else []),
            settings_section(summary),
        ],
        cards=[
            (f"{learned['precision_at_1']:.1%}", "nearest is of its class (training)"),
            (f"{learned['pair_roc_auc']:.3f}", "pair ROC-AUC (training)"),
        ]
        if learned
        else [],
    )


def _answered(metric: Any, said: Mapping[str, Any]) -> Section:
    """Show a metric learned from answers: curves, the places of objects, or a matrix.

    Objects without features have the columns of the map as their places.
    """
    names, title = list(said["features"]), "The learned metric"
    if isinstance(metric, SplineCityBlock):
        words = "How far a covariate parts sites, over its range; the tallest first."
        return Section(title, [], [Picture(plots.curves(curves(metric), names), words)])
    if not isinstance(metric, Mahalanobis):
        return Section(title, [])
    L = np.asarray(metric.factor, float)
    if said["source"] == said["answers"]["source"]:
        table = pd.DataFrame(L.T, columns=[f"z{k}" for k in range(len(L))])
        words = "Places of the objects; distances between them are what is known"
    else:
        table = pd.DataFrame(L.T @ L, columns=names)
        words = "M, in units of the data"
    table.insert(0, "", names)
    return Section(title, [], [], [Table(table, words, folded=len(table) > 12)])


def _pictures(metric: Any, data: Dataset) -> Section:
    """Draw the metric, and at most ``MOST_POINTS`` points, evenly spaced."""
    rows = np.unique(np.linspace(0, len(data.X) - 1, MOST_POINTS).astype(int))
    X, y = data.X[rows], data.y[rows]
    pictures: list[Picture] = []
    if isinstance(metric, Mahalanobis):
        pictures = [
            Picture(
                plots.matrix(metric, data.X, feature_names=data.feature_names),
                "A squared distance is the sum of these entries times products of "
                "differences. Dark diagonal entries: features that count. Bars: shares "
                "of the mean squared distance between two points.",
            ),
            Picture(
                plots.embedding(metric, X, y, links=3, target_names=data.target_names),
                "All points in the plane that holds most of the learned distance, "
                "linked to their three nearest (training points, not a test).",
            ),
        ]
    elif hasattr(metric, "matrix_at") and data.X.shape[1] > 1:
        names = {n: getattr(data, n) for n in ("feature_names", "target_names")}
        pictures = [
            Picture(
                plots.local_ellipses(metric, X, y, **names),
                "Points on an ellipse are equally far from its centre, in the plane of "
                "the first two features: long where the metric is short.",
            )
        ]
    pictures.append(
        Picture(
            plots.pair_histogram(metric, X, y),
            "The less the two overlap, the better the metric tells pairs of one class "
            "from pairs of two.",
        )
    )
    return Section("The learned metric", [], pictures)


def _figures(summary: Mapping[str, Any], lacking: str) -> Section:
    table: Any = pd.DataFrame(summary["training"]).T[list(FIGURES)]
    table = table.rename(columns=FIGURES).map("{:.3f}".format)
    table = table.rename_axis("neighbours under").reset_index()
    return Section(
        "On the points it was learned from",
        [
            "Each point is looked up among the others. The metric has seen them all, "
            "so that its figures are too good; “probmetric evaluate” judges it on "
            "others.",
            *_of_sample(summary["data"]),
            *([lacking] if lacking else []),
        ],
        [],
        [Table(table, "Retrieval and pairs, higher is better")],
    )


def _of_sample(said: Mapping[str, Any]) -> list[str]:
    """Say that figures are of a sample, where rows were read in parts."""
    if "sampled" not in said or said["sampled"]["rows"] == said["n"]:
        return []
    return [
        f"Learned from all rows, which were read in parts; figures and pictures are of "
        f"{said['sampled']['rows']:,} of them, chosen by a hash of the row's number."
    ]
