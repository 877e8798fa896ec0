"""LCA's solvers: evaluations and time to the optimum, and an iteration's floor.

    python benchmarks/lca_solvers.py

1. Map evaluations and seconds until a relative gap of 1e-6, on the three problems of
   tests/inference/lca/test_fit.py (optimum by L-BFGS to a gradient of 1e-9).
2. One reduced-EM iteration at N = 100 000 pairs, d = 64, p = 10, over the time of its
   two matrix products alone; and how it depends on the number of y = 1 pairs.

All figures of a table come from one run; ratios are what to quote.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.data import Pairs
from probmetric.inference import lca
from probmetric.models.lca import LCAParams, LCAPrior, simulate

PROBLEMS = [(400, 5, 2, 0.65, 3), (600, 8, 3, 0.1, 3), (400, 5, 2, 0.098, 405)]


def median_seconds(function, repeats=15):
    """Return the median time of a call after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def simulated(N, d, p, sigma2, seed):
    """Return disjoint pairs, a flat prior and a random start."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * N, d))
    i = np.arange(N)
    truth = LCAParams(rng.normal(size=(p, d)) / np.sqrt(d) * 1.2, np.log(sigma2))
    pairs = simulate(jax.random.key(seed), truth, Pairs(X, i, i + N, None))
    flat = LCAPrior(np.zeros((p, d)), lam=0.0, b_shape=0.0, b_rate=0.0)
    start = LCAParams(rng.normal(size=(p, d)) * 0.3, np.log(np.array(0.3)))
    return pairs._replace(y=np.asarray(pairs.y)), flat, start


def to_the_gap():
    """Print evaluations and seconds per solver and problem."""
    print("solver     " + "".join(f"{q[:4]!s:>26}" for q in PROBLEMS))
    for solver, limit in (
        ("lbfgs", 500), ("squarem", 500), ("em", 5000), ("full_em", 30000)
    ):  # fmt: skip
        row = f"{solver:<11}"
        for size in PROBLEMS:
            pairs, flat, start = simulated(*size)
            best = lca.fit(pairs, flat, init=start, tol=1e-9).objective

            def fit(pairs=pairs, flat=flat, start=start, solver=solver, limit=limit):
                return lca.fit(pairs, flat, init=start, solver=solver, max_steps=limit)

            found = fit()
            trace = np.asarray(found.trace[: int(found.n_steps)])
            near = np.flatnonzero(best - trace <= 1e-6 * abs(best))
            per_step = int(found.n_evaluations) / int(found.n_steps)
            seconds = median_seconds(fit, 3)
            if near.size:
                share = (near[0] + 1) / int(found.n_steps)
                text = f"{per_step * (near[0] + 1):.0f} ev {1e3 * seconds * share:.1f}"
                row += f"{text + ' ms':>26}"
            else:
                row += f"{'gap not reached':>26}"
        print(row)


def floor(N=100_000, d=64, p=10):
    """Print an iteration over its two products, for several shares of y = 1 pairs."""
    rng = np.random.default_rng(0)
    delta = jnp.asarray(rng.normal(size=(N, d)))
    W = jnp.asarray(rng.normal(size=(p, d)) * 0.1)
    C = jnp.asarray(rng.normal(size=(N, p)))
    project = jax.jit(lambda W, delta: delta @ W.T)
    scatter = jax.jit(lambda C, delta: C.T @ delta)
    products = median_seconds(
        lambda: jax.block_until_ready((project(W, delta), scatter(C, delta)))
    )
    print(f"two products, {N} rows, d = {d}, p = {p}: {1e3 * products:.2f} ms")
    step = jax.jit(lca.reduced_step)
    flat = LCAPrior(np.zeros((p, d)), lam=0.0, b_shape=0.0, b_rate=0.0)
    X = np.concatenate([np.asarray(delta), np.zeros((N, d))])
    for share in (0.0, 0.5, 0.9):
        y = (np.arange(N) < share * N).astype(int)
        pairs = Pairs(X, np.arange(N), np.arange(N) + N, y)
        stats = lca.prepare(pairs, by_points=False)
        data = jax.tree.map(jnp.asarray, (stats, flat, 1.0, lca.spectrum(stats.T)))
        state = {"W": W, "log_b": jnp.asarray(-1.0)}
        seconds = median_seconds(
            lambda s=state, d=data: jax.block_until_ready(step(s, d))
        )
        print(
            f"iteration with {100 * share:.0f} % y = 1: {1e3 * seconds:.2f} ms, "
            f"{seconds / products:.2f} × the products of all rows"
        )


def main():
    """Print both tables."""
    with jax.enable_x64(True):
        to_the_gap()
        print()
        floor()


if __name__ == "__main__":
    main()
