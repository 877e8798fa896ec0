"""Seconds of the numerical core beside a reference, in turns within one run.

    python benchmarks/speed.py                  all of it
    python benchmarks/speed.py mixture pairs --rounds 7 --out out

mixture    an EM step of the Gaussian mixture, scikit-learn's (100 000 × 16, k = 16)
pairs      all pairs under the log ratio, against k products and k exponentials
local      neighbors under local metrics, against a compiled loop over the queries
mds        classical MDS of n = 3000, scikit-learn's, with Euclid's distance
eig_dml    a certified gap of 1%: PDHG against Frank-Wolfe, pairs of breast_cancer
lca        L-BFGS against the EM of the paper, to a relative gap of 1e-6

Each pair of functions is called in turns after one call that compiles, so that other
work on the machine meets both. The ratio is the median over rounds: quote that, not
seconds. The CSV has one row a problem and round.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from harness import markdown, write_page
from sklearn.manifold import ClassicalMDS
from sklearn.mixture import GaussianMixture

import probmetric as pm
from probmetric.data import nearest_pairs
from probmetric.inference.eig_dml import fit as fit_eig_dml
from probmetric.inference.mixture import MixtureParams, em_step, mixture_data
from probmetric.metric.local import local_metric
from probmetric.models.gaussian_classes import GaussianClassesParams, to_densities
from probmetric.models.two_stage import proportional, to_metric

RNG = np.random.default_rng(0)


def mixture(n=100_000, d=16, k=16, steps=5):
    """Return an EM fit of five steps, and scikit-learn's from the same start."""
    centers = 3 * RNG.normal(size=(k, d))
    X = centers[RNG.integers(0, k, n)] + RNG.normal(size=(n, d))
    means, S = X[:k].copy(), np.broadcast_to(np.cov(X.T), (k, d, d)).copy()
    params = MixtureParams(np.full(k, 1 / k), means, S)
    step, data = jax.jit(em_step), jax.tree.map(jnp.asarray, mixture_data(X))

    def ours():
        at = params
        for _ in range(steps):
            at, _ = step(at, data)
        return at

    given = {"means_init": means, "precisions_init": np.linalg.inv(S), "tol": 0}
    theirs = GaussianMixture(
        k, reg_covar=0, max_iter=steps, init_params="random_from_data", **given
    )
    return ours, lambda: theirs.fit(X)


def pairs(n=5000, d=32, k=8):
    """Return all pairs under the log ratio, and its k products and exponentials."""
    A = RNG.normal(size=(k, d, d)) / d**0.5
    S = A @ A.swapaxes(1, 2) + 0.5 * np.eye(d)
    means = RNG.normal(size=(k, d))
    metric = to_metric(proportional(np.full(k, 1 / k), means, S, 0.5))
    Q, P = RNG.normal(size=(2, n, d))
    floor = jax.jit(lambda q, p: sum(jnp.exp(0.1 * (c * q) @ p.T) for c in range(k)))
    return lambda: metric.pairwise(Q, P), lambda: floor(Q, P)


def local(m=2000, n=5000, d=32, k=5):
    """Return a search under local metrics, and a loop that is given its factors."""
    A = RNG.normal(size=(2, d, 2 * d))
    parts = RNG.normal(size=(2, d)), np.linalg.cholesky(A @ A.mT / d)
    params = GaussianClassesParams(np.full(2, 0.5), *parts)
    metric = jax.tree.map(np.asarray, local_metric(to_densities(params)))
    Q, P = RNG.normal(size=(m, d)), RNG.normal(size=(n, d))
    factor = np.linalg.cholesky(metric.matrix_at(Q)).mT

    @jax.jit
    def loop(factors):
        def one(query):
            L, q = query
            return jax.lax.top_k(-jnp.sum(((P - q) @ L.T) ** 2, 1), k)[1]

        return jax.lax.map(one, (factors, Q))

    return lambda: pm.nearest(metric, Q, P, k), lambda: loop(factor)


def mds(n=3000):
    """Return classical MDS, and scikit-learn's."""
    X = RNG.standard_normal((n, 10)) * np.arange(10, 0, -1)
    ours, theirs = pm.ClassicalMDS(2), ClassicalMDS(2)
    return lambda: ours.fit_transform(X), lambda: theirs.fit_transform(X)


def eig_dml():
    """Return PDHG and Frank-Wolfe to the same certified gap."""
    X, y = pm.datasets.load("breast_cancer")
    X = (X - X.mean(0)) / X.std(0)
    near = nearest_pairs(X, y)
    options = {"tol": 1e-2, "ridge": 1e-6, "max_steps": 200_000}
    return tuple(
        lambda solver=solver: fit_eig_dml(near, solver=solver, **options).params.S
        for solver in ("pdhg", "frank_wolfe")
    )


def lca():
    """Return LCA's default solver and the EM of the paper."""
    X, y = pm.datasets.load("wine")
    return tuple(
        lambda s=solver: pm.LCA(solver=s, max_iter=5000).fit(X, y).components_
        for solver in ("lbfgs", "full_em")
    )


PROBLEMS = {f.__name__: f for f in (mixture, pairs, local, mds, eig_dml, lca)}


def seconds(function):
    """Return the wall seconds of one call."""
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def tables(table):
    """Return the median ratio of each problem."""
    table = table.assign(ratio=table["reference"] / table["seconds"])
    middle = table.groupby("problem", sort=False).median(numeric_only=True)
    cells = middle[["seconds", "reference", "ratio"]].map(lambda v: f"{v:.3g}")
    header = ["problem", "seconds", "reference, seconds", "reference / this"]
    return markdown(cells.reset_index().to_numpy().tolist(), header)


def main():
    """Time the problems in turns; write the CSV and the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.problems:
        with jax.enable_x64(True):
            ours, reference = PROBLEMS[name]()
            seconds(ours), seconds(reference)  # compiles
            for k in range(options.rounds):
                pair = seconds(ours), seconds(reference)
                rows.append([name, k, *pair])
        print(name, flush=True)
    table = pd.DataFrame(rows, columns=["problem", "round", "seconds", "reference"])
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / "speed.csv", index=False, float_format="%.4g")
    write_page("speed", tables(table), options.out)


if __name__ == "__main__":
    main()
