"""Mixture EM per iteration: against scikit-learn, and against the number of points.

Both start from the same weights, means and covariances and make the same steps
without a prior (``reg_covar=0``); k-means and compilation are left out. The two are
timed in turn, round after round, so that a change of the machine's load meets both; the
ratio is the median over rounds, beside that of the best times.

    python benchmarks/two_stage_em.py [--n 100000]
"""

import argparse
import time
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.mixture import GaussianMixture

from probmetric.inference.mixture import MixtureParams, em_step, mixture_data

STEPS = 5


def problem(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(k, d))
    X = centres[rng.integers(0, k, n)] + rng.normal(size=(n, d))
    start = X[rng.choice(n, k, replace=False)]
    S = np.broadcast_to(np.cov(X.T), (k, d, d)).copy()
    return X, MixtureParams(np.full(k, 1 / k), start, S)


@partial(jax.jit, static_argnames="steps")
def ours(params, data, steps):
    def step(carry, _):
        new, objective = em_step(carry, data)
        return new, objective

    return jax.lax.scan(step, params, None, length=steps)


def seconds(function):
    begin = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - begin


def sklearn_fit(X, start, steps):
    model = GaussianMixture(
        len(start.weights),
        reg_covar=0,
        tol=0,
        max_iter=steps,
        init_params="random_from_data",
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--d", type=int, default=16)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    with jax.enable_x64(True):
        X, start = problem(a.n, a.d, a.k)
        params, data = jax.tree.map(jnp.asarray, (start, mixture_data(X)))
        _, trace = ours(params, data, STEPS + 1)
        rounds = []
        for _ in range(a.rounds):
            mine = seconds(lambda: ours(params, data, STEPS + 1)) / (STEPS + 1)
            # Differences of two runs: what scikit-learn does once is left out.
            long, short = (
                seconds(lambda s=s: sklearn_fit(X, start, s)) for s in (STEPS + 1, 1)
            )
            rounds.append([mine, (long - short) / STEPS])
        rounds = np.array(rounds)
        mine, theirs = rounds.min(0)
        median = np.median(rounds[:, 1] / rounds[:, 0])
        other = sklearn_fit(X, start, STEPS)
        gap = abs(other.lower_bounds_[-1] * a.n / float(trace[STEPS - 1]) - 1)
        print(f"n={a.n} d={a.d} k={a.k} float64, {STEPS} steps")
        print(
            f"  one iteration: {1e3 * mine:.1f} ms, scikit-learn {1e3 * theirs:.1f} ms"
        )
        print(
            f"  ratio {theirs / mine:.1f}, median of rounds {median:.1f} (expected 4)"
        )
        print(f"  relative difference of log likelihoods {gap:.1e} (expected 1e-8)")
        times = []
        sizes = [a.n // 4, a.n // 2, a.n]
        for n in sizes:
            part = jax.tree.map(jnp.asarray, mixture_data(X[:n]))
            ours(params, part, STEPS)
            runs = [seconds(lambda part=part: ours(params, part, STEPS)) for _ in "abc"]
            times.append(min(runs) / n)
        shown = ", ".join(
            f"{n}: {1e9 * t / STEPS:.0f}" for n, t in zip(sizes, times, strict=True)
        )
        print(f"  ns a row by n: {shown} (linear where constant)")


if __name__ == "__main__":
    main()
