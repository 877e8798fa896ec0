"""Ten points a class: votes averaged over draws, the plug-in, and Bayes' classifier.

    python benchmarks/glml_posterior.py [--data DIR] [--per-class 10] [--seeds 4]

Log loss and accuracy on the points left over (at most 300), with at most 8 principal
components of the standardised features. Differences are given with data sets as units,
their standard errors over data sets. ``--data``: a folder of .npz files with X and y.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from probmetric import GLML, GaussianClasses

MORE = ("ionosphere", "balance_scale", "waveform", "image_segmentation")
MODELS = {
    "pooled Mahalanobis": lambda: GLML(gamma=np.inf, n_draws=0),
    "GLML, predictive densities": lambda: GLML(n_draws=0),
    "GLML, votes over draws": lambda: GLML(random_state=0),
    "Bayes classifier": GaussianClasses,
}


def data_sets(folder):
    loaders = (load_wine, load_iris, load_breast_cancer, load_digits)
    for loader in loaders:
        yield loader.__name__.removeprefix("load_"), *loader(return_X_y=True)
    for name in MORE if folder else ():
        stored = np.load(Path(folder) / f"{name}.npz")
        yield name, stored["X"], stored["y"]


def split(X, y, per_class, seed):
    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)]
    )
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), chosen))[:300]
    return chosen, rest


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=4)
    a = parser.parse_args()
    losses, accuracies = [], []
    print("| data | " + " | ".join(MODELS) + " |")
    print("|---" * (1 + len(MODELS)) + "|")
    for name, X, y in data_sets(a.data):
        X = X[:, X.std(0) > 0]
        X = (X - X.mean(0)) / X.std(0)
        X = X @ np.linalg.svd(X, full_matrices=False)[2][:8].T
        found = np.empty((a.seeds, len(MODELS), 2))
        for seed in range(a.seeds):
            train, test = split(X, y, a.per_class, seed)
            for m, make in enumerate(MODELS.values()):
                model = make().fit(X[train], y[train])
                P = model.predict_proba(X[test])
                own = P[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
                right = model.classes_[P.argmax(1)] == y[test]
                found[seed, m] = -np.log(own).mean(), right.mean()
        mean = found.mean(0)
        losses.append(mean[:, 0])
        accuracies.append(mean[:, 1])
        cells = " | ".join(f"{acc:.3f} / {loss:.3f}" for loss, acc in mean)
        print(f"| {name} | {cells} |", flush=True)
    for label, table in (("accuracy", accuracies), ("log loss", losses)):
        table = np.array(table)
        for m, other in ((1, "the plug-in"), (3, "Bayes' classifier")):
            gap = table[:, 2] - table[:, m]
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            print(f"{label}, draws minus {other}: {gap.mean():+.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
