"""Labeled pairs that are independent: do 90% intervals cover 90%?

    python benchmarks/pairs_coverage.py [--fits 2000] [--worlds 12] [--minutes 30]

*Truths from the prior.* Parameters are drawn from LCA's prior, labels of 30 disjoint
pairs in d = 2 from the NumPyro model, and the posterior at η = 1 is sampled by NUTS in
one compiled program. The distance and P(same) of five other pairs lie, if model and
sampler are right, inside the middle 90 of 100 ranks in 90% of the fits. As a control
the same with η = 2, which is over-confident and must not cover.

*Fixed truths.* A population has axes of the true map in a random frame, the number of
rows that are fitted, b, and pairs at various or at random distances. Half of the
populations were used to choose λ = "auto" and the limits; the others confirm. Intervals
for 30 distances and 15 ratios are those of ``pm.draws_to_metric(model.sample(...))``;
beside them quantiles of the same draws.
"""

import argparse
from functools import partial

import jax.numpy as jnp
import numpy as np
from harness import RESULTS, markdown, mean_error, resumed, write_page

import probmetric as pm
from probmetric.checks import uniformity
from probmetric.checks.ranks import simulation
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    identified,
    lca,
    log_sigma2_of,
)

KEYS = ["part", "population", "n", "seed", "method"]
SIZES = (120, 350, 1000)
POPULATIONS = {
    "A": ((2, 1, 0.3, 0), 4, 0.1, True),
    "B": ((1, 1, 1), 3, 0.5, True),
    "C": ((1.5, 0.8, 0, 0, 0, 0), 2, 0.2, True),
    "D": ((2, 1.5, 1, 0.7, 0.5, 0.3, 0.2, 0.1), 8, 0.1, True),
    "E": ((3, 0.5), 2, 1.0, True),
    "F": ((3, 0, 0, 0, 0, 0), 6, 0.3, True),
    "a": ((1.5, 1.2, 0.9, 0.4, 0.1), 5, 0.25, True),
    "b": ((2, 1, 1, 0.5, 0.5, 0, 0, 0, 0, 0), 10, 0.05, True),
    "c": ((1.5, 0, 0), 1, 0.6, True),
    "e": ((0.8, 0.6, 0.4, 0.1), 4, 0.02, False),
    "f": ((2, 0.8, 0.4, 0, 0), 3, 0.8, True),
    "g": ((0.5,) * 10, 10, 0.1, True),
}
"""Axes of the true map, rows that are fitted, b, and whether distances vary."""

CHOSEN = ("A", "B", "C", "D", "E", "F")
N_PAIRS, N_DRAWS = 30, 99
RNG = np.random.default_rng(6)
POINTS = RNG.normal(size=(N_PAIRS, 2, 2))
A, B = RNG.normal(size=(2, 5, 2))
PRIOR = LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)
HEAD = (
    "Made by `python benchmarks/pairs_coverage.py`, which describes the populations.",
    "The nominal coverage is 0.90. ± is one standard error. Ranks are tested for",
    "uniformity (family-wise at 1%). *distance* and *ratio* are the coverage of the",
    "intervals, and *quantiles* the coverage of quantiles of the draws. *holds the",
    "fit* is the share of intervals that contain the fit.",
)


def functionals(position, data):
    """Return distance and P(same) of the five pairs."""
    params = LCAParams(position["W"], log_sigma2_of(position["log_b"], 2))
    found, delta = identified(params), jnp.asarray(A - B)
    squared = jnp.einsum("nd,de,ne->n", delta, found["M"], delta)
    return {"distance": jnp.sqrt(squared), "P(same)": -(found["b"] + squared / 2)}


def ranks(n_fits, learning_rate, seed):
    """Rank true values among draws at a learning rate, over simulated fits."""
    i = np.arange(N_PAIRS)
    pairs = pm.Pairs(POINTS.reshape(-1, 2), 2 * i, 2 * i + 1, 0 * i)
    ranking = simulation(lca, pairs, (PRIOR,), {"learning_rate": learning_rate})
    ranking = ranking._replace(target=ranking.target._replace(functionals=functionals))
    return ranking(seed=seed, n_simulations=n_fits, n_draws=N_DRAWS)


def shares(found):
    """Return the coverage of the middle 90 of 100 ranks, by quantity."""
    low = (N_DRAWS + 1) // 20
    return {
        name: float(np.mean((row >= low) & (row <= N_DRAWS - low)))
        for name, row in found.ranks.items()
    }


def world(name, n_pairs, seed):
    """Return pairs, labels, the true matrix, 30 differences and the rank to fit."""
    axes, rank, b, near = POPULATIONS[name]
    rng = np.random.default_rng([seed, n_pairs, *map(ord, name)])
    d = len(axes)
    W = np.diag(axes) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    delta = rng.normal(size=(n_pairs, d))
    delta *= rng.uniform(0.2, 1.5, size=(n_pairs, 1)) if near else np.sqrt(2)
    X = rng.normal(size=(n_pairs, d))
    t = b + np.sum((delta @ W.T) ** 2, 1) / 2
    y = (rng.exponential(size=n_pairs) > t).astype(int)
    return np.stack([X, X + delta], 1), y, W, rng.normal(size=(30, d)), rank


def fit(name, n_pairs, seed, regularization, method="laplace"):
    """Return the coverage of distances and of ratios, and of quantiles of draws."""
    pairs, y, W, A, rank = world(name, n_pairs, seed)
    model = pm.LCA(rank, regularization=regularization).fit_pairs(pairs, y)
    draws = model.sample(method, n_draws=500, n_chains=1, seed=seed, progress=False)
    metric, zero = pm.draws_to_metric(draws), np.zeros_like(A)
    truth, values = np.linalg.norm(A @ W.T, axis=1), metric.pair_draws(A, zero)
    first, second = (A[:15], zero[:15]), (A[15:], zero[15:])
    ratio, ratios = truth[:15] / truth[15:], values[:, :15] / values[:, 15:]
    ends = {
        "distance": (truth, metric.interval(A, zero)),
        "ratio": (ratio, metric.ratio_interval(first, second)),
        "distance, quantiles": (truth, np.quantile(values, [0.05, 0.95], axis=0)),
        "ratio, quantiles": (ratio, np.quantile(ratios, [0.05, 0.95], axis=0)),
    }
    row = {k: np.mean((v[0] <= t) & (t <= v[1])) for k, (t, v) in ends.items()}
    low, high = ends["distance"][1]
    inside = model.get_metric().distance(A, zero)
    row["holds the fit"] = np.mean((low <= inside) & (inside <= high))
    return row | {"λ": model.regularization_}


def row(part, name, n, seed, method):
    """Return the row of a case."""
    if part == "ranks":
        found = ranks(n, float(name), seed)
        return shares(found) | {"verdict": uniformity(found).attrs["verdict"]}
    return fit(name, n, seed, part if part == "auto" else float(part), method)


def run(path, options):
    """Add the rows that the CSV lacks, and store it after each."""
    cases = [("ranks", "1", options.fits, 1, "nuts")]
    cases += [("ranks", "2", options.fits // 4, 2, "nuts")]
    fresh_first = sorted(POPULATIONS, key=CHOSEN.__contains__)
    cases += [
        (lam, name, n, seed, "laplace")
        for lam in ("auto", "10")
        for seed in range(options.worlds)
        for name in fresh_first
        for n in SIZES
    ]
    cases += [("auto", name, 350, s, "nuts") for s in range(2) for name in "abc"]
    made = ((case, partial(row, *case)) for case in cases)
    return resumed(path, KEYS, made, options.minutes)


def tables(table):
    """Return the page: ranks, then coverage by population and by number of pairs."""
    lines = [*HEAD, ""]
    rows = []
    for _, row in table[table.part == "ranks"].iterrows():
        for name in ("distance", "P(same)"):
            own = [row[c] for c in table if c.startswith(f"{name}[")]
            shown = ", ".join(f"{v:.3f}" for v in own)
            error = f"{np.sqrt(0.09 / row['n']):.3f}"
            rows.append(
                [row["population"], int(row["n"]), name, shown, error, row["verdict"]]
            )
    lines += ["## Truths from the prior", ""]
    head = ["η", "fits", "quantity", "covered (5 pairs)", "s.e. of one", "ranks"]
    lines += markdown(rows, head)
    columns = ["distance", "ratio", "distance, quantiles", "ratio, quantiles"]
    fits = table[table.part != "ranks"].copy()
    fits["group"] = np.where(fits["population"].isin(CHOSEN), "chosen on", "confirmed")
    fits["λ of fit"] = fits["part"]
    for title, by in (
        ("Fixed truths: all populations", ["group", "λ of fit", "method"]),
        ("By number of pairs (λ = auto)", ["group", "n"]),
        ("By population (λ = auto)", ["group", "population"]),
    ):
        own = fits if "λ of fit" in by else fits[(fits.part == "auto")]
        own = own if "method" in by else own[own.method == "laplace"]
        rows = []
        for keys, part in own.groupby(by, sort=False):
            cells = [mean_error(part[c]) for c in columns]
            cells += [f"{part['holds the fit'].mean():.3f}", f"{part['λ'].mean():.1f}"]
            rows.append([*keys, len(part), *cells])
        lines += [f"## {title}", ""]
        lines += markdown(rows, [*by, "fits", *columns, "holds the fit", "mean λ"])
    return lines


def main():
    """Run, print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, default=2000)
    parser.add_argument("--worlds", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=np.inf)
    table = run(RESULTS / "pairs_coverage.csv", parser.parse_args())
    write_page("pairs_coverage", tables(table), RESULTS)


if __name__ == "__main__":
    main()
