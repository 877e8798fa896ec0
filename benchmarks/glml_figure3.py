"""The protocol of the paper's figure 3: nearest neighbor under learned metrics.

    python benchmarks/glml_figure3.py [--data DIR] [--out DIR] [--panels wine,...]
        [--realizations N]

Panel (a): two random Gaussians with fixed means, D = 5 ... 100, 500 training and 500
test points. Other panels: accuracy against training points a class, test points the
rest (at most 500). One neighbor votes, as in the paper. Bayes' classifier of the same
Gaussians stands beside. NCA learns from at most 1000 of the training points, 50
iterations; GLML averages 8 draws. ``--data``: a folder of .npz files with X and y;
scikit-learn's wine needs none. Realisations: as ``PANELS`` says, seeds (realization,
size).

The rows of metric-learn's LMNN and ITML were measured by version 0.2 in an environment
of its own. They stay in the tables and plots.

Prints the tables; writes one plot a panel and glml_figure3.csv to ``--out``, of which
rows that are not run again stay, so that panels may be run one by one.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from harness import markdown, sets
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probmetric import GLML, GaussianClasses

ONE = {"n_neighbors": 1, "votes": "count", "random_state": 0}


class SomeNCA(NeighborhoodComponentsAnalysis):
    """NCA learned from at most 1000 points: its cost is their number squared."""

    def fit(self, X, y):
        """Learn from a random part of the rows."""
        rows = np.random.default_rng(0).permutation(len(X))[:1000]
        return super().fit(X[rows], y[rows])


def nearest_by(learner):
    """Return one neighbor's vote after a projection."""
    return make_pipeline(learner, KNeighborsClassifier(1))


METHODS = {
    "Euclid": lambda: KNeighborsClassifier(1),
    "LDA": lambda: nearest_by(
        LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    ),
    "NCA": lambda: nearest_by(SomeNCA(max_iter=50, random_state=0)),
    "GLML, paper": lambda: GLML(rule="zero_bias", densities="mle", n_draws=0, **ONE),
    "GLML, predictive": lambda: GLML(n_draws=0, **ONE),
    "GLML, draws": lambda: GLML(n_draws=8, **ONE),
    "Bayes": GaussianClasses,
}
PEERS = ("LMNN", "ITML")
COLUMNS = "panel", "size", "method", "accuracy", "error", "realizations", "seconds"
OURS = ("GLML, paper", "GLML, predictive", "GLML, draws")
PANELS = {
    "synthetic": ((5, 10, 20, 50, 100), 4),
    "wine": ((10, 20, 40), 5),
    "ionosphere": ((10, 30, 100), 4),
    "ida_german": ((100, 250), 4),
    "ida_image": ((100, 300, 700), 3),
    "ida_waveform": ((200, 500, 1000), 3),
    "twonorm": ((50, 500, 1000), 3),
    "usps_8x8": ((100, 300), 2),
}
"""Sizes (D, or training points a class) and realizations of each panel."""


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
    """Split into ``per_class`` training points a class and at most 500 others."""
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)]
    )
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), chosen))[:500]
    varies = X[chosen].std(0) > 0
    X = StandardScaler().fit(X[chosen][:, varies]).transform(X[:, varies])
    return X[chosen], y[chosen], X[rest], y[rest]


def row(name, size, method, values, seconds):
    """Summarise the realizations of one method."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    figures = float(np.mean(values)), error, len(values), float(np.mean(seconds))
    return dict(zip(COLUMNS, (name, size, method, *figures), strict=True))


def panel(name, sizes, draw, realizations):
    """Yield a row for every size and method, and for GLML less Euclid, paired."""
    for size in sizes:
        found, seconds = ({m: [] for m in METHODS} for _ in range(2))
        for r in range(realizations):
            X, y, X_new, y_new = draw(size, np.random.default_rng([r, size]))
            for m in METHODS:
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = METHODS[m]().fit(X, y)
                found[m].append(np.mean(model.predict(X_new) == y_new))
                seconds[m].append(time.perf_counter() - start)
        for m in METHODS:
            yield row(name, size, m, found[m], seconds[m])
        for m in OURS:
            gap = np.subtract(found[m], found["Euclid"])
            yield row(name, size, f"{m} - Euclid", gap, seconds[m])


def plot(name, rows, path):
    """Draw accuracy with standard errors against size, one line a method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
    for i, m in enumerate((*METHODS, *PEERS)):
        own = [r for r in rows if r["method"] == m]
        own.sort(key=lambda found: found["size"])
        if own:
            columns = [[r[key] for r in own] for key in ("size", "accuracy", "error")]
            bayes = {"ls": "--", "color": "black"}
            style = bayes if m == "Bayes" else {"color": f"C{i}"}
            axes.errorbar(*columns, label=m, capsize=2, marker="o", ms=3, **style)
    axes.set(title=name, ylabel="accuracy, 1 neighbor")
    axes.set_xlabel("D" if name == "synthetic" else "training points a class")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path / f"glml_figure3_{name}.png", dpi=120)
    plt.close(figure)


def table(rows):
    """Yield the lines of one Markdown table a panel."""
    for name, own in pd.DataFrame(rows).groupby("panel", sort=False):
        number = own["realizations"].max()
        yield f"\n{name}, {number} realizations\n"
        cell = [
            f"{a:.3f} ± {e:.3f}" + f" ({n})" * (n < number)
            for a, e, n in zip(own.accuracy, own.error, own.realizations, strict=True)
        ]
        wide = own.assign(cell=cell).pivot(
            index="size", columns="method", values="cell"
        )
        here = [m for m in (*METHODS, *PEERS) if m in wide]
        wide = wide[here].fillna("").reset_index()
        yield from markdown(wide.to_numpy().tolist(), [*wide])[:-1]


def verdicts(rows):
    """Yield the claims: above Euclid from D = 20, and on average over real sets."""
    for m in OURS:
        gaps = [r for r in rows if r["method"] == f"{m} - Euclid"]
        large = [r for r in gaps if r["panel"] == "synthetic" and r["size"] >= 20]
        if large:
            held = all(r["accuracy"] > 2 * r["error"] for r in large)
            form = "D = {size}: {accuracy:+.3f} ± {error:.3f}"
            listed = ", ".join(form.format(**r) for r in large)
            yield f"{m} - Euclid, synthetic: {listed}; above by 2 s.e.: {held}"
        real = dict.fromkeys(r["panel"] for r in gaps if r["panel"] != "synthetic")
        means = np.array(
            [np.mean([r["accuracy"] for r in gaps if r["panel"] == p]) for p in real]
        )
        if len(means) > 1:
            error = means.std(ddof=1) / np.sqrt(len(means))
            each = ", ".join(f"{p} {g:+.3f}" for p, g in zip(real, means, strict=True))
            yield (
                f"{m} - Euclid, mean over {len(means)} real sets: {means.mean():+.4f} "
                f"± {error:.4f} (sets as units): {each}"
            )


def main():
    """Run the panels, print as they come, write plots and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--realizations", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--panels", default=",".join(PANELS))
    a = parser.parse_args()
    wanted = [p for p in a.panels.split(",") if a.data or p in ("synthetic", "wine")]
    file = a.out / "glml_figure3.csv" if a.out else None
    rows = []
    if file and file.exists():
        rows = pd.read_csv(file).to_dict("records")
    for name in wanted:
        sizes, realizations = PANELS[name]
        draw = gaussians
        if name != "synthetic":
            X, y = sets(a.data, (name,))[name]

            def draw(size, rng, X=X, y=y):
                return sample(X, y, size, rng)

        given = sizes, draw, a.realizations or realizations
        for found in panel(name, *given):
            print(found, flush=True)
            same = [found[key] for key in ("panel", "size", "method")]
            rows = [r for r in rows if [r["panel"], r["size"], r["method"]] != same]
            rows.append(found)
        if a.out:
            a.out.mkdir(parents=True, exist_ok=True)
            plot(name, [r for r in rows if r["panel"] == name], a.out)
            pd.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")
    print("\n".join([*verdicts(rows), *table(rows)]))


if __name__ == "__main__":
    main()
