"""DCA-GM's cost as n grows, and beside scikit-learn's NCA.

    python benchmarks/dca_scaling.py [--sizes 1000 3000 ...] [--nca 5000] [--out FILE]

Time per evaluation of the objective and its gradient, and per outer iteration of the
hybrid, at each n; the exponent is the slope of log time on log n. NCA's cost grows as
n² and is measured up to ``--nca`` points only; beyond it is extrapolated from its own
slope, and labelled so. Points are ``twonorm``-like: four Gaussian classes in d = 10
whose means span two dimensions.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import probmetric as pm
from probmetric.inference.dca_gm import (
    Conditioned,
    EMPrior,
    Penalty,
    default_prior,
    fit_hybrid,
    log_joint,
    start,
)
from probmetric.models.dca_gm import unconstrain


def simulate(n, seed=0):
    """Draw n labelled points."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * 1.2
    X = rng.normal(size=(n, 10))
    X[:, :2] += corners[y]
    return X @ np.linalg.qr(rng.normal(size=(10, 10)))[0], y


def best_of(call, repeats=5):
    """Return the shortest time of several, after one that compiles."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return min(times)


def per_iteration(n):
    """Return seconds per gradient of the joint objective and per hybrid iteration."""
    X, y = simulate(n)
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, pm.Labelled(X, y))
        begin = jax.tree.map(jnp.asarray, start(pm.Labelled(X, y), 2))
        given = Conditioned(data, default_prior(begin, data))
        sites = unconstrain(begin)
        gradient = jax.jit(jax.value_and_grad(log_joint))
        joint = best_of(lambda: gradient(sites, given))
        penalty, steps = Penalty(begin.A, 1.0), 5
        hybrid = best_of(
            lambda: fit_hybrid(begin, data, penalty, EMPrior(), max_steps=steps), 3
        )
    return joint, hybrid / steps


def slope(sizes, times):
    """Return the exponent of a power law through the points."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def against_nca(n):
    """Return seconds and 1-NN accuracy of both learners on n points, one run each."""
    X, y = simulate(n + 4000)
    X, fresh, y, y_fresh = train_test_split(X, y, test_size=4000, random_state=0)
    learners = {
        "DCA-GM": pm.DCAGM(n_components=2),
        "NCA": NeighborhoodComponentsAnalysis(n_components=2, random_state=0),
    }
    found = {}
    for name, learner in learners.items():
        begin = time.perf_counter()
        learner.fit(X, y)
        seconds = time.perf_counter() - begin
        knn = KNeighborsClassifier(1).fit(learner.transform(X), y)
        found[name] = (seconds, knn.score(learner.transform(fresh), y_fresh))
    return found


def main():
    """Print both tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [1000, 3000, 10_000, 30_000, 100_000]
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--nca", type=int, default=5000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    times = np.array([per_iteration(n) for n in given.sizes])
    for n, (joint, hybrid) in zip(given.sizes, times, strict=True):
        print(f"n = {n:>7}  gradient {joint:.2e} s  hybrid iteration {hybrid:.2e} s")
    exponents = [slope(given.sizes, column) for column in times.T]
    print(f"exponents: gradient {exponents[0]:.2f}, hybrid {exponents[1]:.2f}")
    nca_sizes = [given.nca // 4, given.nca // 2, given.nca]
    runs = {n: against_nca(n) for n in nca_sizes}
    for n, found in runs.items():
        line = ", ".join(
            f"{name} {s:.2f} s, accuracy {a:.3f}" for name, (s, a) in found.items()
        )
        print(f"n = {n:>7}  {line}  ratio {found['NCA'][0] / found['DCA-GM'][0]:.1f}")
    seconds = [runs[n]["NCA"][0] for n in nca_sizes]
    power = slope(nca_sizes, seconds)
    far = seconds[-1] * (given.sizes[-1] / nca_sizes[-1]) ** power
    print(f"NCA: exponent {power:.2f}; extrapolated to {given.sizes[-1]}: {far:.0f} s")
    if given.out:
        record = {"sizes": given.sizes, "seconds": times.tolist(), "slopes": exponents}
        record["nca"] = {str(n): found for n, found in runs.items()}
        given.out.write_text(json.dumps(record))


if __name__ == "__main__":
    main()
