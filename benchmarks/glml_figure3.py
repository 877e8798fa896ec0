"""The protocol of the paper's figure 3: nearest neighbour under learned metrics.

    python benchmarks/glml_figure3.py [--data DIR] [--realisations 20] [--out DIR]
        [--panels synthetic,wine,...] [--quick]

Panel (a): two random Gaussians with fixed means, D = 5 ... 100, 500 training and 500
test points. Other panels: accuracy against training points a class, test points the
rest (at most 1000). One neighbour votes, as in the paper. Bayes' classifier of the same
Gaussians stands beside. ``--data``: a folder of .npz files with X and y; scikit-learn's
wine needs none. Writes one plot a panel and a table to ``--out``.
"""

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probmetric.estimators.gaussian_classes import GaussianClasses
from probmetric.estimators.glml import GLML

ONE = {"n_neighbors": 1, "votes": "count", "random_state": 0}
METHODS = {
    "Euclid": lambda: KNeighborsClassifier(1),
    "LDA": lambda: make_pipeline(
        LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        KNeighborsClassifier(1),
    ),
    "NCA": lambda: make_pipeline(
        NeighborhoodComponentsAnalysis(max_iter=50, random_state=0),
        KNeighborsClassifier(1),
    ),
    "GLML, paper": lambda: GLML(rule="zero_bias", densities="mle", n_draws=0, **ONE),
    "GLML, predictive": lambda: GLML(n_draws=0, **ONE),
    "GLML, draws": lambda: GLML(**ONE),
    "Bayes": GaussianClasses,
}
PANELS = {
    "ionosphere": (10, 30, 50, 100),
    "ida_german": (100, 150, 200, 250),
    "ida_image": (100, 300, 500, 700),
    "ida_waveform": (200, 500, 1000),
    "twonorm": (50, 500, 1000, 2000),
    "wine": (10, 20, 30, 40),
    "usps_8x8": (100, 300, 500),
}


def gaussians(d, rng):
    """Draw 1000 points of two Gaussians with fixed means and random covariances."""
    y = rng.permutation(np.repeat([0, 1], 500))
    X = np.empty((1000, d))
    for c in (0, 1):
        U = np.linalg.qr(rng.normal(size=(d, d)))[0]
        root = U * np.sqrt(rng.uniform(0.1, 1.0, d))
        X[y == c] = rng.normal(size=(500, d)) @ root.T
    X[y == 1, 0] += 0.5
    return X[:500], y[:500], X[500:], y[500:]


def sample(X, y, per_class, rng):
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)]
    )
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), chosen))[:1000]
    varies = X[chosen].std(0) > 0
    X = StandardScaler().fit(X[chosen][:, varies]).transform(X[:, varies])
    return X[chosen], y[chosen], X[rest], y[rest]


def read(name, folder):
    if name == "wine":
        return load_wine(return_X_y=True)
    stored = np.load(Path(folder) / f"{name}.npz")
    return stored["X"], stored["y"]


def panel(name, sizes, draw, realisations, methods):
    """Yield (panel, size, method, mean accuracy, standard error)."""
    for size in sizes:
        found = {m: [] for m in methods}
        for r in range(realisations):
            rng = np.random.default_rng([r, size])
            X, y, X_new, y_new = draw(size, rng)
            for m in methods:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = METHODS[m]().fit(X, y)
                found[m].append(np.mean(model.predict(X_new) == y_new))
        for m, values in found.items():
            error = np.std(values, ddof=1) / np.sqrt(len(values))
            yield name, size, m, np.mean(values), error
        gap = np.subtract(found["GLML, predictive"], found["Euclid"])
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        yield name, size, "GLML, predictive - Euclid", gap.mean(), error


def plot(name, rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5))
    for m in METHODS:
        own = [(s, a, e) for _, s, k, a, e in rows if k == m]
        if own:
            size, mean, error = zip(*own, strict=True)
            axes.errorbar(size, mean, error, label=m, capsize=2)
    axes.set(title=name, ylabel="accuracy")
    axes.set_xlabel("D" if name == "synthetic" else "training points a class")
    axes.legend(fontsize=7)
    figure.savefig(path / f"{name}.png", bbox_inches="tight", dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--realisations", type=int, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--panels")
    parser.add_argument("--quick", action="store_true", help="no NCA, no draws")
    a = parser.parse_args()
    methods = [m for m in METHODS if not a.quick or m not in ("NCA", "GLML, draws")]
    wanted = a.panels.split(",") if a.panels else ["synthetic", *PANELS]
    if not a.data:
        wanted = [name for name in wanted if name in ("synthetic", "wine")]
    writer = csv.writer(sys.stdout)
    writer.writerow(["panel", "size", "method", "accuracy", "standard error"])
    table = []
    for name in wanted:
        if name == "synthetic":
            sizes, draw = (5, 10, 20, 50, 100), gaussians
        else:
            X, y = read(name, a.data)
            sizes = PANELS[name]

            def draw(size, rng, X=X, y=y):
                return sample(X, y, size, rng)

        rows = []
        for row in panel(name, sizes, draw, a.realisations, methods):
            rows.append(row)
            writer.writerow([*row[:3], f"{row[3]:.4f}", f"{row[4]:.4f}"])
            sys.stdout.flush()
        table += rows
        if a.out:
            a.out.mkdir(parents=True, exist_ok=True)
            plot(name, rows, a.out)
    if a.out:
        with (a.out / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["panel", "size", "method", "accuracy", "standard error"])
            writer.writerows(table)


if __name__ == "__main__":
    main()
