"""Judged pairs with effects of groups or of points: do 90% intervals cover 90%?

    python benchmarks/effects_coverage.py [--worlds 8] [--minutes 30] [--method laplace]

*Groups.* G groups of N independent pairs, x ~ N(0, I), x' - x ~ N(0, r²I)
with r uniform on (0.2, 1.5). The map of a group is W + ω N(0, 1) by entry. W has the
axes of the world in a random frame. Intervals are for 30 distances, and for 15 ratios,
under the metrics of the first two groups.

*Points.* All pairs of 20 points, judged N times. The effects of points have the spread
ω. Intervals are for 30 distances and 15 ratios of other pairs.

The learners have their default settings. λ = "auto" is chosen by the evidence of LCA
without effects; ``--regularization`` sets another.
"""

import argparse
from functools import partial

import jax
import numpy as np
from harness import RESULTS, markdown, mean_error, resumed, write_page

import probmetric as pm
from probmetric.models.lca import log_sigma2_of
from probmetric.models.point_effects import PointEffectsParams, simulate

WORLDS = {
    "groups": {
        "near": (8, 60, (1, 1, 1, 1), 0.3, 0.2),
        "apart": (4, 150, (2, 1, 0.3), 0.3, 0.6),
        "few": (3, 60, (1.5, 0.8, 0.2, 0), 0.6, 0.3),
        "equal": (6, 80, (1.5, 0.5), 0.1, 0.0),
    },
    "points": {
        "weak": (0, 2, (1.5, 1, 0.4), 0.5, 0.3),
        "strong": (0, 4, (1, 0.7), 1.0, 1.0),
        "none": (0, 2, (2, 0.5, 0), 0.3, 0.0),
    },
}
"""G, N, axes of W, b and ω."""


def frame(rng, axes):
    """Return W with the axes in a random frame."""
    d = len(axes)
    return np.diag(axes) @ np.linalg.qr(rng.normal(size=(d, d)))[0]


def of_groups(rng, lam, G, N, axes, b, spread):
    """Return a fit, and the true maps of the first two groups by label."""
    d, group = len(axes), np.repeat(np.arange(G), N)
    maps = frame(rng, axes) + spread * rng.normal(size=(G, d, d))
    x, delta = rng.normal(size=(2, G * N, d))
    delta *= rng.uniform(0.2, 1.5, size=(G * N, 1))
    t = b + np.sum(np.einsum("npd,nd->np", maps[group], delta) ** 2, 1) / 2
    y = (rng.exponential(size=len(t)) > t).astype(int)
    pairs = np.stack([x, x + delta], 1)
    model = pm.HierarchicalLCA(regularization=lam).fit_pairs(pairs, y, groups=group)
    return model, {g: maps[g] for g in (0, 1)}


def of_points(rng, lam, _, N, axes, b, spread):
    """Return a fit, and the true map."""
    d, W = len(axes), frame(rng, axes)
    X, log_sigma2 = rng.normal(size=(20, d)), np.asarray(log_sigma2_of(np.log(b), d))
    scale = np.sqrt(1 + 2 * np.exp(log_sigma2))
    effects = spread * rng.normal(size=20)
    i, j = (np.tile(k, N) for k in np.triu_indices(20, 1))
    truth = PointEffectsParams(scale * W, log_sigma2, np.array(spread), effects)
    with jax.enable_x64(True):
        key = jax.random.key(int(rng.integers(2**31)))
        y = np.asarray(simulate(key, truth, pm.Pairs(X, i, j, None)).y)
    model = pm.PointEffectsLCA(regularization=lam)
    return model.fit_pairs(np.stack([X[i], X[j]], 1), y), {None: W}


def row(kind, name, seed, method, lam):
    """Return the row of one world: its coverage."""
    rng = np.random.default_rng([seed, *map(ord, kind + name)])
    model, truths = {"groups": of_groups, "points": of_points}[kind](
        rng, lam if lam == "auto" else float(lam), *WORLDS[kind][name]
    )
    draws = model.sample(method, n_draws=500, n_chains=1, seed=seed, progress=False)
    found = {"distance": [], "ratio": []}
    for group, W in truths.items():
        more = {} if group is None else {"group": group}
        metric = model.posterior_metric("intervals", draws=draws, n_draws=500, **more)
        A = rng.normal(size=(30, W.shape[1]))
        zero, true = np.zeros_like(A), np.linalg.norm(A @ W.T, axis=1)
        low, high = metric.interval(A, zero)
        found["distance"].append(np.mean((low <= true) & (true <= high)))
        first, second = (A[:15], zero[:15]), (A[15:], zero[15:])
        low, high = metric.ratio_interval(first, second)
        true = true[:15] / true[15:]
        found["ratio"].append(np.mean((low <= true) & (true <= high)))
    prior = model.fitted_.prior.common
    shares = {question: np.mean(values) for question, values in found.items()}
    return shares | {"λ": float(prior.lam), "ω / c": model.spread_}


KEYS = ["effects", "world", "seed", "method", "λ of fit"]


def tables(table):
    """Return coverage by effects and method, and by world."""
    lines = []
    common = ["effects", "method", "λ of fit"]
    for by in (common, [*common, "world"]):
        body = []
        for keys, part in table.groupby(by, sort=False):
            cells = [mean_error(part[c]) for c in ("distance", "ratio")]
            extra = [f"{part[c].mean():.2f}" for c in ("λ", "ω / c")]
            body.append([*keys, len(part), *cells, *extra])
        header = [*by, "fits", "distance", "ratio", "mean λ", "mean ω / c"]
        lines += markdown(body, header)
    return lines


def main():
    """Run the cases that are not in the CSV, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--method", default="laplace")
    parser.add_argument("--regularization", default="auto")
    parser.add_argument("--table", action="store_true", help="only write the page")
    options = parser.parse_args()
    path = RESULTS / "effects_coverage.csv"
    cases = [
        (kind, name, seed, options.method, options.regularization)
        for seed in range(0 if options.table else options.worlds)
        for kind, worlds in WORLDS.items()
        for name in worlds
    ]
    made = ((case, partial(row, *case)) for case in cases)
    table = resumed(path, KEYS, made, options.minutes)
    write_page("effects_coverage", tables(table), RESULTS)


if __name__ == "__main__":
    main()
