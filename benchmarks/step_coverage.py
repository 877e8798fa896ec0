"""Do nominal 90 % intervals for a step along one feature cover?

    python benchmarks/step_coverage.py [--seeds 20] [--sizes 40 120]

The relevance of feature k, as docs/guide/which_variables.md reads it: the learned
distance between two points that differ by one standard deviation in feature k alone.
posterior_coverage.py measured pairs of rows, which differ in every feature; steps are
other directions, among them such as hardly any pair of rows has where features are
collinear. Populations of simulated points, all of five features:

gauss3, twonorm5   as in posterior_coverage.py; features nearly uncorrelated in classes
waveform5          columns 4, 8, 10, 12, 16 of waveform, correlated
collinear          gauss3 whose fifth feature is the first plus noise of sd 0.2

The truth is what the same recipe gives on 1000 points that no training set uses.
jackknife: ``posterior_metric("intervals")``. laplace: percentiles of 100 draws, the
control, which must fail. ± is the standard error over training sets.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from posterior_coverage import N_REFERENCE, SIMULATED, draw_points, fit

import probmetric as pm

WIDTH = 5
N_CONTROL = 5


def population(name):
    """Return points of a population, and their classes."""
    if name == "waveform5":
        X, y = pm.datasets.load("waveform", n=8000)
        return X[:, [4, 8, 10, 12, 16]], y
    make, seed = SIMULATED["gauss3" if name == "collinear" else name]
    X, y = make(np.random.default_rng(seed))
    if name == "collinear":
        noise = np.random.default_rng(13).standard_normal(len(X))
        X = np.column_stack([X[:, :4], X[:, 0] + 0.2 * noise])
    return X, y


def steps(X):
    """Return the mean point WIDTH times, and each with one feature an sd higher."""
    middle = np.tile(X.mean(0), (WIDTH, 1))
    return middle, middle + np.diag(X.std(0))


def main():
    """Run all populations and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=[40, 120])
    options = parser.parse_args()
    # Laplace's draws warn that no Gaussian is close; they are here to fail.
    warnings.filterwarnings("ignore", "k-hat")
    rows = []
    for name in ("gauss3", "twonorm5", "waveform5", "collinear"):
        X, y = population(name)
        every = np.arange(len(y))
        reference = draw_points(y, N_REFERENCE, np.random.default_rng(7), every)
        rest = np.setdiff1d(every, reference)
        A, B = steps(X)
        truth = np.asarray(fit(X[reference], y[reference]).get_metric().distance(A, B))
        for n in options.sizes:
            for seed in range(options.seeds):
                rng = np.random.default_rng([seed, n, 5])
                train = draw_points(y, n, rng, rest)
                lca = fit(X[train], y[train])
                for method in ("jackknife", "laplace")[: 1 + (seed < N_CONTROL)]:
                    made = lca.posterior_metric("intervals", method=method, seed=seed)
                    low, high = made.interval(A, B)
                    rows.append(
                        {
                            "population": name,
                            "intervals": method,
                            "n": n,
                            "covered": np.mean((low <= truth) & (truth <= high)),
                            "truth below": np.mean(truth < low),
                            "truth above": np.mean(truth > high),
                            "width": np.median((high - low) / truth),
                        }
                    )
            print(name, n, "done", flush=True)
    table = pd.DataFrame(rows)
    for group in (["intervals", "n"], ["intervals", "n", "population"]):
        found = table.groupby(group, sort=False)
        means = found[["covered", "truth below", "truth above", "width"]].mean()
        means["±"] = found["covered"].std() / np.sqrt(found.size())
        means["training sets"] = found.size()
        columns = [*means.index.names, *means.columns]
        print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        for row in means.round(3).reset_index().to_numpy():
            print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
