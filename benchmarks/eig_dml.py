"""Eig-DML: steps and seconds to a certified gap, by solver and problem.

    python benchmarks/eig_dml.py [--all-pairs]

Problems: nearest pairs of three of scikit-learn's data sets, standardised, and random
differences in more dimensions. Gaps are (dual - primal)/primal, both bounds recomputed
from the final S and u. ``--all-pairs`` adds Wine with all its far pairs (10 429), where
a Frank-Wolfe step sees every pair and PDHG only its working set.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from probmetric.data import Pairs, all_pairs, nearest_pairs
from probmetric.inference.eig_dml import fit

GOALS = (("frank_wolfe", 1e-1), ("frank_wolfe", 1e-2), ("pdhg", 1e-2), ("pdhg", 1e-6))


def standardised(loader):
    """Return a data set's points and labels, without repeated points."""
    X, y = loader(return_X_y=True)
    X, first = np.unique(X, axis=0, return_index=True)
    return (X - X.mean(0)) / X.std(0), y[first]


def random_differences(d, n_close, n_far, seed=0):
    """Return pairs of normal differences with the origin."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([np.zeros((1, d)), rng.standard_normal((n_close + n_far, d))])
    n = n_close + n_far
    y = np.repeat([1, 0], [n_close, n_far])
    return Pairs(X, np.arange(1, n + 1), np.zeros(n, int), y)


def problems(with_all):
    """Yield names and pairs."""
    sets = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    for name, loader in sets.items():
        yield name, nearest_pairs(*standardised(loader))
    yield "random, d = 50", random_differences(50, 200, 500)
    if with_all:
        yield "wine, all pairs", all_pairs(*standardised(load_wine))


def main():
    """Print one row a problem, solver and goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all-pairs", action="store_true")
    given = parser.parse_args()
    print(
        f"{'problem':<16} {'far':>6} {'d':>3}  {'solver':<12} goal     steps     s  gap"
    )
    for name, pairs in problems(given.all_pairs):
        far, d = int(np.sum(pairs.y == 0)), pairs.X.shape[1]
        for solver, tol in GOALS:
            began = time.perf_counter()
            found = fit(pairs, solver=solver, tol=tol, ridge=1e-6, max_steps=200_000)
            took = time.perf_counter() - began
            gap = found.params.gap / found.params.primal
            print(
                f"{name:<16} {far:>6} {d:>3}  {solver:<12} {tol:.0e} "
                f"{int(found.n_steps):>7} {took:>6.2f}  {gap:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
