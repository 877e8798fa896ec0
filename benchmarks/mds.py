"""Classical MDS of many objects beside scikit-learn's: n = 5000, k = 2.

    python benchmarks/mds.py [--n 5000] [--k 2]

Points in ten dimensions with falling spread, from features, every method on the same
points; once with Euclid's distance and once with the city-block distance, which no
points reproduce (negative eigenvalues). Error: largest difference from the dense
embedding over its largest entry, columns' signs by the same convention. The ratio to
scikit-learn, measured in the same run, is what to quote. Landmarks trade accuracy for
never forming the n x n matrix. Needs a scikit-learn that has ``ClassicalMDS``.
"""

import argparse
import time

import numpy as np
from sklearn.manifold import ClassicalMDS as SklearnClassicalMDS

from probmetric import ClassicalMDS


def seconds(estimator, X):
    """Fit once; return the wall time and the embedding."""
    began = time.perf_counter()
    Z = estimator.fit_transform(X)
    return time.perf_counter() - began, Z


def compare(X, k, metric):
    """Print one row a method."""
    theirs = SklearnClassicalMDS(n_components=k, metric=metric)
    base, dense = seconds(theirs, X)
    rows = [("scikit-learn", base, dense)]
    for name, options in (
        ("lanczos (default)", {}),
        ("landmark", {"solver": "landmark", "random_state": 0}),
    ):
        ours = ClassicalMDS(n_components=k, metric=metric, **options)
        rows.append((name, *seconds(ours, X)))
    print(f"metric = {metric}, n = {len(X)}, k = {k}")
    for name, took, Z in rows:
        error = np.abs(Z - dense).max() / np.abs(dense).max()
        print(f"  {name:<18} {took:8.2f} s   x {base / took:6.1f}   error {error:.1e}")


def main():
    """Run both metrics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--k", type=int, default=2)
    given = parser.parse_args()
    X = np.random.default_rng(0).standard_normal((given.n, 10)) * np.arange(10, 0, -1)
    for metric in ("euclidean", "cityblock"):
        compare(X, given.k, metric)


if __name__ == "__main__":
    main()
