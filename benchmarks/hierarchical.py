"""Partial pooling: held-out log loss, the spread found and covered, a real set.

    python benchmarks/hierarchical.py [--seeds 100 120] [--data DIR]

Worlds: 8 groups of 150 independent pairs in d = 4, x ~ N(0, I), x' - x ~ N(0, r²I) with
r uniform on (.2, 1.5). W = I + N(0, .1) by entry, W_g = W + ω N(0, 1), b = .3, and
labels drawn by the model; ω = 0 (equal), .5 and 1. In ``features`` groups differ in
which features matter: W_g = diag(s), s of each group a permutation of (2, 1, .3, 0).
Each group has 500 more pairs for the test, and there are 4 new groups of 500 pairs.

Compared are ``HierarchicalLCA`` and the same learner at ω = 0, which is LCA, on all
pairs (one metric) and on those of each group (a metric each): P(same) of the mode, and
averaged over Laplace's draws, like with like. Explored on seeds 0-19, reported on
100-119; standard errors are over seeds.

Real sets, 20 random halves of each. German credit (UCI): people who ask for a new car,
a used car or another thing; disjoint random pairs within these groups, *same* is the
same outcome; eight numeric features. USPS digits: the two batches of the set, published
as training and test file and known to differ; pairs of two points of one batch, half of
them the same digit; eight principal components; 200 pairs a batch.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from harness import markdown, mean_error

import probmetric as pm

G, N, D, TEST = 8, 150, 4, 500
WORLDS = {"equal": 0.0, "ω = .5": 0.5, "ω = 1": 1.0, "features": None}
COMPARED = ["pooled - one", "pooled - each", "averaged: pooled - one",
            "averaged: pooled - each", "new groups: pooled - one"]  # fmt: skip


def pairs_of(rng, maps, n, b=0.3):
    """Return pairs (N, 2, d), labels and groups drawn by the model."""
    group = np.repeat(np.arange(len(maps)), n)
    x = rng.normal(size=(len(group), D))
    delta = rng.normal(size=x.shape) * rng.uniform(0.2, 1.5, size=(len(x), 1))
    squared = np.sum(np.einsum("npd,nd->np", maps[group], delta) ** 2, 1)
    t = b + squared / (2 * np.exp(2 * b / D))
    y = (rng.exponential(size=len(t)) > t).astype(int)
    return np.stack([x, x + delta], 1), y, group


def world(name, seed):
    """Return pairs to learn from, to test, and of new groups; and ω."""
    rng = np.random.default_rng(seed)
    spread = WORLDS[name]
    W = np.eye(D) + rng.normal(size=(D, D)) / np.sqrt(10)
    if spread is None:
        scales = np.array([2.0, 1.0, 0.3, 0.0])
        maps = np.stack([np.diag(rng.permutation(scales)) for _ in range(G + 4)])
    else:
        maps = W + spread * rng.normal(size=(G + 4, D, D))
    return (
        pairs_of(rng, maps[:G], N),
        pairs_of(rng, maps[:G], TEST),
        pairs_of(rng, maps[G:], TEST),
    )


def log_loss(y, p):
    """Return the mean log loss."""
    p = np.clip(p, 1e-12, 1 - 1e-12)  # Of 1 at equal points.
    return -np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))


def plug_in(model, pairs, groups):
    """Return P(same) of the mode."""
    p = np.empty(len(pairs))
    for group in np.unique(groups):
        rows = groups == group
        metric = model.get_metric(None if model.groups_ is None else group)
        delta = (pairs[rows, 0] - pairs[rows, 1]) @ np.asarray(metric.factor).T
        p[rows] = metric.link.probability(np.sum(delta**2, 1))
    return p


def compared(train, test, new=None, **settings):
    """Return log losses, and the pooled model."""
    (pairs, y, group), (test_pairs, test_y, test_group) = train, test
    make = pm.HierarchicalLCA
    pooled = make(**settings).fit_pairs(pairs, y, groups=group)
    one = make(spread=0.0, **settings).fit_pairs(pairs, y, groups=group)
    each = {"plug": np.empty(len(test_y)), "mean": np.empty(len(test_y))}
    for g in np.unique(group):
        own, rows = group == g, test_group == g
        alone = make(spread=0.0, **settings).fit_pairs(pairs[own], y[own])
        each["plug"][rows] = plug_in(alone, test_pairs[rows], test_group[rows])
        each["mean"][rows] = alone.same_probability(test_pairs[rows])
    loss = {"each": log_loss(test_y, each["plug"])}
    loss["each, averaged"] = log_loss(test_y, each["mean"])
    for name, model in {"pooled": pooled, "one": one}.items():
        mean = model.same_probability(test_pairs, groups=test_group)
        loss[name] = log_loss(test_y, plug_in(model, test_pairs, test_group))
        loss[f"{name}, averaged"] = log_loss(test_y, mean)
    if new is not None:
        loss["new"] = log_loss(new[1], pooled.same_probability(new[0]))
        loss["new, one"] = log_loss(new[1], one.same_probability(new[0]))
    return loss, pooled


def quantiles(spread, probability):
    """Return the 5, 50 and 95 % points of a grid."""
    middle = np.cumsum(probability) - probability / 2
    return np.interp([0.05, 0.5, 0.95], middle, spread)


def run(name, seed):
    """Return one row of the table of worlds."""
    loss, pooled = compared(*world(name, seed), standardize=False)
    row = {"world": name, "seed": seed, **loss, "spread": pooled.spread_}
    if WORLDS[name]:
        truth = WORLDS[name] / float(pooled.fitted_.prior.common.c)
        low, middle, high = quantiles(*pooled.spread_posterior())
        row |= {"truth": truth, "laplace": middle}
        row["laplace covers"] = low <= truth <= high
        draws = pooled.sample("nuts", n_draws=1000, n_chains=2, progress=False)
        exact = np.quantile(draws["posterior"]["spread"], [0.05, 0.5, 0.95])
        row |= {"nuts": exact[1], "nuts covers": exact[0] <= truth <= exact[2]}
    return row


def german(folder, split):
    """Return one row of the table of the real sets."""
    file = np.load(Path(folder) / "german_numeric.npz")
    X, y = file["X"][:, :10].astype(float), file["y"]
    X = np.delete(X, [7, 8], 1)  # Years of residence; kind of property, a code.
    group = np.where(file["X"][:, 15] == 1, 0, np.where(file["X"][:, 16] == 1, 1, 2))
    X = (X - X.mean(0)) / X.std(0)
    rng = np.random.default_rng(split)
    half = rng.permutation(len(X))
    parts = []
    for rows in np.array_split(half, 2):
        i, j = [], []
        for g in range(3):
            own = rng.permutation(rows[group[rows] == g])
            k = len(own) // 2
            i.append(own[:k])
            j.append(own[k : 2 * k])
        i, j = np.concatenate(i), np.concatenate(j)
        parts.append((np.stack([X[i], X[j]], 1), (y[i] == y[j]).astype(int), group[i]))
    loss, pooled = compared(*parts, standardize=False)
    return {"world": "german credit", **loss, "spread": pooled.spread_}


def usps(folder, split):
    """Return one row of the table of the real sets."""
    file = np.load(Path(folder) / "usps_8x8.npz")
    X, y = file["X"].astype(float), file["y"]
    X = X - X.mean(0)
    U, S, _ = np.linalg.svd(X, full_matrices=False)
    X = (U * S)[:, :8]
    X = X / X.std(0)
    rng = np.random.default_rng(split)
    parts = []
    halves = rng.random(len(X)) < 0.5
    for half, n in ((halves, 200), (~halves, 1000)):
        i, j, group = [], [], np.repeat([0, 1], n)
        for rows in (np.arange(7291), np.arange(7291, len(X))):
            own = rows[half[rows]]
            for k in range(n):
                first = rng.choice(own)
                like = y[own] == y[first]
                i.append(first)
                j.append(rng.choice(own[(like if k % 2 else ~like) & (own != first)]))
        i, j = np.array(i), np.array(j)
        parts.append((np.stack([X[i], X[j]], 1), (y[i] == y[j]).astype(int), group))
    loss, pooled = compared(*parts, standardize=False)
    return {"world": "usps", **loss, "spread": pooled.spread_}


def differences(rows):
    """Return the table of differences of log loss, mean ± standard error."""
    table = pd.DataFrame(rows)
    for other in ("one", "each"):
        table[f"pooled - {other}"] = table["pooled"] - table[other]
        gap = table["pooled, averaged"] - table[f"{other}, averaged"]
        table[f"averaged: pooled - {other}"] = gap
    if "new" in table:
        table["new groups: pooled - one"] = table["new"] - table["new, one"]
    columns = [name for name in COMPARED if name in table]
    found = []
    for name, part in table.groupby("world", sort=False):
        cells = [mean_error(part[c], "+.4f") for c in columns]
        found.append([name, len(part), f"{part['one, averaged'].mean():.4f}", *cells])
    return "\n".join(markdown(found, ["world", "n", "one, averaged", *columns])[:-1])


def spreads(rows):
    """Return the table of the spread: found, and covered by nominal 90 %."""
    table = pd.DataFrame(rows)
    found = []
    for name, part in table.groupby("world", sort=False):
        row = [name, f"{part['spread'].mean():.3f}", f"{(part['spread'] == 0).sum()}"]
        for c in ("truth", "laplace", "nuts", "laplace covers", "nuts covers"):
            values = part[c].astype(float) if c in part else part["spread"] * np.nan
            row.append("–" if values.isna().all() else f"{values.mean():.3f}")
        found.append(row)
    head = ["world", "fitted ω", "fits of 0", "true ω", "median: Laplace", "NUTS"]
    head += ["90 % covers: Laplace", "NUTS"]
    return "\n".join(markdown(found, head)[:-1])


def real_spreads(rows):
    """Say which spreads were found in real sets."""
    table = pd.DataFrame(rows).groupby("world", sort=False)["spread"]
    return "Fitted ω: " + "; ".join(
        f"{name} {part.mean():.3f} ({part.min():.3f} to {part.max():.3f})"
        for name, part in table
    )


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 120])
    parser.add_argument("--data", help="folder with german_numeric, usps_8x8")
    args = parser.parse_args()
    rows = []
    for name in WORLDS:
        for seed in range(*args.seeds):
            rows.append(run(name, seed))
            print(rows[-1], flush=True)
    if rows:
        print(differences(rows), "\n\n" + spreads(rows), sep="")
    if args.data:
        real = []
        for kind in (german, usps):
            real += [kind(args.data, split) for split in range(*args.seeds)]
        print("\n" + differences(real) + "\n\n" + real_spreads(real))


if __name__ == "__main__":
    main()
