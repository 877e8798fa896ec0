"""Neighbours under local metrics: against the bare product, and a loop over queries.

    python benchmarks/glml_neighbors.py [--queries 10000] [--points 20000]

floor: the matrix product (queries × f)(f × points), f = D(D+1)/2 + D, tile by tile, and
nothing else. loop: a compiled loop over queries that transforms every point by the
query's own factor. Both in float64 on the same device; ratios are what to read. The
search itself holds 9 t² + TILE (f + t) + t f numbers for tiles of t, whatever the
number of queries and points.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.metric._local import local_metric
from probmetric.models.gaussian_classes import GaussianClassesParams, to_densities
from probmetric.neighbors import nearest

K, TILE = 5, 1024


def seconds(function, repeats):
    """Return the shortest of several runs, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


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
    parser.add_argument("--repeats", type=int, default=3)
    a = parser.parse_args()
    rng, d = np.random.default_rng(0), a.features
    Q, P = rng.normal(size=(a.queries, d)), rng.normal(size=(a.points, d))
    A = rng.normal(size=(2, d, 2 * d))
    params = GaussianClassesParams(
        np.full(2, 0.5), rng.normal(size=(2, d)), np.linalg.cholesky(A @ A.mT / d)
    )
    with jax.enable_x64(True):
        metric = jax.tree.map(np.asarray, local_metric(to_densities(params)))
        matrices = seconds(lambda: metric.frame_matrix_at(Q), 1)
        factor = np.linalg.cholesky(metric.matrix_at(Q)).mT
        f = d * (d + 1) // 2 + d
        n_q, n_p = -(-a.queries // TILE), -(-a.points // TILE)
        Psi = jnp.asarray(rng.normal(size=(n_q, TILE, f)))
        Phi = jnp.asarray(rng.normal(size=(n_p, TILE, f)))
        floor = seconds(lambda: product(Psi, Phi).block_until_ready(), a.repeats)
        direct = seconds(lambda: loop(factor, Q, P).block_until_ready(), a.repeats)
        search = seconds(lambda: nearest(metric, Q, P, K), a.repeats)
        same = np.mean(nearest(metric, Q, P, K)[1] == np.asarray(loop(factor, Q, P)))
    print(f"{a.queries} queries, {a.points} points, D = {d}, k = {K}")
    print("| what | seconds | over the floor |")
    print("|---|---|---|")
    for name, value in (
        ("bare product", floor),
        ("matrices of the queries", matrices),
        ("search, matrices included", search),
        ("loop over queries, given the factors", direct),
    ):
        print(f"| {name} | {value:.2f} | {value / floor:.2f} |")
    print(f"neighbours in agreement with the loop: {same:.6f}")


if __name__ == "__main__":
    main()
