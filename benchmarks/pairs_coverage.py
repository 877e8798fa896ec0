"""Labeled pairs that are independent: do 90 % intervals cover 90 %?

    python benchmarks/pairs_coverage.py [--fits 2000] [--public 100]

Parameters are drawn from LCA's prior, labels of 30 disjoint pairs in d = 2 from the
NumPyro model, and the posterior at η = 1 is sampled by NUTS in one compiled program.
The distance and P(same) of five other pairs lie, if model and sampler are right,
inside the middle 90 of 100 ranks in 90 % of the fits: no asymptotics, no choice of
truth. As a control the same with η = 2, which is over-confident and must not cover.

``--public`` fits are made by ``LCA().fit_pairs(...).posterior_metric("intervals")``,
with the prior handed in: by NUTS, by Laplace, and by the bootstrap. The tables go to
results/pairs_coverage.md.
"""

import argparse
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

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

N_PAIRS, N_DRAWS = 30, 99
RNG = np.random.default_rng(6)
POINTS = RNG.normal(size=(N_PAIRS, 2, 2))
A, B = RNG.normal(size=(2, 5, 2))
PRIOR = LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)
HEAD = (
    "Made by `python benchmarks/pairs_coverage.py`, which says how. 90 % is right;",
    "ranks are tested for uniformity, the log likelihood's too (family-wise at 1 %).",
)
METHODS = ("nuts", "laplace", "bootstrap")


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


def public(n_fits, method):
    """Return coverage of distances and of P(same) through the public interface."""
    rng = np.random.default_rng(11)
    inside = []
    for seed in range(n_fits):
        W = PRIOR.mean + 0.8 / np.sqrt(2) * rng.normal(size=(2, 2))
        sigma2 = 0.3 * np.exp(rng.normal())
        eta, b = 1 + 2 * sigma2, np.log1p(2 * sigma2)

        def squared(delta, W=W, eta=eta):
            return np.sum((delta @ W.T) ** 2, -1) / eta

        P = np.exp(-b - squared(POINTS[:, 0] - POINTS[:, 1]) / 2)
        y = (rng.random(N_PAIRS) < P).astype(int)
        if y.min() == y.max():
            continue  # fit_pairs wants both labels
        fit = pm.LCA(prior_mean=PRIOR.mean, regularization=2.0, standardize=False)
        draws = fit.fit_pairs(POINTS, y).posterior_metric(
            "intervals", method=method, n_draws=400, seed=seed
        )
        truth = squared(A - B)
        low, high = draws.interval(A, B)
        same = [m.same_probability(A, B) for m in draws.metrics()]
        low_same, high_same = np.quantile(same, [0.05, 0.95], axis=0)
        P_truth = np.exp(-b - truth / 2)
        inside.append(
            [
                np.mean((low <= np.sqrt(truth)) & (np.sqrt(truth) <= high)),
                np.mean((low_same <= P_truth) & (P_truth <= high_same)),
            ]
        )
    inside = np.array(inside)
    return inside.mean(0), inside.std(0) / np.sqrt(len(inside)), len(inside)


def main():
    """Run, print and store both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, default=2000)
    parser.add_argument("--public", type=int, default=100)
    options = parser.parse_args()
    lines = ["# Coverage of 90 % intervals, labeled independent pairs", "", *HEAD, ""]
    lines += ["| η | fits | quantity | covered (5 pairs) | s.e. of one | ranks |"]
    lines += ["|---" * 6 + "|"]
    for rate, n_fits in ((1.0, options.fits), (2.0, options.fits // 4)):
        began = time.perf_counter()
        found = ranks(n_fits, rate, seed=int(rate))
        verdict, covered = uniformity(found), shares(found)
        for name in ("distance", "P(same)"):
            own = [v for key, v in covered.items() if key.startswith(name)]
            shown = ", ".join(f"{v:.3f}" for v in own)
            error = np.sqrt(0.09 / n_fits)
            lines.append(
                f"| {rate:g} | {n_fits} | {name} | {shown} (mean {np.mean(own):.3f}) "
                f"| {error:.3f} | {verdict.attrs['verdict']} |"
            )
        print(f"η = {rate:g}: {time.perf_counter() - began:.0f} s", flush=True)
    if options.public:
        lines += ["", "| fit_pairs, method | fits | distances | P(same) |"]
        lines += ["|---" * 4 + "|"]
    for method in METHODS if options.public else ():
        mean, error, n_fits = public(options.public, method)
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
        lines.append(f"| {method} | {n_fits} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    (Path(__file__).parent / "results" / "pairs_coverage.md").write_text(text)


if __name__ == "__main__":
    main()
