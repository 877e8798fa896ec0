"""The study of ``validate --data``: draws, figures and neighbors on one dataset.

A study of LCA contains the closed form, its posterior by three methods, the distances
of the approximations from NUTS, a predictive check of the labels, and held-out scores
of nearest neighbors.

``lca_study`` computes what is slow, once; ``lca_sections`` draws the figures from its
results and the data.
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
from probmetric.neighbors import KNeighborsClassifier, nearest
from probmetric.plots.draws import rank, trace
from probmetric.report.page import RANKS, Picture, Section, Table

# NUTS draws per chain and splits of the neighbor table; full and quick.
SIZES = {False: (1000, 10), True: (600, 5)}


class Study(NamedTuple):
    """Results of a study: draws, tables by name, and cards (figure, name)."""

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
        sites = {"W": W, "log_b": np.log(b)}
        draws = jax.vmap(lambda site: identified(to_params(site)))(sites)
    M = np.asarray(draws["M"]) / np.outer(scale, scale)
    return xr.Dataset(
        {
            "M": (("chain", "draw", "feature", "feature_bis"), M[None]),
            "b": (("chain", "draw"), np.asarray(draws["b"])[None]),
        }
    )


def approximations(
    reference: xr.DataTree, others: dict[str, xr.DataTree]
) -> pd.DataFrame:
    """Distance of each approximation from NUTS, in posterior sd, and its k-hat."""
    exact = reference["posterior"].to_dataset()[["M", "b"]]
    rows: list[dict[str, str | float]] = []
    for name, tree in others.items():
        table = distance(exact, tree["posterior"].to_dataset()[["M", "b"]])
        shift = np.abs(table["shift"].to_numpy())
        ratio = np.exp(table["log_sd_ratio"].to_numpy())
        rows.append(
            {
                "method": name,
                "largest shift of a mean, sd": float(shift.max()),
                "median shift, sd": float(np.median(shift)),
                "sd ratio, smallest": float(ratio.min()),
                "sd ratio, largest": float(ratio.max()),
                "PSIS k-hat": float(tree.attrs.get("khat", np.nan)),
            }
        )
    return pd.DataFrame(rows)


def _query_pictures(data: Dataset, seed: int) -> list[Picture]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.X))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    X, y = data.X[train], data.y[train]
    model = LCA().fit(X, y)
    same, stated = held_out_same(model, X, y, data.X[test], data.y[test], seed)
    near = model.posterior_metric("prediction", n_draws=64, seed=seed)
    classifier = KNeighborsClassifier(near).fit(X, y)
    P = classifier.predict_proba(data.X[test])
    row = int(test[np.argmin(P.max(1))])
    query = data.X[row]
    spread = class_spread(near, X, y, query, bandwidth=classifier.bandwidth_)
    classes = plots.class_probabilities(
        spread,
        classes=[data.target_names[int(c)] for c in classifier.classes_],
        truth=data.target_names[int(data.y[row])],
        title=f"Row {row}, the least certain held-out point",
    )
    neighbors = plots.neighbor_probabilities(
        near, query, X, 5, names=train, y=y, target_names=data.target_names
    )
    return [
        Picture(
            plots.calibration(same, stated, band=0.9),
            "P(same) of held-out points with their five nearest training rows and with "
            "five random ones (same_probability: the class probabilities).",
        ),
        Picture(classes, "Each dot is one draw of the metric. The bar is the mean."),
        Picture(neighbors, "Probability of being among the five nearest neighbors."),
    ]


def held_out_same(
    model: LCA,
    X: np.ndarray,
    y: np.ndarray,
    B: np.ndarray,
    b: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and P(same) of held-out points B with near and random rows of X."""
    near = nearest(model.get_metric(), B, X, 5)[1]
    chance = np.random.default_rng(seed).integers(0, len(X), near.shape)
    rows, query = np.hstack([near, chance]).ravel(), np.repeat(np.arange(len(B)), 10)
    stated = model.same_probability(np.stack([B[query], X[rows]], 1))
    return (b[query] == y[rows]).astype(int), stated


def lca_study(data: Dataset, *, quick: bool, seed: int) -> Study:
    """Fit, sample and use LCA on one dataset; ``quick`` uses fewer draws and splits."""
    n_draws, n_splits = SIZES[quick]
    estimator = LCA().fit(data.frame, data.y)
    trees = {
        method: estimator.sample(method, n_draws=n_draws, n_chains=4, seed=seed)
        for method in ("nuts", "laplace", "svi")
    }
    draws = trees.pop("nuts")
    learners = {
        "Euclidean": lambda X, _: euclid(X),
        "LCA, closed form": lambda X, y: LCA().fit(X, y).get_metric(),
        "LCA, posterior average": lambda X, y: (
            LCA().fit(X, y).posterior_metric("prediction", seed=seed)
        ),
    }
    scores = vote_scores(learners, data.X, data.y, n_splits=n_splits, seed=seed)
    shares: Any = scores.groupby("metric")["accuracy"].mean()
    return Study(
        draws,
        {"approximations": approximations(draws, trees), "neighbors": summary(scores)},
        [
            (f"{len(data.X)} × {data.X.shape[1]}", "points × features"),
            (f"{shares['Euclidean']:.1%}", "held-out accuracy, Euclidean"),
            (f"{shares['LCA, closed form']:.1%}", "held-out accuracy, LCA"),
        ],
    )


def lca_sections(study: Study, data: Dataset, *, seed: int) -> list[Section]:
    """Make the sections of a study's report; LCA is refitted for its figures."""
    estimator = LCA().fit(data.frame, data.y)
    draws, pairs = study.draws, estimator.fitted_.pairs
    stats = draws["sample_stats"].to_dataset()
    in_units = pairs._replace(X=estimator.mean_ + pairs.X * estimator.scale_)
    prior = prior_draws(estimator, 400, seed)
    return [
        Section(
            "The learned metric",
            "Posterior of the metric M under the model, sampled by NUTS. M and the "
            "intercept b are identified. The linear map W with M = WᵀW is identified "
            "only up to rotation and is not shown.",
            "These are posterior intervals under the model for its pairs, not "
            "confidence intervals under new data. For distances between points use "
            "posterior_metric('intervals').",
            Picture(
                plots.metric(draws),
                "Above is the posterior mean of M, and below its standard deviation. "
                "Features with large diagonal entries separate the classes.",
            ),
            Picture(
                plots.eigenvalues(draws, reference=estimator.get_metric().matrix),
                "Eigenvalues of M. The number of large eigenvalues is the number of "
                "important directions. Circles and lines are draws, squares the mean "
                "E[M], and diamonds M at the mode of W (closed form). Posterior "
                "variance of W increases the eigenvalues of E[M]. The eigenvalues of a "
                "single draw are more spread out. A diamond or square may therefore "
                "lie beside its line without a disagreement.",
            ),
            Picture(
                plots.embedding(
                    estimator, data.X, data.y, links=3, target_names=data.target_names
                ),
                "All points in the plane with the largest share of the learned "
                "distance, for M at the mode (closed form). Lines link each point to "
                "its three nearest neighbors. These are training points, not a test.",
            ),
        ),
        Section(
            "Predictive check of the labels",
            f"{len(pairs.i):,} pairs of nearest points, made from the class labels. "
            f"Their likelihood has the learning rate {estimator.learning_rate_:.3g}, "
            "because pairs that share points are dependent. The center and scale of "
            "the prior of W are estimated from the same pairs (empirical Bayes). Under "
            "the prior, P(same) of identical points is uniform on (0, 1).",
            Picture(
                plots.predictive_check(draws, in_units, prior=prior, seed=seed),
                "Share of same-class pairs by distance: observed, and replicated from "
                "prior and posterior draws with P(same) = exp(-(b + dist²/2)). The "
                "pairs are the fitted pairs. Each band contains 95% of whole curves. "
                "The bands above are narrower, because their replicates are refitted. "
                "If near pairs are above the band, the model underestimates their "
                "P(same), because the prior and learning rate were chosen for "
                "neighbors. same_probability uses class probabilities instead.",
            ),
        ),
        Section(
            "Neighbors of held-out points",
            "Soft votes of neighbors on 30% held-out points. Bandwidths are chosen by "
            "leave-one-out on the training points. The posterior average is the mean "
            "of votes over draws, not of distances, because the mean squared distance "
            "is the distance under the mean metric.",
            *_query_pictures(data, seed),
            Table(
                study.tables["neighbors"],
                "Stratified splits, the same for every row (log score: higher is "
                "better; Brier score: lower is better)",
            ),
        ),
        Section(
            "Diagnostics of the samplers",
            f"NUTS: {stats.sizes['chain']} chains of {stats.sizes['draw']} draws, "
            f"{int(stats['diverging'].sum())} divergences, "
            f"{float(stats['n_steps'].mean()):.1f} gradients per draw. The other "
            "methods are approximations, shown with their distance from NUTS. The "
            "checks use longer SVI runs with a random start, so their figures differ.",
            Picture(rank(draws), RANKS),
            Picture(trace(draws), "Densities and traces, by chain."),
            Table(
                study.tables["approximations"],
                "Approximations against NUTS, over all entries of M and b",
            ),
        ),
    ]
