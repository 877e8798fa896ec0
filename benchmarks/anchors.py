"""LCA from anchors against the fit of all rows: error, coverage, and thinned rows.

    python benchmarks/anchors.py error | coverage

`error`: the relative distance of M from that of all rows, at several numbers of anchors
and, for contrast, of rows kept with all others thrown away. `coverage`: how often the
nominal 90 % interval of an entry of M from the drawing of anchors contains that of the
fit of all rows, in 200 seeds, and how often it does around thinned rows. Results are
stored as they come, and the table is written from them.
"""

import sys
import time
from functools import partial

import numpy as np
from harness import RESULTS, markdown, resumed, write_page
from scipy.stats import t

import probmetric as pm

DF = 7
STUDIES = {
    "error": {"n": 30_000, "d": 8, "c": 4, "anchors": (500, 2000, 8000), "seeds": 4},
    "coverage": {"n": 4000, "d": 3, "c": 3, "anchors": (400,), "seeds": 200},
}


def population(n, d, c, seed=0):
    """Return rows of c classes, each of two clusters, in d features."""
    rng = np.random.default_rng(seed)
    centre = 1.5 * rng.normal(size=(c, 2, d))
    y, part = rng.integers(0, c, n), rng.integers(0, 2, n)
    spread = np.exp(0.5 * rng.normal(size=d))
    return centre[y, part] + spread * rng.normal(size=(n, d)), y


def fitted(X, y, n_anchors=None, seed=0):
    """Return M and, of anchors, its standard error, in standardized units."""
    lca = pm.LCA(standardize=False, n_anchors=n_anchors, random_state=seed).fit(X, y)
    return lca.get_mahalanobis_matrix(), getattr(lca, "matrix_error_", None)


def thinned(X, y, n, seed):
    """Return the fit of n rows with the prior of all, in proportion."""
    kept = np.random.default_rng(seed).permutation(len(X))[:n]
    lam = 10 * max(1, len(X) / 1000) * n / len(X)
    lca = pm.LCA(standardize=False, regularization=lam)
    return lca.fit(X[kept], y[kept]).get_mahalanobis_matrix()


def standardized(X):
    return (X - X.mean(0)) / X.std(0)


def compared(M, whole):
    """Return the relative distance of two matrices' shapes, and the ratio of scales."""
    a, b = M / np.trace(M), whole / np.trace(whole)
    shape = np.linalg.norm(a - b) / np.linalg.norm(b)
    return float(shape), float(np.trace(M) / np.trace(whole))


def error(X, y, whole, size, seed):
    """Return the row of one fit from anchors: its error, and that of thinned rows."""
    start = time.perf_counter()
    M, se = fitted(X, y, size, seed)
    seconds = time.perf_counter() - start
    lengths = (np.linalg.norm(A) for A in (M - whole, whole, se))
    row = dict(zip(("distance", "size", "stated"), lengths, strict=True))
    row["shape"], row["scale"] = compared(M, whole)
    thin = compared(thinned(X, y, size, seed), whole)
    row["thinned_shape"], row["thinned_scale"] = thin
    return row | {"seconds": seconds}


def coverage(X, y, whole, size, seed):
    """Return the row of one fit: which entries of M its intervals contain."""
    M, se = fitted(X, y, size, seed)
    row, upper = {}, np.triu_indices(len(M))
    for name, A in (("entry", M), ("thinned", thinned(X, y, size, seed))):
        inside = np.abs(A - whole) <= t.ppf(0.95, DF) * se
        row |= {f"{name} {k}": int(v) for k, v in enumerate(inside[upper])}
    return row


def cases(name):
    """Yield the keys and functions of a study."""
    study = STUDIES[name]
    X, y = population(study["n"], study["d"], study["c"])
    X = standardized(X)
    whole = fitted(X, y)[0]
    for size in study["anchors"]:
        for seed in range(study["seeds"]):
            make = {"error": error, "coverage": coverage}[name]
            yield (name, size, seed), partial(make, X, y, whole, size, seed)


def tables(table):
    """Return the tables of errors and of coverage."""
    study, rows = STUDIES["error"], table[table["study"] == "error"]
    shapes = ["shape", "scale", "thinned_shape", "thinned_scale"]
    body = []
    for size, own in rows.groupby("anchors"):
        errors = own[["distance", "stated"]].div(own["size"], axis=0)
        cells = [*np.sqrt((errors**2).mean()), *own[shapes].mean()]
        body.append([size, *(f"{v:.3f}" for v in cells)])
    head = ["anchors", "distance", "stated", "shape", "scale"]
    lines = [
        f"The data have {study['n']} rows, d = {study['d']}, {study['c']} classes, "
        f"{study['seeds']} seeds. M is fitted from anchors, and M₀ from all rows. "
        "*distance* is ‖M - M₀‖ / ‖M₀‖ (root mean square over seeds), and *stated* is "
        "the standard error that the fit states. *shape* is the distance after "
        "division of M and M₀ by their traces, and *scale* is the ratio of traces. "
        "*thinned* keeps as many rows as anchors, and only makes pairs of these rows.",
        "",
        *markdown(body, [*head, "thinned: shape", "scale"]),
    ]
    study, rows = STUDIES["coverage"], table[table["study"] == "coverage"]
    inside, thin = rows.filter(like="entry"), rows.filter(regex=r"thinned \d")
    se = inside.mean(axis=1).std(ddof=0) / np.sqrt(len(rows))
    by_entry = inside.mean()
    return [
        *lines,
        f"Nominal 90% intervals of the entries of M ({study['n']} rows, "
        f"d = {study['d']}, {study['c']} classes, {study['anchors'][0]} anchors, "
        f"{len(rows)} seeds) cover {inside.to_numpy().mean():.3f} ± {se:.3f}, and "
        f"{by_entry.min():.3f} to {by_entry.max():.3f} by entry. Intervals of the same "
        f"width around fits to {study['anchors'][0]} thinned rows cover "
        f"{thin.to_numpy().mean():.3f}.",
        "",
    ]


if __name__ == "__main__":
    made = cases(sys.argv[1]) if len(sys.argv) > 1 else []
    table = resumed(RESULTS / "anchors.csv", ["study", "anchors", "seed"], made)
    write_page("anchors", tables(table), RESULTS)
