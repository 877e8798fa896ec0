"""Cllr of TwoStageMixture on new sources, with and without calibration.

    python benchmarks/likelihood_ratios.py [--seeds 0 10] [--out FILE.csv]
    python benchmarks/likelihood_ratios.py --table --out FILE.csv
    python benchmarks/likelihood_ratios.py --items [--seeds 0 10]
    python benchmarks/likelihood_ratios.py --real DIR [--seeds 0 10]

With ``--items`` 40 sources of 4 rows in 4 features are fitted, and 100 new sources have
a questioned item of some rows and a known item of others. All pairs of both are scored.

With ``--real`` the sources are the classes of sets in DIR (``data.md``), the panes of
glass in ``docs/glass``, and the recordings of one vowel by one speaker in ``vowel``.
Half of the sources, of at most six rows each, are fitted; the others are judged.

Each run fits n sources of m rows in d features and computes Cllr and its minimum over
monotone maps of the scores, on all pairs of 300 rows of 100 new sources. Covariances
within and between sources are random. The populations are:

right     normal variation, as the model assumes;
t         noise of t with 3 degrees of freedom;
skew      sources of a skewed distribution (exponential, to the power 1.5);
unequal   noise whose scale differs between sources (log-normal, sigma 0.7);
both      noise as in t, and sources as in skew;
bimodal   two clusters of sources.

The form of the map was chosen on the first four populations with other seeds, and the
penalty on all populations with other seeds.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import probmetric as pm
from probmetric.evaluation import verification

POPULATIONS = ("right", "t", "skew", "unequal", "both", "bimodal")
SIZES = ((4, 10, 3), (4, 20, 3), (4, 40, 3), (4, 100, 3), (10, 40, 4), (3, 200, 2))
MAX_ROWS = 6
OUT = Path(__file__).parent / "results" / "likelihood_ratios.csv"


def covariance(d, scale, rng):
    A = rng.normal(size=(d, d))
    return scale * (A @ A.T / d + 0.3 * np.eye(d))


def sources(population, W, B, n, m, rng):
    """Return m rows of each of n sources, and the sources of the rows."""
    x, noise = rng.normal(size=(n, len(W))), rng.normal(size=(n, m, len(W)))
    if population in ("t", "both"):
        noise /= np.sqrt(rng.chisquare(3, size=(n, m, 1)) / 3)
    if population in ("skew", "both"):
        x = rng.exponential(size=x.shape) ** 1.5
    if population == "unequal":
        noise *= np.exp(0.7 * rng.normal(size=(n, 1, 1)))
    if population == "bimodal":
        x = 0.4 * x + np.where(rng.random((n, 1)) < 0.5, -3, 3)
    rows = (x @ np.linalg.cholesky(B).T)[:, None] + noise @ np.linalg.cholesky(W).T
    return rows.reshape(-1, len(W)), np.repeat(np.arange(n), m)


def real_sources(folder):
    """Yield the name of a real set, its rows, and the sources of the rows."""
    glass = pd.read_csv(Path(__file__).parents[1] / "docs" / "glass" / "background.csv")
    yield "glass", glass.drop(columns="item").to_numpy(), glass["item"].to_numpy()
    X, y = pm.datasets.load(str(folder / "vowel.npz"))
    yield "vowel by speaker", X[:, 3:], X[:, 1] * 100 + y
    yield "speaker", X[:, 3:], X[:, 1]
    for name in ("letter", "movement_libras", "texture"):
        yield name, *pm.datasets.load(str(folder / f"{name}.npz"))


def run_real(folder, seed):
    """Yield rows of the CSV file for real sets."""
    for name, X, group in real_sources(folder):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        count = pd.Series(group[order]).groupby(group[order]).cumcount()
        X, group = X[order][count < MAX_ROWS], group[order][count < MAX_ROWS]
        X = X[:, np.ptp(X, axis=0) > 0]
        names = rng.permutation(np.unique(group))
        old = np.isin(group, names[: len(names) // 2])
        size = X.shape[1], len(names) // 2, MAX_ROWS
        row = dict(zip(("population", "d", "n", "m"), (name, *size), strict=True))
        yield row | {"seed": seed} | judge(X[old], group[old], X[~old], group[~old])


def run(population, d, n, m, seed):
    """Return one row of the CSV file."""
    rng = np.random.default_rng([seed, POPULATIONS.index(population), d, n, m])
    W, B = covariance(d, 1.0, rng), covariance(d, 4.0, rng)
    X, group = sources(population, W, B, n, m, rng)
    new, new_group = sources(population, W, B, 100, 3, rng)
    row = {"population": population, "d": d, "n": n, "m": m, "seed": seed}
    return row | judge(X, group, new, new_group)


def judge(X, group, new, new_group):
    """Return Cllr and its minimum on new sources, with and without calibration."""
    i, j = np.triu_indices(len(new), 1)
    same = new_group[i] == new_group[j]
    metric = pm.TwoStageMixture().fit(X, groups=group).get_metric()
    ratio = -metric.pairwise(new, new)[i, j]
    row = {}
    for name, score in (("model", ratio), ("calibrated", metric.calibrated(ratio))):
        costs = verification(score, same)
        row |= {f"{name}_cllr": costs.cllr, f"{name}_min": costs.cllr_min}
    return row


def run_items(population, sizes, seed):
    """Print Cllr and its minimum for items of several rows; return both."""
    rng = np.random.default_rng([seed, POPULATIONS.index(population), *sizes])
    W, B = covariance(4, 1.0, rng), covariance(4, 4.0, rng)
    X, group = sources(population, W, B, 40, 4, rng)
    new, item = sources(population, W, B, 100, sum(sizes), rng)
    left = np.tile(np.arange(sum(sizes)) < sizes[0], 100)
    found = {"population": population, "rows": f"{sizes[0]} and {sizes[1]}"}
    for name, calibration in (("model", None), ("calibrated", "auto")):
        model = pm.TwoStageMixture(calibration=calibration).fit(X, groups=group)
        table = model.get_metric().likelihood_ratios(
            new[left],
            new[~left],
            questioned_items=item[left],
            known_items=item[~left],
        )
        same = table["questioned"] == table["known"]
        costs = verification(table["log10_lr"] * np.log(10), same)
        found |= {name: costs.cllr, f"{name}: loss": costs.cllr - costs.cllr_min}
    return found


def tables(table):
    """Return the table of the page."""
    lines = [
        "| population | d, sources, rows | Cllr, model | Cllr, calibrated | "
        "Cllr - minimum, model | Cllr - minimum, calibrated |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("model", "calibrated"):
        table[name] = table[f"{name}_cllr"] - table[f"{name}_min"]
    for case, part in [
        *table.groupby(["population", "d", "n", "m"], sort=False),
        (("all", "", "", ""), table),
        (("20 sources or more", "", "", ""), table[table["n"] >= 20]),
    ]:
        cells = [f"{part[f'{k}_cllr'].mean():.3f}" for k in ("model", "calibrated")]
        cells += [
            f"{part[k].mean():.3f} (largest {part[k].max():.3f})"
            for k in ("model", "calibrated")
        ]
        size = ", ".join(str(v) for v in case[1:] if v != "")
        lines.append(f"| {case[0]} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--items", action="store_true")
    parser.add_argument("--real", type=Path, metavar="DIR")
    options = parser.parse_args()
    if options.items:
        warnings.simplefilter("ignore")
        cases = [(p, s) for p in POPULATIONS for s in ((1, 3), (2, 2), (5, 5))]
        seeds = range(*options.seeds)
        found = pd.DataFrame(
            [run_items(*case, seed) for case in cases for seed in seeds]
        )
        found = found.groupby(["population", "rows"], sort=False)
        print(found.agg(["mean", "max"]).round(3).to_markdown())
        return
    if options.real:
        warnings.simplefilter("ignore")
        rows = [r for s in range(*options.seeds) for r in run_real(options.real, s)]
        print(tables(pd.DataFrame(rows)))
        return
    if not options.table:
        warnings.simplefilter("ignore")
        cases = [(p, *s) for p in POPULATIONS for s in SIZES]
        rows = [run(*case, seed) for case in cases for seed in range(*options.seeds)]
        pd.DataFrame(rows).to_csv(options.out, index=False, float_format="%.6g")
    print(tables(pd.read_csv(options.out)))


if __name__ == "__main__":
    main()
