"""All pairs under the log ratio against its floor: k GEMMs and k exponential passes.

Both are timed in turn, round after round, so that a change of the machine's load meets
both; the ratio is the median over rounds, beside that of the best times.

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
    """Do k GEMMs (k, m, d) (k, n, d), each with one exponential of every entry.

    In tiles of 512 whose k terms are summed in one pass: nothing else is done.
    """
    (k, m, d), n = Q.shape, P.shape[1]
    a, b = -(-m // 512), -(-n // 512)
    s, t = -(-m // a), -(-n // b)

    def put(at, out):
        i, j = at // b * s, at % b * t
        q = jax.lax.dynamic_slice(Q, (0, i, 0), (k, s, d))
        p = jax.lax.dynamic_slice(P, (0, j, 0), (k, t, d))
        tile = sum(jnp.exp(q[c] @ p[c].T) for c in range(k))
        return jax.lax.dynamic_update_slice(out, tile, (i, j))

    return jax.lax.fori_loop(0, a * b, put, jnp.zeros((m, n), Q.dtype))


def seconds(function):
    begin = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--d", type=int, default=32)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
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
        rounds = np.array(
            [
                [seconds(lambda: metric.pairwise(Q, P)), seconds(lambda: floor(*parts))]
                for _ in range(a.rounds)
            ]
        )
    mine, least = rounds.min(0)
    ratio = np.median(rounds[:, 0] / rounds[:, 1])
    print(f"{a.n} x {a.n}, d={a.d}, k={a.k}, {np.dtype(dtype).name}, {a.rounds} rounds")
    print(f"  best: log ratio {mine:.2f} s, floor {least:.2f} s, {mine / least:.2f}")
    print(f"  median ratio of a round {ratio:.2f} (expected at most 2)")


if __name__ == "__main__":
    main()
