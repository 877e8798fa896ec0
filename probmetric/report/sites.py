"""Parts of pages about sites and species: curves, limits, importance, predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric import plots
from probmetric.posterior.curves import Curves
from probmetric.report.page import (
    Cards,
    Picture,
    Report,
    Section,
    Summary,
    Table,
    page,
    read_table,
    settings_section,
)

CURVES = (
    "Contribution of each covariate to the dissimilarity of two sites, over its range, "
    "largest first. A curve is steep where communities change most. Heights can be "
    "compared. The scale of the curves is -log(1 - dissimilarity)."
)
JACKKNIFE = (
    "The limits come from refits without each site. The limits are wider if some sites "
    "are unusual in all of their pairs. Limits of 0 to 0 mean only that the height is "
    "0 in every refit."
)


def stored_curves(folder: Path) -> Curves:
    """Read curves.csv of a run."""
    table = read_table(folder, "curves.csv")
    names = tuple(str(name) for name in table["curve"].unique())
    x, s, lower, upper = (
        table[k].to_numpy(float).reshape(len(names), -1)
        for k in ("x", "s", "lower", "upper")
    )
    return Curves(x, s, lower, upper, names)


def curves_section(summary: Summary, found: Curves) -> Section:
    """Show the curves, the intercept, the heights, and shares of the deviance."""
    gdm = summary["gdm"]
    limited = found.lower is not None
    caption = CURVES
    if limited:
        caption += f" Bands are pointwise {gdm['prob']:.0%} limits."
    parts: list[str | Picture | Table] = [
        Picture(plots.curves(found, most=12), caption),
        Table(
            _rows(gdm["effects"], "term"),
            "Intercept (dissimilarity of sites with equal covariates) and heights of "
            "the curves" + f", with {gdm['prob']:.0%} limits" * limited,
        ),
    ]
    if "shares" in gdm:
        shares = pd.DataFrame(
            {"explained": [*gdm["shares"]], "share": [*gdm["shares"].values()]}
        )
        words = {
            "covariates": "only by covariates",
            "distance": "only by geographic distance",
            "either": "by covariates or distance",
        }
        caption = "Share of the deviance that is explained"
        parts.append(Table(shares.replace({"explained": words}), caption))
    if "importance" in gdm:
        caption = (
            "Permutation importance: decrease of explained deviance if a predictor is "
            f"permuted over sites ({gdm['permutations']} permutations, with refits), "
            f"{gdm['prob']:.0%} jackknife limits, and permutation "
            f"P-value (at least 1 / {gdm['permutations'] + 1})"
        )
        parts.append(Table(_rows(gdm["importance"], "predictor"), caption))
    return Section("Curves", *parts)


def _rows(table: Any, name: str) -> pd.DataFrame:
    return pd.DataFrame(table).T.rename_axis(name).reset_index()


def cards_of(summary: Summary) -> Cards:
    """Return deviance explained and intercept."""
    gdm = summary["gdm"]
    return [
        (f"{gdm['deviance_explained']:.1%}", "deviance explained"),
        (f"{gdm['effects']['intercept']['estimate']:.3g}", "intercept"),
    ]


def jackknife_page(folder: Path, summary: Summary) -> Report:
    """Make the page of a run of ``sample --method jackknife``."""
    return page(
        summary,
        title=f"{summary['model']} on {Path(summary['data']['source']).name}, by "
        "jackknife",
        headline=f"Limits of the curves, computed in {summary['seconds']:.1f} s",
        explanation=f"{JACKKNIFE} Points of the curves are in curves.csv.",
        sections=[
            curves_section(summary, stored_curves(folder)),
            settings_section(summary),
        ],
        cards=cards_of(summary),
    )


def held_out_page(folder: Path, summary: Summary) -> Report:
    """Make the page of an evaluation on held-out sites."""
    figures = summary["figures"]
    base, name = figures
    score = figures[name]
    folds = f", in {summary['folds'] or 5} folds" * (summary["model"] is not None)
    predictions = read_table(folder, "predictions.csv")
    table = pd.DataFrame(figures).T.rename_axis("dissimilarity from").reset_index()
    words = ["deviance explained ↑", "RMSE ↓", "mean absolute error ↓"]
    table.columns = ["dissimilarity from", *words]
    return page(
        summary,
        title=f"{name} evaluated on sites",
        lead=f"Pairs with at least one held-out site of "
        f"{Path(summary['data']['source']).name}{folds}.",
        headline=f"{score['deviance_explained']:.1%} of the deviance explained",
        explanation=f"RMSE of the dissimilarity {score['rmse']:.3f}. For the mean "
        f"dissimilarity, RMSE is {figures[base]['rmse']:.3f}.",
        sections=[
            Section("Scores", Table(table, "Means over splits")),
            Section("Are the predictions right?", _bins(predictions, name)),
        ],
        cards=[(f"{score['rmse']:.3f}", "RMSE")],
    )


def _bins(predictions: pd.DataFrame, name: str) -> Table:
    own: Any = predictions[predictions["method"] == name]
    bins = np.minimum((own["predicted"] * 10).astype(int), 9)
    means = own.groupby(bins)[["predicted", "dissimilarity"]].mean().round(3)
    means.insert(0, "pairs", own.groupby(bins).size())
    means = means.rename(columns={"dissimilarity": "observed"})
    return Table(means, "Mean predicted and observed dissimilarity of held-out pairs")
