"""The figure of seed 001: 1-NN accuracy after a projection to two dimensions.

    python benchmarks/dca_figure1.py --balance FILE.npz --ionosphere FILE.npz
        [--splits 30] [--out FOLDER]

Thirty splits 70/30, stratified, features standardised on the training part. LDA (unit
directions, at most C - 1), LDA+RCA (whitened, completed to two), scikit-learn's NCA,
DCA-GM (average Fisher metric; its own class probabilities beside it) and LCA. DCA-GM
minus NCA is paired by split; its lower 95 % bound is a normal one over splits. Writes a
table and a bar chart with standard errors.
"""

import argparse
import json
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import probmetric as pm
from probmetric.inference.dca_gm import lda_rca

METHODS = ("LDA", "LDA+RCA", "NCA", "DCA-GM", "DCA-GM classifier", "LCA")


def maps(X, y, seed):
    """Yield a name and the rows that each method maps the features by."""
    directions = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3)
    rank = min(2, len(np.unique(y)) - 1)
    V = directions.fit(X, y).scalings_[:, :rank]
    yield "LDA", (V / np.linalg.norm(V, axis=0)).T
    yield "LDA+RCA", lda_rca(pm.Labelled(X, y), 2)
    nca = NeighborhoodComponentsAnalysis(n_components=2, random_state=seed)
    yield "NCA", nca.fit(X, y).components_
    yield "LCA", pm.LCA(n_components=2).fit(X, y).components_


def one_split(X, y, seed):
    """Return the test accuracy of every method, in per cent."""
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    varies = train.std(0) > 0
    mean, scale = train[:, varies].mean(0), train[:, varies].std(0)
    train, test = ((part[:, varies] - mean) / scale for part in (train, test))
    learner = pm.DCAGM(2, prior_strength=0, standardize=False).fit(train, y_train)
    accuracy = {"DCA-GM classifier": learner.score(test, y_test)}
    found = {**dict(maps(train, y_train, seed)), "DCA-GM": learner.components_}
    for name, L in found.items():
        knn = KNeighborsClassifier(1).fit(train @ L.T, y_train)
        accuracy[name] = knn.score(test @ L.T, y_test)
    return [100 * accuracy[name] for name in METHODS]


def draw(table, path):
    """Draw the bar chart: methods beside each other, one group a data set."""
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    width = 0.8 / len(METHODS)
    for j, name in enumerate(METHODS):
        at = np.arange(len(table)) + (j - (len(METHODS) - 1) / 2) * width
        scores = np.array([rows[:, j] for rows in table.values()])
        error = scores.std(1, ddof=1) / np.sqrt(scores.shape[1])
        axes.bar(at, scores.mean(1), width, yerr=error, label=name)
    axes.set_xticks(range(len(table)), list(table))
    axes.set_ylim(60, 100)
    axes.set_ylabel("1-NN test accuracy, %")
    axes.legend(ncols=3, fontsize="small", loc="lower left")
    figure.savefig(path, dpi=150)


def main():
    """Run the splits, print the table, write the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--balance", type=Path, help="balance scale, X and y")
    parser.add_argument("--ionosphere", type=Path, help="ionosphere, X and y")
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    sources = {"wine": "wine", "balance": given.balance}
    sources |= {"ionosphere": given.ionosphere, "iris": "iris"}
    table = {}
    for name, source in sources.items():
        if source is None:
            print(f"{name}: left out, no file given")
            continue
        X, y = pm.datasets.load(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows = [one_split(np.asarray(X), y, s) for s in range(given.splits)]
        table[name] = np.array(rows)
        for j, method in enumerate(METHODS):
            scores = table[name][:, j]
            error = scores.std(ddof=1) / np.sqrt(len(scores))
            print(f"{name:<11} {method:<18} {scores.mean():6.2f} ± {error:.2f}")
    nca, ours = METHODS.index("NCA"), METHODS.index("DCA-GM")
    difference = np.stack([rows[:, ours] - rows[:, nca] for rows in table.values()])
    for name, row in zip(table, difference, strict=True):
        print(f"{name:<11} DCA-GM - NCA {row.mean():+.2f}")
    # Sets are fixed, splits are the sample: the mean over sets is one number a split.
    per_split = difference.mean(0)
    error = per_split.std(ddof=1) / np.sqrt(len(per_split))
    lower = per_split.mean() - 1.645 * error
    print(f"mean over sets {per_split.mean():+.2f}, lower 95 % bound {lower:+.2f}")
    given.out.mkdir(parents=True, exist_ok=True)
    draw(table, given.out / "dca_figure1.png")
    record = {
        "methods": METHODS,
        "accuracy": {name: rows.round(3).tolist() for name, rows in table.items()},
        "difference": per_split.mean(),
        "lower_95": lower,
    }
    (given.out / "dca_figure1.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main()
