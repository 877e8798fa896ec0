"""The study that ``validate --data`` adds to the checks: draws, figures, neighbours.

A study is the learner's whole life on one data set: the closed form, its posterior by
three methods, how far the approximations are from NUTS, whether the model would have
produced the labels, and what the metric is worth to nearest neighbours held out.

``lca_study`` does what takes long, once; ``lca_sections`` draws the figures from what
was kept of it, and from the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import xarray as xr

from probmetric import plots
from probmetric.checks.compare import distance
from probmetric.data.scaling import taught_scale
from probmetric.datasets.loading import Dataset
from probmetric.estimators.lca.estimator import LCA
from probmetric.evaluation.cross_validate import (
    class_spread,
    euclid,
    summary,
    vote_scores,
)
from probmetric.inference.lca.likelihood import to_params
from probmetric.models.lca import identified
from probmetric.neighbors import KNeighborsClassifier
from probmetric.report.page import RANKS, Picture, Section, Table

# Reported draws of NUTS a chain, splits of the neighbour table; full and quick.
SIZES = {False: (1000, 10), True: (600, 5)}


class Study(NamedTuple):
    """What a run keeps of a study: draws, tables by name, and cards (figure, name)."""

    draws: xr.DataTree
    tables: Mapping[str, pd.DataFrame]
    cards: Sequence[tuple[str, str]]


def prior_draws(estimator: LCA, n_draws: int, seed: int) -> xr.Dataset:
    """Draw M and b from the prior of a fit, in input units, as one chain."""
    fitted = estimator.fitted_
    prior, scale = fitted.prior, taught_scale(fitted.pairs.X, estimator.scale_)
    rng = np.random.default_rng(seed)
    mean = np.asarray(prior.mean)
    W = mean + float(prior.width) / np.sqrt(float(prior.lam)) * rng.standard_normal(
        (n_draws, *mean.shape)
    )
    b = rng.gamma(float(prior.b_shape), 1 / float(prior.b_rate), n_draws)
    with jax.enable_x64(True):
        at = {"W": W, "log_b": np.log(b)}
        found = jax.vmap(lambda one: identified(to_params(one)))(at)
    M = np.asarray(found["M"]) / np.outer(scale, scale)
    return xr.Dataset(
        {
            "M": (("chain", "draw", "feature", "feature_bis"), M[None]),
            "b": (("chain", "draw"), np.asarray(found["b"])[None]),
        }
    )


def approximations(
    reference: xr.DataTree, others: dict[str, xr.DataTree]
) -> pd.DataFrame:
    """Return how far each approximation is from NUTS, in posterior sd, and its k-hat.

    Never called agreement: this is the price of speed, in figures.
    """
    wanted = reference["posterior"].to_dataset()[["M", "b"]]
    rows: list[dict[str, str | float]] = []
    for name, tree in others.items():
        table = distance(wanted, tree["posterior"].to_dataset()[["M", "b"]])
        shift = np.abs(table["shift"].to_numpy())
        ratio = table["log_sd_ratio"].to_numpy()
        rows.append(
            {
                "method": name,
                "largest shift of a mean, sd": float(shift.max()),
                "median shift, sd": float(np.median(shift)),
                "sd ratio, smallest": float(np.exp(ratio.min())),
                "sd ratio, largest": float(np.exp(ratio.max())),
                "PSIS k-hat": float(tree.attrs.get("khat", np.nan)),
            }
        )
    return pd.DataFrame(rows)


def _metric_section(estimator: LCA, draws: xr.DataTree, data: Dataset) -> Section:
    metric = estimator.get_metric()
    return Section(
        "The learned metric",
        [
            "The posterior of the metric M under the model, sampled by NUTS. Only M "
            "and the intercept b are identified; the map W behind M is so only up to "
            "rotation, and is not shown.",
            "These are intervals of the model's posterior for its pairs. They are not "
            "confidence intervals under new data: for distances between points use "
            "posterior_metric('intervals'), whose coverage was measured.",
        ],
        [
            Picture(
                plots.metric(draws),
                "Above: posterior mean of M. Below: its standard deviation over draws. "
                "Features with large diagonal entries separate the classes.",
            ),
            Picture(
                plots.eigenvalues(draws, reference=metric.matrix),
                "Eigenvalues of M: how many directions matter. Circles and lines are "
                "those of the draws, squares of their mean E[M], diamonds of M at the "
                "mode of W, the closed form. Noise of W adds to the eigenvalues of "
                "E[M] (squares); those of a single draw spread further, the largest "
                "up, the smallest down: a diamond or square beside its line is no "
                "disagreement.",
            ),
            Picture(
                plots.embedding(
                    estimator, data.X, data.y, links=3, target_names=data.target_names
                ),
                "All points in the plane that holds most of the learned distance under "
                "M at the mode, the closed form, linked to their three nearest "
                "neighbours (training points: this is what was fitted, not a test).",
            ),
        ],
    )


def _predictive_section(estimator: LCA, draws: xr.DataTree, seed: int) -> Section:
    pairs = estimator.fitted_.pairs
    shown = pairs._replace(X=estimator.mean_ + pairs.X * estimator.scale_)
    figure = plots.predictive_check(
        draws, shown, prior=prior_draws(estimator, 400, seed), seed=seed
    )
    return Section(
        "Would the model have produced these labels?",
        [
            f"{len(pairs.i):,} pairs of nearest points, made from the class labels. "
            f"Their likelihood enters with learning rate "
            f"{estimator.learning_rate_:.3g}, since pairs that share points are not "
            "independent observations. The prior of W has its centre and scale from "
            "the same pairs (empirical Bayes); P(same) of identical points is uniform "
            "on (0, 1) under the prior."
        ],
        [
            Picture(
                figure,
                "Share of pairs of one class by distance: observed, and replicated "
                "under prior and posterior draws (each band holds 95 % of whole "
                "curves), by the model's own link, exp(-(b + dist²/2)), on the pairs "
                "of the fit. Replicates that are fitted again, as the labels were, "
                "make the narrower bands above. Points above the band where pairs are "
                "near say that a prior and a learning rate chosen for neighbours "
                "understate P(same) there: what LCA states is calibrated on held-out "
                "pairs.",
            )
        ],
    )


def _sampler_section(draws: xr.DataTree, distances: pd.DataFrame) -> Section:
    stats = draws["sample_stats"].to_dataset()
    diverging = int(stats["diverging"].sum())
    steps = float(stats["n_steps"].mean())
    return Section(
        "Did the samplers do their work?",
        [
            f"NUTS: {stats.sizes['chain']} chains of {stats.sizes['draw']} draws, "
            f"{diverging} divergences, {steps:.1f} gradients a draw. The others are "
            "approximations; their distance from NUTS is stated in figures. The checks "
            "run SVI of their own, longer and from a random start: its figures differ."
        ],
        [
            Picture(plots.rank(draws), RANKS),
            Picture(plots.trace(draws), "Densities and traces of the same, by chain."),
        ],
        [Table(distances, "Approximations against NUTS, over all entries of M and b")],
    )


def _scores(data: Dataset, n_splits: int, seed: int) -> pd.DataFrame:
    """Return scores of neighbours on held-out points, the Euclidean first."""
    learners = {
        "Euclidean": lambda X, _: euclid(X),
        "LCA, closed form": lambda X, y: LCA(link="model").fit(X, y).get_metric(),
        "LCA, posterior average": lambda X, y: (
            LCA().fit(X, y).posterior_metric("prediction", seed=seed)
        ),
    }
    return vote_scores(learners, data.X, data.y, n_splits=n_splits, seed=seed)


def _neighbor_section(data: Dataset, scores: pd.DataFrame, seed: int) -> Section:
    return Section(
        "Neighbours, on points held out",
        [
            "Soft votes of neighbours on 30 % held-out points, bandwidths chosen "
            "by leave-one-out on the training part. The posterior average averages "
            "the votes of draws, never distances: the mean squared distance is the "
            "distance under the mean metric."
        ],
        _query_pictures(data, seed),
        [
            Table(
                scores,
                "Stratified splits, the same for every row; log score: higher is "
                "better, Brier score: lower is better",
            )
        ],
    )


def _query_pictures(data: Dataset, seed: int) -> list[Picture]:
    """Draw the held-out point that the posterior is least sure of."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.X))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    X, y = data.X[train], data.y[train]
    near = LCA().fit(X, y).posterior_metric("prediction", n_draws=64, seed=seed)
    classifier = KNeighborsClassifier(near).fit(X, y)
    stated = classifier.predict_proba(data.X[test])
    unsure = int(np.argmin(stated.max(1)))
    query, row = data.X[test[unsure]], int(test[unsure])
    spread = class_spread(near, X, y, query, bandwidth=classifier.bandwidth_)
    names = [data.target_names[int(c)] for c in classifier.classes_]
    truth = data.target_names[int(data.y[row])]
    return [
        Picture(
            plots.class_probabilities(
                spread,
                classes=names,
                truth=truth,
                title=f"Row {row}, the least certain held-out point",
            ),
            "Each dot is the answer of one draw of the metric; the bar is their mean.",
        ),
        Picture(
            plots.neighbor_probabilities(
                near, query, X, 5, names=train, y=y, target_names=data.target_names
            ),
            "Who is among the five nearest of that point, and how sure that is.",
        ),
    ]


def lca_study(data: Dataset, *, quick: bool, seed: int) -> Study:
    """Fit, sample and use LCA on one data set.

    Parameters
    ----------
    data : Dataset
    quick : bool
        Fewer draws and splits.
    seed : int
    """
    n_draws, n_splits = SIZES[quick]
    estimator = LCA().fit(data.frame, data.y)
    trees = {
        method: estimator.sample(method, n_draws=n_draws, n_chains=4, seed=seed)
        for method in ("nuts", "laplace", "svi")
    }
    draws = trees.pop("nuts")
    results = _scores(data, n_splits, seed)
    shares: Any = results.groupby("metric")["accuracy"].mean()
    accuracy = {name: f"{share:.1%}" for name, share in shares.items()}
    return Study(
        draws,
        {"approximations": approximations(draws, trees), "neighbors": summary(results)},
        [
            (f"{len(data.X)} × {data.X.shape[1]}", "points × features"),
            (accuracy["Euclidean"], "held-out accuracy, Euclidean"),
            (accuracy["LCA, closed form"], "held-out accuracy, LCA"),
        ],
    )


def lca_sections(study: Study, data: Dataset, *, seed: int) -> list[Section]:
    """Return the sections of a study's report; LCA is fitted again for its figures."""
    estimator = LCA().fit(data.frame, data.y)
    return [
        _metric_section(estimator, study.draws, data),
        _predictive_section(estimator, study.draws, seed),
        _neighbor_section(data, study.tables["neighbors"], seed),
        _sampler_section(study.draws, study.tables["approximations"]),
    ]
