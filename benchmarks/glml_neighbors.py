"""Neighbours under local metrics: against the bare product, and a loop over queries.

    python benchmarks/glml_neighbors.py [--queries 10000] [--points 20000]

floor: the matrix product (queries × f)(f × points), f = D(D+1)/2 + D, tile by tile, and
nothing else; by XLA and by NumPy's BLAS, of which the faster counts. loop: a compiled
loop over queries that transforms every point by the query's own factor, given to it.
The search computes its matrices itself; "given the matrices" leaves them out as the
loop does. All in float64 on the same device, one after another in each round: medians
over rounds of the ratios within a round are what to read. The search holds
9 t² + TILE (f + t) + t (f + D²) numbers for tiles of t, whatever the number of queries
and points.
"""

import argparse
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from probmetric.metric import local_metric
from probmetric.models.gaussian_classes import GaussianClassesParams, to_densities
from probmetric.neighbors import nearest

K, TILE = 5, 1024
forms = jax.jit(lambda metric, Q: metric.prepare(Q))


def matrices(metric, Q):
    """Compute each query's matrix with one BLAS thread each, as the search does."""
    with threadpool_limits(1, "blas"):
        return jax.block_until_ready(forms(metric, Q))


def seconds(function):
    """Return how long one call takes."""
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


@jax.jit
def product(Psi, Phi):
    """Multiply tile by tile, keeping one number a tile so that nothing is dropped."""

    def row(psi):
        return jax.lax.map(lambda phi: jnp.max(psi @ phi.T), Phi)

    return jax.lax.map(row, Psi)


@jax.jit
def loop(L, Q, P):
    """Transform all points for one query after another."""

    def one(query):
        factor, q = query
        D = jnp.sum(((P - q) @ factor.T) ** 2, 1)
        return jax.lax.top_k(-D, K)[1]

    return jax.lax.map(one, (L, Q))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    rng, d = np.random.default_rng(0), a.features
    Q, P = rng.normal(size=(a.queries, d)), rng.normal(size=(a.points, d))
    A = rng.normal(size=(2, d, 2 * d))
    params = GaussianClassesParams(
        np.full(2, 0.5), rng.normal(size=(2, d)), np.linalg.cholesky(A @ A.mT / d)
    )
    with jax.enable_x64(True):
        metric = jax.tree.map(np.asarray, local_metric(to_densities(params)))
        factor = np.linalg.cholesky(metric.matrix_at(Q)).mT
        f = d * (d + 1) // 2 + d
        n_q, n_p = -(-a.queries // TILE), -(-a.points // TILE)
        Psi = rng.normal(size=(n_q, TILE, f))
        Phi = rng.normal(size=(n_p, TILE, f))
        on_device = jnp.asarray(Psi), jnp.asarray(Phi)
        share = n_q * TILE * n_p * TILE / (a.queries * a.points)  # Padding is not work.

        def blas():
            for psi in Psi:
                for phi in Phi:
                    psi @ phi.T

        runs = {
            "product, XLA": lambda: product(*on_device),
            "product, NumPy": blas,
            "matrices": lambda: [
                matrices(metric, Q[s : s + TILE]) for s in range(0, len(Q), TILE)
            ],
            "search": lambda: nearest(metric, Q, P, K),
            "loop": lambda: loop(factor, Q, P),
        }
        found, expected = nearest(metric, Q, P, K)[1], np.asarray(loop(factor, Q, P))
        for warm in ("product, XLA", "matrices"):
            jax.block_until_ready(runs[warm]())
        taken = {name: [] for name in runs}
        for _ in range(a.rounds):
            for name, run in runs.items():
                padded = share if name.startswith("product") else 1.0
                taken[name].append(seconds(run) / padded)
    taken = {name: np.array(times) for name, times in taken.items()}
    floor = np.minimum(taken["product, XLA"], taken["product, NumPy"])
    taken["search, given the matrices"] = taken["search"] - taken["matrices"]
    print(f"{a.queries} queries, {a.points} points, D = {d}, k = {K}, float64")
    print(
        f"{jax.default_backend()}, Python {platform.python_version()}, "
        f"jax {jax.__version__}, NumPy {np.__version__}; {a.rounds} rounds"
    )
    print("\n| what | seconds | over the floor | the loop over it |\n|---|---|---|---|")
    for name, times in taken.items():
        ratios = np.median(times / floor), np.median(taken["loop"] / times)
        print(
            f"| {name} | {np.median(times):.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )
    print(f"\nneighbours in agreement with the loop: {np.mean(found == expected):.6f}")


if __name__ == "__main__":
    main()
