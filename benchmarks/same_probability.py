"""Is P(same) of LCA calibrated on pairs of points that it has not seen?

    python benchmarks/same_probability.py --data DIR [--out FILE.csv]
    python benchmarks/same_probability.py --table --out FILE.csv

Eleven sets (data.md), at most 700 points each, drawn with seed 0. Nine of them chose
the log-logistic form, on splits 0-2; here they have splits 10-15, and twonorm and
usps_8x8 are new. A split holds out 30 % by class and standardizes by the rest.
Each held-out point is paired with its 3 nearest points of
its own class and of the others among those learned from, under the learned metric.
P(same) of these pairs, by the model's own link and by those calibrated within the
training part (``link="model"``, "calibrated", "isotonic"): the same map, other links.

Log loss in nats, no clipping; ECE over ten bins of equal width. Asked before it ran:
mean ECE of "calibrated" at most .06, its mean log loss at least .06 below the model's,
no set worse than the model's by more than .01. Results are added set by set to the
file, which is continued when the script is started again.
"""

import argparse
from pathlib import Path

import harness
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.model_selection import train_test_split

import probmetric as pm

BUILT_IN = ("wine", "iris", "breast_cancer", "digits")
CHOSE = (
    *BUILT_IN,
    "ionosphere",
    "balance_scale",
    "image_segmentation",
    "german_numeric",
    "waveform",
)
NEW = ("twonorm", "usps_8x8")
LINKS = ("model", "calibrated", "isotonic")
SPLITS = range(10, 16)
MOST, NEIGHBORS = 700, 3
OUT = Path("out/same_probability.csv")


def load(name, folder):
    """Return at most 700 points and class codes."""
    X, y = pm.datasets.load(name if name in BUILT_IN else str(folder / f"{name}.npz"))
    X, y = np.asarray(X, float), np.asarray(y)
    rows = np.random.default_rng(0).permutation(len(X))[:MOST]
    return (X, y) if len(X) <= MOST else (X[rows], y[rows])


def held_out_pairs(metric, X, y, Q, t):
    """Return squared distances of each row of Q to its nearest of X, and labels."""
    L = np.asarray(metric.factor)
    D, labels = cdist(Q @ L.T, X @ L.T, "sqeuclidean"), []
    found = []
    for row, label in zip(D, t, strict=True):
        for same in (True, False):
            near = np.sort(row[(y == label) == same])[:NEIGHBORS]
            found.append(near)
            labels.append(np.full(len(near), int(same)))
    return np.concatenate(found), np.concatenate(labels)


def log_loss(p, y):
    """Return the mean of -log of what was stated of the outcome."""
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def ece(p, y):
    """Return the expected calibration error over ten bins of equal width."""
    which = np.minimum((p * 10).astype(int), 9)
    gap = np.bincount(which, p - y, minlength=10)
    return float(np.abs(gap).sum() / len(y))


def one_split(X, y, seed):
    """Return (log loss, ECE) by link."""
    halves = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    A, B, ya, yb = halves
    varies = A.std(0) > 0
    A, B = A[:, varies], B[:, varies]
    made = {link: pm.LCA(link=link).fit(A, ya).get_metric() for link in LINKS}
    D, same = held_out_pairs(made["model"], A, ya, B, yb)
    stated = {name: np.asarray(m.link.probability(D)) for name, m in made.items()}
    return {name: (log_loss(p, same), ece(p, same)) for name, p in stated.items()}


def run(folder, out):
    """Add what is missing to the file."""
    results = harness.load(out)
    for name in (*CHOSE, *NEW):
        if name in results:
            continue
        X, y = load(name, folder)
        results[name] = [one_split(X, y, seed) for seed in SPLITS]
        out.parent.mkdir(parents=True, exist_ok=True)
        harness.store(results, out, 2)
        print(row(name, results[name]), flush=True)


def means(splits):
    """Return the mean over splits, an array (link, figure)."""
    return np.mean([[split[link] for link in LINKS] for split in splits], 0)


def row(name, splits):
    """Return a set's row of the table."""
    return line(name, means(splits))


def line(name, figures):
    """Write log loss (ECE) of each link."""
    return " | ".join([f"| {name}", *(f"{a:.3f} ({b:.3f})" for a, b in figures)]) + " |"


def table(results):
    """Return the table and the verdict on what was asked."""
    by_set = {name: means(splits) for name, splits in results.items()}
    lines = ["| log loss (ECE) | model | calibrated | isotonic |", "|---|---|---|---|"]
    lines += [line(name, figures) for name, figures in by_set.items()]
    for title, names in (
        ("mean of the nine", CHOSE),
        ("mean of the new two", NEW),
        ("mean of all", (*CHOSE, *NEW)),
    ):
        there = [by_set[name] for name in names if name in by_set]
        if there:
            lines.append(line(f"**{title}**", np.mean(there, 0)))
    figures = np.array(list(by_set.values()))
    gain = figures[:, 0, 0] - figures[:, 1:, 0].T
    lines += [
        "",
        f"Log loss below the model's: calibrated {gain[0].mean():.3f}, isotonic "
        f"{gain[1].mean():.3f} (asked: .06); least on a set {gain[0].min():.3f} and "
        f"{gain[1].min():.3f} (asked: -.01). Mean ECE {figures[:, 1, 1].mean():.3f} "
        f"and {figures[:, 2, 1].mean():.3f} (asked: .06), of the model's link "
        f"{figures[:, 0, 1].mean():.3f}.",
    ]
    return "\n".join(lines)


def main():
    """Run, or write the table of what was run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        run(asked.data, asked.out)
    print(table(harness.load(asked.out)))


if __name__ == "__main__":
    main()
