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
from pathlib import Path

import harness
import numpy as np
import pandas as pd
from scipy.stats import t

import probmetric as pm

RESULTS = Path(__file__).parent / "results" / "anchors.csv"
TABLE = RESULTS.with_suffix(".md")
DF = 7
SIZES = (500, 2000, 8000)
SEEDS = 200
COLUMNS = ("anchors", "seed", "distance", "size", "stated", "shape", "scale",
           "thinned_shape", "thinned_scale", "seconds")  # fmt: skip


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


def error(n=30_000, d=8, c=4, seeds=4):
    X, y = population(n, d, c)
    X = standardized(X)
    whole = fitted(X, y)[0]
    found = {"n": n, "d": d, "classes": c, "seeds": seeds, "rows": []}
    for size in SIZES:
        for seed in range(seeds):
            start = time.perf_counter()
            M, se = fitted(X, y, size, seed)
            seconds = time.perf_counter() - start
            shape, scale = compared(M, whole)
            other = compared(thinned(X, y, size, seed), whole)
            lengths = (float(np.linalg.norm(A)) for A in (M - whole, whole, se))
            values = size, seed, *lengths, shape, scale, *other, seconds
            found["rows"].append(dict(zip(COLUMNS, values, strict=True)))
            store("error", found)


def coverage(n=4000, d=3, c=3, size=400, seeds=SEEDS):
    X, y = population(n, d, c)
    X = standardized(X)
    whole = fitted(X, y)[0]
    quantile = t.ppf(0.95, DF)
    found = {"n": n, "d": d, "classes": c, "anchors": size, "rows": []}
    for seed in range(seeds):
        M, se = fitted(X, y, size, seed)
        around = thinned(X, y, size, seed)
        upper = np.triu_indices(d)
        inside = [
            (np.abs(A - whole) <= quantile * se)[upper].tolist() for A in (M, around)
        ]
        found["rows"].append({"seed": seed, "anchors": inside[0], "thinned": inside[1]})
        if seed % 20 == 19:
            store("coverage", found)


def store(name, found):
    stored = harness.load(RESULTS) | {name: found}
    harness.store(stored, RESULTS, 3)
    TABLE.write_text(table(stored))


def table(stored):
    """Return the page of results."""
    lines = ["# LCA from anchors", "", "Made by `python benchmarks/anchors.py`.", ""]
    if "error" in stored:
        lines += error_table(stored["error"])
    if "coverage" in stored:
        lines += coverage_table(stored["coverage"])
    return "\n".join(lines)


def error_table(found):
    lines = [
        f"{found['n']} rows, d = {found['d']}, {found['classes']} classes, "
        f"{found['seeds']} seeds: M against that of all rows. *Distance* is ‖M - M₀‖ / "
        "‖M₀‖, root mean square over seeds, beside what the fit states; *shape* the "
        "same of M over its trace, *scale* the ratio of traces. *Thinned* keeps so "
        "many rows and pairs them among themselves.",
        "",
        "| anchors | distance | stated | shape | scale | thinned: shape | scale |",
        "|---|---|---|---|---|---|---|",
    ]
    shapes = ["shape", "scale", "thinned_shape", "thinned_scale"]
    for size, rows in pd.DataFrame(found["rows"]).groupby("anchors"):
        errors = rows[["distance", "stated"]].div(rows["size"], axis=0)
        cells = [*np.sqrt((errors**2).mean()), *rows[shapes].mean()]
        lines.append(f"| {size} | " + " | ".join(f"{v:.3f}" for v in cells) + " |")
    return [*lines, ""]


def coverage_table(found):
    rows = found["rows"]
    inside = {
        name: np.array([r[name] for r in rows]) for name in ("anchors", "thinned")
    }
    se = inside["anchors"].mean(1).std() / np.sqrt(len(rows))
    return [
        f"Nominal 90 % intervals of the entries of M ({found['n']} rows, "
        f"d = {found['d']}, {found['classes']} classes, {found['anchors']} anchors, "
        f"{len(rows)} seeds): {inside['anchors'].mean():.3f} ± {se:.3f} of the entries "
        "covered, by entry "
        f"{inside['anchors'].mean(0).min():.3f} to "
        f"{inside['anchors'].mean(0).max():.3f}. Around the fits of as many thinned "
        f"rows the same intervals cover {inside['thinned'].mean():.3f}.",
        "",
    ]


if __name__ == "__main__":
    {"error": error, "coverage": coverage}[sys.argv[1]]()
