"""All pairs under the log ratio against its floor: k GEMMs and k exponential passes.

python benchmarks/two_stage_pairs.py [--n 10000] [--d 32] [--k 8] [--float32]
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.models.two_stage import proportional, to_metric


@jax.jit
def floor(Q, P):
    """Do k GEMMs, each followed by one exponential of every entry, tile by tile.

    Tiles of the size that ``pairwise`` uses, so that both see the same caches.
    """
    rows = Q.reshape(Q.shape[0], -1, min(1000, Q.shape[1]), Q.shape[2]).swapaxes(0, 1)

    def strip(q):
        def add(total, part):
            a, b = part
            return total + jnp.exp(a @ b.T), None

        start = jnp.zeros((q.shape[1], P.shape[1]), Q.dtype)
        return jax.lax.scan(add, start, (q, P))[0]

    return jax.lax.map(strip, rows).reshape(Q.shape[1], -1)


def best(function, repeats=3):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--d", type=int, default=32)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--float32", action="store_true")
    a = parser.parse_args()
    dtype = np.float32 if a.float32 else np.float64
    rng = np.random.default_rng(0)
    with jax.enable_x64(not a.float32):
        means = rng.normal(size=(a.k, a.d))
        A = rng.normal(size=(a.k, a.d, a.d)) / a.d**0.5
        S = A @ A.swapaxes(1, 2) + 0.5 * np.eye(a.d)
        metric = to_metric(proportional(np.full(a.k, 1 / a.k), means, S, 0.5))
        metric = jax.tree.map(lambda t: jnp.asarray(t, dtype), metric)
        Q, P = (jnp.asarray(rng.normal(size=(a.n, a.d)), dtype) for _ in range(2))
        parts = [jnp.stack([0.1 * X] * a.k) for X in (Q, P)]
        jax.block_until_ready(metric.pairwise(Q, P))
        jax.block_until_ready(floor(*parts))
        mine, least = best(lambda: metric.pairwise(Q, P)), best(lambda: floor(*parts))
    print(f"{a.n} x {a.n}, d={a.d}, k={a.k}, {np.dtype(dtype).name}")
    print(f"  log ratio {mine:.2f} s, floor {least:.2f} s, ratio {mine / least:.2f}")


if __name__ == "__main__":
    main()
