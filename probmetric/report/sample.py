"""The page of a sampling run: the metric, its uncertainty, and the chains."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from probmetric import plots
from probmetric.checks.summary import summarize
from probmetric.data.containers import Pairs
from probmetric.datasets.loading import Dataset
from probmetric.inference.sampling.diagnostics import KHAT_MAX, diagnose
from probmetric.inference.sampling.summary import entry_names
from probmetric.plots.draws import rank, trace
from probmetric.posterior.metric import PosteriorMetric
from probmetric.registry import MODELS
from probmetric.report.model_fit import fit_banner, fit_section, verdict_in
from probmetric.report.page import (
    RANKS,
    Cards,
    Picture,
    Report,
    Section,
    Summary,
    Table,
    data_again,
    of_objects,
    page,
    settings_section,
)
from probmetric.report.sites import (
    cards_of,
    curves_section,
    jackknife_page,
    stored_curves,
)
from probmetric.storage.draws_file import load_draws, posterior_of

MEANING = {
    "nuts": "Draws of the model's posterior, correct up to Monte Carlo error if the "
    "chains have converged.",
    "laplace": "Gaussian approximation at the posterior mode, with its k-hat.",
    "exact": "Independent draws of the model's posterior in closed form.",
    "svi": "Variational approximation, with its k-hat.",
    "bootstrap": "Refits under random weights of the points or sites.",
}
N_METRICS = 200
"""Maximum number of draws in the figure of neighbors."""

N_QUERIES = 25
"""Number of points from which the point with the most uncertain neighbors is chosen."""


def sample_page(folder: Path, summary: Summary, data: Dataset | None) -> Report:
    """Make the page of a sampling run's folder."""
    if summary["method"] == "jackknife":
        return jackknife_page(folder, summary)
    draws = load_draws(folder / "draws.nc")
    data, lacking = data_again(summary, data)
    shown = _with_names(draws, summary["data"]["features"], data)
    problems = diagnose(draws)
    sentence, cards = _statistics(draws, summary["method"])
    # The run noted the same problems.
    advice = tuple(problem.advice for problem in problems)
    notes = [note for note in summary.get("notes", []) if not note.endswith(advice)]
    n_draws = f"{summary['chains'] * summary['draws']:,} draws"
    headline, details = f"{n_draws} in {summary['seconds']:.1f} s", ""
    if problems:
        details = f"{headline}; the problems are listed below. "
        names = ", ".join(dict.fromkeys(problem.name for problem in problems))
        headline = f"The draws are not reliable yet: {names}"
    count = f"{'problem' if len(problems) == 1 else 'problems'} found in the draws"
    fit = verdict_in(summary)
    made = page(
        {**summary, "notes": notes},
        title=f"{summary['model']} on {Path(summary['data']['source']).name}, by "
        f"{summary['method']}",
        headline=headline,
        doubted=bool(problems),
        explanation=details
        + MEANING[summary["method"]]
        + " Stored in draws.nc, for “probmetric neighbors --draws” and ArviZ.",
        sections=[
            Section("Problems of the draws", *map(str, problems)),
            *(
                [curves_section(summary, stored_curves(folder))]
                if "gdm" in summary
                else []
            ),
            *([] if fit is None else [fit_section(fit)]),
            _objects_section(draws, summary)
            if of_objects(summary["data"])
            else _metric_section(shown, summary),
            Section(
                "Neighbors, with their probabilities", *_neighbor_parts(draws, data)
            ),
            Section(
                "The draws",
                sentence,
                lacking,
                *_chains(shown, summary),
                _quantities(draws if shown is None else shown),
            ),
            settings_section(summary),
        ],
        cards=[
            *(cards_of(summary) if "gdm" in summary else []),
            (str(len(problems)), count),
            *cards,
        ],
    )
    return made._replace(banners=[fit_banner(fit)])


def _with_names(
    draws: xr.DataTree, names: list[str], data: Dataset | None
) -> xr.DataTree | None:
    posterior = draws["posterior"].to_dataset()
    matrix = next((name for name in ("M", "J") if name in posterior), None)
    if matrix is None:
        return None
    axes = ("chain", "draw", "feature", "feature_bis")
    coords = {"feature": names, "feature_bis": names}
    values = posterior[matrix].transpose("chain", "draw", ...).to_numpy()
    shown = {"M": xr.DataArray(values, dims=axes, coords=coords)}
    if "b" in posterior:
        shown["b"] = xr.DataArray(posterior["b"].to_numpy(), dims=axes[:2])
    groups = {"posterior": xr.Dataset(shown)}
    if data is not None:
        groups["constant_data"] = xr.Dataset({"X": (("point", "feature"), data.X)})
    return xr.DataTree.from_dict(groups)


def _objects_section(draws: xr.DataTree, summary: Summary) -> Section:
    posterior = posterior_of(draws, max_draws=N_METRICS)
    return Section(
        "The map of the objects",
        Picture(
            plots.objects(posterior, names=summary["data"]["features"]),
            "Points are means of aligned draws, because only distances are identified. "
            "Ellipses contain 90% of the draws. With few judgments, ellipses are too "
            "small (see Benchmarks: triplets).",
        ),
    )


def _metric_section(shown: xr.DataTree | None, summary: Summary) -> Section:
    title = "The metric, with its uncertainty"
    if shown is None:
        return Section(title)
    spec = MODELS.get(summary["model"])
    dependent = (
        spec is not None
        and spec.data_kind is Pairs
        and "answers" not in summary["data"]
    )
    return Section(
        title,
        "Pairs made from class labels share points and are dependent, so the spread of "
        "these draws is not the spread of fits to other samples. For intervals of "
        "distances and probabilities of neighbors, use “probmetric fit lca "
        "--intervals”, or posterior_metric('intervals') in Python."
        if dependent
        else None,
        Picture(
            plots.metric(shown),
            "Mean and standard deviation over draws.",
        ),
        Picture(
            plots.eigenvalues(shown),
            "Eigenvalues of M in each draw, on a logarithmic axis. The number of large "
            "eigenvalues is the number of important directions. Squares are the "
            "eigenvalues of the posterior mean of M. Averaging over draws makes them "
            "more equal.",
        ),
    )


def _neighbor_parts(
    draws: xr.DataTree, data: Dataset | None
) -> tuple[str, Picture] | tuple[()]:
    k = 0 if data is None else min(5, len(data.X) - 2)
    if data is None or k < 1:
        return ()
    try:
        posterior = posterior_of(draws, max_draws=N_METRICS)
    except ValueError:
        return ()  # The draws define no metric.
    row = _least_certain(posterior, data.X, k)
    others = np.delete(np.arange(len(data.X)), row)
    figure = plots.neighbor_probabilities(
        posterior,
        data.X[row],
        data.X[others],
        k,
        names=others,
        y=data.y[others],
        target_names=data.target_names,
    )
    return (
        f"Of {min(N_QUERIES, len(data.X))} rows that were compared, row {row} "
        f"({data.labels[row]}) has the most uncertain {k} nearest neighbors.",
        Picture(
            figure,
            f"Fraction of draws in which a point is among the {k} nearest. At most "
            f"{N_METRICS} draws are used. After a fit to labels, probabilities from "
            "refits (“probmetric fit lca --intervals”) can differ and are better "
            "calibrated for the expected distance.",
        ),
    )


def _least_certain(posterior: PosteriorMetric, X: np.ndarray, k: int) -> int:
    """Return the evenly spaced row with the smallest Σ p² over its neighbors."""
    rows = np.unique(np.linspace(0, len(X) - 1, N_QUERIES).astype(int))
    shares = posterior.neighbor_probability(X[rows], X, min(k + 1, len(X)))
    shares[np.arange(len(rows)), rows] = 0
    return int(rows[np.argmin(np.sum(shares**2, 1))])


def _statistics(draws: xr.DataTree, method: str) -> tuple[str, Cards]:
    if method == "nuts" and "sample_stats" in draws.children:
        stats = draws["sample_stats"].to_dataset()
        diverging = int(stats["diverging"].sum()) if "diverging" in stats else 0
        return f"{diverging} draws diverged.", [(str(diverging), "divergences")]
    khat = draws.attrs.get("khat")
    if khat is None or not np.isfinite(khat):
        return "", []
    close = "is close to" if khat < KHAT_MAX else "is far from"
    sentence = f"PSIS k-hat {khat:.2f}: the approximation {close} the posterior."
    return sentence, [(f"{khat:.2f}", "k-hat (below 0.7 is good)")]


def _chains(shown: xr.DataTree | None, summary: Summary) -> list[Picture]:
    """Compare the chains of NUTS if there are at least two chains."""
    if shown is None or summary["method"] != "nuts" or summary["chains"] == 1:
        return []
    return [
        Picture(rank(shown), RANKS),
        Picture(trace(shown), "Densities and traces, by chain."),
    ]


def _quantities(draws: xr.DataTree) -> Table | None:
    posterior = draws["posterior"].to_dataset()
    small = [str(name) for name in posterior if posterior[name][0, 0].size <= 400]
    if not small:
        return None
    result = summarize(posterior[small])
    columns = {
        "entry": entry_names(posterior[small]),
        "mean": result.estimate,
        "sd": result.sd,
        "Monte Carlo error": result.mcse,
        "effective draws": result.ess,
        **({"R-hat": result.rhat} if posterior.sizes["chain"] > 1 else {}),
    }
    caption = (
        "Every entry, in units of the data (figures use standardized features if the "
        "data is available)"
    )
    return Table(pd.DataFrame(columns), caption, folded=True)
