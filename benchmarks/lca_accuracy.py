"""3-NN accuracy of LCA beside Euclid, LDA, NCA and the paper's own recipe.

    python benchmarks/lca_accuracy.py [--data DIR] [--first 0] [--splits 20]
        [--methods euclid,lca,lca_cv] [--sets wine,iris] [--out FILE.csv] [--table]

Standardised features, stratified 70/30 splits, at most 1000 points a set, the same
splits for every method. Without ``--data`` (a folder of NPZ files, see data.md) the
scikit-learn sets run, and the table says so. A file of results is continued, not
repeated; the table is made from the file.

Bounds: the mean over the sets of LCA minus NCA, one-sided 95 %, splits as units (and,
beside it, sets as units); per set, LCA against Euclid by a paired t-test over splits,
Holm over the sets. Splits share points, so that their spread understates the error for
new data of the same kind.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import probmetric as pm

BUILT_IN = ["wine", "iris", "breast_cancer", "digits"]
BY_PATH = [
    "ionosphere",
    "balance_scale",
    "german_numeric",
    "image_segmentation",
    "waveform",
    "twonorm",
    "usps_8x8",
]
MAX_POINTS = 1000


def learners(d, seed):
    """Return transformers by name; None is Euclid's metric."""
    p = min(d, 10)
    return {
        "euclid": None,
        "lda": LinearDiscriminantAnalysis(),
        "nca": NeighborhoodComponentsAnalysis(p, max_iter=100, random_state=seed),
        "paper": pm.LCA(
            p, pairs="impostors", max_impostors=10, regularization=1e-6,
            learning_rate=1.0, prior_mean="pca", n_refresh=0,
        ),
        "lca": pm.LCA(),
        "lca_cv": pm.LCA(regularization="cv", random_state=seed),
        "lca_cv_identity": pm.LCA(
            regularization="cv", prior_mean="identity", random_state=seed
        ),
    }  # fmt: skip


def split(X, y, seed):
    """One stratified 70/30 split of at most MAX_POINTS points, standardised."""
    if len(y) > MAX_POINTS:
        keep = StratifiedShuffleSplit(1, train_size=MAX_POINTS, random_state=seed)
        X, y = (a[next(keep.split(X, y))[0]] for a in (X, y))
    halves = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(halves.split(X, y))
    scale = X[train].std(0)
    kept = scale > 0
    Z = (X[:, kept] - X[train][:, kept].mean(0)) / scale[kept]
    return Z[train], y[train], Z[test], y[test]


def run(name, X, y, seed, done, wanted):
    """Yield one row a method for one split."""
    A, a, B, b = split(X, y, seed)
    for method, learner in learners(A.shape[1], seed).items():
        if (name, seed, method) in done or (wanted and method not in wanted):
            continue
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mapped = (A, B) if learner is None else (
                learner.fit(A, a).transform(A), learner.transform(B)
            )  # fmt: skip
        accuracy = KNeighborsClassifier(3).fit(mapped[0], a).score(mapped[1], b)
        yield name, seed, method, accuracy, time.perf_counter() - began
    own = "lca_classifier"
    if (name, seed, own) not in done and (not wanted or own in wanted):
        began = time.perf_counter()
        accuracy = pm.LCAClassifier().fit(A, a).score(B, b)
        yield name, seed, own, accuracy, time.perf_counter() - began


def holm(p):
    """Adjust p-values by Holm's step-down rule."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(np.sort(p) * (len(p) - np.arange(len(p))))
    result = np.empty(len(p))
    result[order] = np.minimum(adjusted, 1)
    return result


def report(table):
    """Print the table, the two bounds and the sets below Euclid."""
    wide = 100 * table.pivot_table(
        index=["data", "seed"], columns="method", values="accuracy", sort=False
    )
    order = ["euclid", "lda", "nca", "paper", "lca_classifier", "lca"]
    order += ["lca_cv_identity", "lca_cv"]
    wide = wide[[m for m in order if m in wide]]
    grouped = wide.groupby("data", sort=False)
    mean, error = grouped.mean(), grouped.sem()
    cells = mean.map("{:.1f}".format) + " ± " + error.map("{:.1f}".format)
    cells.loc["mean"] = mean.mean().map("{:.2f}".format)
    print(cells.to_string(), "\n")
    n = len(mean)
    if n < len(BUILT_IN + BY_PATH):
        print(f"{n} of {len(BUILT_IN + BY_PATH)} sets: give --data for the others\n")
    pairs = [("lca", "nca"), ("lca_cv", "lca"), ("lca_cv", "lca_cv_identity")]
    for a, b in [*pairs, ("lca", "paper")]:
        if not {a, b} <= set(wide):
            continue
        gap = (wide[a] - wide[b]).unstack("data")
        for unit, values in (("splits", gap.mean(axis=1)), ("sets", gap.mean(axis=0))):
            se = values.sem()
            low = values.mean() - stats.t.ppf(0.95, len(values) - 1) * se
            print(
                f"{a} - {b}: {values.mean():+.2f} ± {se:.2f} points "
                f"({unit} as units), lower 95 % bound {low:+.2f}"
            )
    for one in [m for m in ("lca", "lca_cv") if m in wide]:
        gaps = [g[one] - g["euclid"] for _, g in grouped]
        p = [stats.ttest_1samp(g, 0, alternative="less").pvalue for g in gaps]
        adjusted = holm(np.nan_to_num(p, nan=1.0))
        below = [s for s, q in zip(mean.index, adjusted, strict=True) if q < 0.05]
        print(f"sets where {one} is below euclid (Holm, 5 %): {below or 'none'}")
    seconds = table.groupby("method", sort=False)["seconds"].sum()
    print("seconds in all:", ", ".join(f"{m} {s:.0f}" for m, s in seconds.items()))


def main():
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--methods", default="", help="with commas; default: all")
    parser.add_argument("--sets", default="", help="with commas; default: all")
    parser.add_argument("--out", type=Path, default=Path("out/lca_accuracy.csv"))
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    columns = ["data", "seed", "method", "accuracy", "seconds"]
    table = pd.DataFrame(columns=columns)
    if options.out.exists():
        table = pd.read_csv(options.out)
    sets = {name: name for name in BUILT_IN}
    if options.data:
        sets |= {name: str(options.data / f"{name}.npz") for name in BY_PATH}
    if options.sets:
        sets = {name: sets[name] for name in options.sets.split(",")}
    done = set(zip(table["data"], table["seed"], table["method"], strict=True))
    seeds = range(options.first, options.first + options.splits)
    wanted = options.methods.split(",") if options.methods else []
    for seed in () if options.table else seeds:
        for name, source in sets.items():
            X, y = map(np.asarray, pm.datasets.load(source))
            rows = list(run(name, X.astype(float), y, seed, done, wanted))
            if rows:
                new = pd.DataFrame(rows, columns=columns)
                table = pd.concat([table, new]) if len(table) else new
                table.to_csv(options.out, index=False, float_format="%.5g")
                print(seed, name, flush=True)
    report(table)


if __name__ == "__main__":
    main()
