"""The data and the splits of peers.py.

Data: scikit-learn's sets and two generators; with ``--data`` (NPZ files, see data.md)
five more. Splits: at most 1000 points a set; 70 % of them, stratified, may be trained
on, the other 30 % are the test points of every training set. Training sets: all of the
70 % ("large"), and 20, 40, 80, 160 of them in the shares of the classes, but at least
two of each; a set too small for a size has no such row. Features are standardised by
the training set, those constant on it are dropped.
"""

from hashlib import sha256

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

import probmetric as pm

BUILT_IN = ("wine", "iris", "breast_cancer", "digits", "waveform", "twonorm")
BY_PATH = (
    "ionosphere",
    "balance_scale",
    "german_numeric",
    "image_segmentation",
    "usps_8x8",
)
SIZES = (20, 40, 80, 160, "large")
MAX_POINTS = 1000


def shares(a, n):
    """Return how many of each class make a training set of n points."""
    size = np.bincount(a)
    ideal = n * size / len(a)
    counts = np.minimum(np.maximum(2, np.floor(ideal).astype(int)), size)
    while counts.sum() < n:
        counts[np.argmax(np.where(counts < size, ideal - counts, -np.inf))] += 1
    while counts.sum() > n:
        counts[np.argmax(np.where(counts > 2, counts - ideal, -np.inf))] -= 1
    return counts


def problems(X, y, seed):
    """Yield (size, A, a, B, b), standardised, for one split."""
    if len(y) > MAX_POINTS:
        keep = StratifiedShuffleSplit(1, train_size=MAX_POINTS, random_state=seed)
        X, y = (v[next(keep.split(X, y))[0]] for v in (X, y))
    halves = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(halves.split(X, y))
    order = np.random.default_rng(seed).permutation(train)
    for size in SIZES:
        n = len(train) if size == "large" else size
        if n > len(train):
            continue
        counts = shares(y[train], n)
        rows = np.concatenate([order[y[order] == c][:m] for c, m in enumerate(counts)])
        mean, scale = X[rows].mean(0), X[rows].std(0)
        kept = scale > 0
        A, B = ((X[r] - mean)[:, kept] / scale[kept] for r in (rows, test))
        yield size, A, y[rows], B, y[test]


def sets(folder):
    """Return data sets by name: X, y and a hash."""
    names = {name: name for name in BUILT_IN}
    if folder:
        names |= {name: str(folder / f"{name}.npz") for name in BY_PATH}
    found = {}
    for name, source in names.items():
        X, y = pm.datasets.load(source)
        X, y = np.ascontiguousarray(X, float), np.ascontiguousarray(y, np.int64)
        found[name] = X, y, sha256(X.tobytes() + y.tobytes()).hexdigest()[:16]
    return found
