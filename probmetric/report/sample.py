"""The page of a sampling run: the metric with its uncertainty, and the sampler."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from probmetric import plots
from probmetric.data.containers import Pairs
from probmetric.inference.sampling.diagnostics import KHAT_MAX, diagnose
from probmetric.inference.sampling.summary import entry_names, summarise
from probmetric.posterior.metric import PosteriorMetric
from probmetric.registry import MODELS
from probmetric.report.page import (
    RANKS,
    Picture,
    Report,
    Section,
    Table,
    data_again,
    page,
    settings_section,
)
from probmetric.storage.draws_file import load_draws, posterior_of

MEANING = {
    "nuts": "Draws of the model's posterior, exact up to Monte Carlo error.",
    "laplace": "A Gaussian at the posterior's mode: an approximation, with its k-hat.",
    "exact": "Independent draws of the model's posterior, a closed form.",
    "svi": "A variational guide: an approximation, with its k-hat.",
    "bootstrap": "Refits under random weights of the points: how the fit would differ "
    "under new data.",
}
N_METRICS = 200
"""Draws in the figure of neighbours."""

TRIED = 25
"""Points among which it looks for the one whose neighbours are least sure."""


def sample_page(folder: Path, summary: Mapping[str, Any]) -> Report:
    """Return the page of a sampling run's folder."""
    draws = load_draws(folder / "draws.nc")
    data, lacking = data_again(summary)
    total = summary["chains"] * summary["draws"]
    shown = _with_names(draws, summary["data"]["features"], data)
    trouble = diagnose(draws)
    words, cards = _statistics(draws, summary["method"])
    # The run noted what is found here again.
    told = tuple(found.advice for found in trouble)
    notes = [note for note in summary.get("notes", []) if not note.endswith(told)]
    headline, told_below = f"{total:,} draws in {summary['seconds']:.1f} s", ""
    if trouble:
        told_below = f"{headline}; what is wrong with them stands below. "
        names = ", ".join(dict.fromkeys(found.name for found in trouble))
        headline = f"The draws are not to be trusted yet: {names}"
    return page(
        {**summary, "notes": notes},
        title=f"{summary['model']} on {Path(summary['data']['source']).name}, by "
        f"{summary['method']}",
        headline=headline,
        doubted=bool(trouble),
        explanation=told_below
        + MEANING[summary["method"]]
        + " They are stored in draws.nc, for “probmetric neighbors --draws” and ArviZ.",
        sections=[
            *(
                [Section("What is wrong with the draws", [str(f) for f in trouble])]
                if trouble
                else []
            ),
            *_metric_section(shown, summary),
            *(_neighbor_section(draws, data) if data is not None else []),
            Section(
                "The draws",
                [line for line in (words, lacking) if line],
                _chains(shown, summary),
                _quantities(draws if shown is None else shown),
            ),
            settings_section(summary),
        ],
        cards=[
            (
                str(len(trouble)),
                f"{'problem' if len(trouble) == 1 else 'problems'} found in the draws",
            ),
            *cards,
        ],
    )


def _with_names(draws: xr.DataTree, names: list[str], data: Any) -> xr.DataTree | None:
    """Return the posterior of the matrix, named M, with the features' names."""
    posterior = draws["posterior"].to_dataset()
    matrix = next((name for name in ("M", "J") if name in posterior), None)
    if matrix is None:
        return None
    axes = ("chain", "draw", "feature", "feature_bis")
    coords = {"feature": names, "feature_bis": names}
    values = posterior[matrix].transpose("chain", "draw", ...).to_numpy()
    kept = {"M": xr.DataArray(values, dims=axes, coords=coords)}
    if "b" in posterior:
        kept["b"] = xr.DataArray(posterior["b"].to_numpy(), dims=axes[:2])
    groups = {"posterior": xr.Dataset(kept)}
    if data is not None:
        groups["constant_data"] = xr.Dataset({"X": (("point", "feature"), data.X)})
    return xr.DataTree.from_dict(groups)


def _metric_section(
    shown: xr.DataTree | None, summary: Mapping[str, Any]
) -> list[Section]:
    if shown is None:
        return []
    text = (
        "Pairs made from class labels share points, so they are not independent. These "
        "draws serve for neighbours; for intervals of distances use "
        "posterior_metric('intervals')."
    )
    known = MODELS.get(summary["model"])
    of_labels = "answers" not in summary["data"]
    of_pairs = known is not None and known.data_kind is Pairs and of_labels
    paired = of_pairs and summary["method"] != "bootstrap"
    return [
        Section(
            "The metric, with its uncertainty",
            [text] if paired else [],
            [
                Picture(
                    plots.metric(shown),
                    "The mean over draws, and the standard deviation over draws, which "
                    "is not an interval.",
                ),
                Picture(
                    plots.eigenvalues(shown),
                    "Eigenvalues of M under the draws: how many directions matter. "
                    "Squares: those of the mean over draws. They lie closer together "
                    "than those of a draw: averaging cancels directions that differ.",
                ),
            ],
        )
    ]


def _neighbor_section(draws: xr.DataTree, data: Any) -> list[Section]:
    """Show the point whose neighbours are least sure among a few dozen."""
    try:
        posterior = posterior_of(draws, max_draws=N_METRICS)
    except ValueError:
        return []  # Draws that stand for no metric.
    k = min(5, len(data.X) - 2)
    if k < 1:
        return []
    row = _least_sure(posterior, data.X, k)
    others = np.delete(np.arange(len(data.X)), row)
    return [
        Section(
            "Neighbours, with their probabilities",
            [
                f"Row {row} ({data.labels[row]}) is the one, of {TRIED} looked at, "
                f"whose {k} nearest are least sure."
            ],
            [
                Picture(
                    plots.neighbor_probabilities(
                        posterior,
                        data.X[row],
                        data.X[others],
                        k,
                        names=others,
                        y=data.y[others],
                        target_names=data.target_names,
                    ),
                    f"Share of draws in which a point is among the {k} nearest.",
                )
            ],
        )
    ]


def _least_sure(posterior: PosteriorMetric, X: np.ndarray, k: int) -> int:
    """Return the row, of some evenly spaced, of the smallest Σ p² of its neighbours."""
    rows = np.unique(np.linspace(0, len(X) - 1, TRIED).astype(int))
    shares = posterior.neighbor_probability(X[rows], X, min(k + 1, len(X)))
    shares[np.arange(len(rows)), rows] = 0
    return int(rows[np.argmin(np.sum(shares**2, 1))])


def _statistics(draws: xr.DataTree, method: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what the sampler says of itself, in words and as cards."""
    if method == "nuts" and "sample_stats" in draws.children:
        stats = draws["sample_stats"].to_dataset()
        diverging = int(stats["diverging"].sum()) if "diverging" in stats else 0
        return f"{diverging} draws diverged.", [(str(diverging), "divergences")]
    khat = draws.attrs.get("khat")
    if khat is None or not np.isfinite(khat):
        return "", []
    good = "is close to" if khat < KHAT_MAX else "is far from"
    words = f"PSIS k-hat {khat:.2f}: the approximation {good} the posterior."
    return words, [(f"{khat:.2f}", "k-hat (below 0.7 is good)")]


def _chains(shown: xr.DataTree | None, summary: Mapping[str, Any]) -> list[Picture]:
    """Draw whether chains agree, where there are several."""
    if shown is None or summary["method"] != "nuts" or summary["chains"] == 1:
        return []
    return [
        Picture(plots.rank(shown), RANKS),
        Picture(plots.trace(shown), "Densities and traces, by chain."),
    ]


def _quantities(draws: xr.DataTree) -> list[Table]:
    """Return means, sd, R-hat and effective sizes of scalars and small matrices."""
    table = draws["posterior"].to_dataset()
    small = [str(name) for name in table if table[name][0, 0].size <= 400]
    if not small:
        return []
    found = summarise(table[small])
    listed = {
        "entry": entry_names(table[small]),
        "mean": found.estimate,
        "sd": found.sd,
        "Monte Carlo error": found.mcse,
        "effective draws": found.ess,
        **({"R-hat": found.rhat} if table.sizes["chain"] > 1 else {}),
    }
    return [
        Table(
            pd.DataFrame(listed),
            "Every entry, in units of the data (figures are per sd of each feature "
            "where the data are at hand)",
            folded=True,
        )
    ]
