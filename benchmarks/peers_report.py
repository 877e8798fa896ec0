"""The tables and the figure of peers.py, from its rows.

Differences are from Euclid (or from LCA) under the same votes, on the same training
set; they are averaged within a data set first, and standard errors take data sets as
units.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

COLUMNS = (
    "data n seed method votes accuracy log_loss ece accuracy_1 accuracy_3 seconds "
    "failure"
).split()
FIGURES = ["accuracy", "log_loss", "ece", "accuracy_1", "accuracy_3"]
METRIC_LEARN = ("LMNN", "ITML", "LFDA")
STORED = Path(__file__).parent / "results/peers_metric_learn.json"
ORDER = [
    *("Euclid", "LDA (scikit-learn)", "NCA (scikit-learn)", *METRIC_LEARN),
    *("LCA", "LCA (32 draws)", "LCAClassifier", "LDA", "RCA", "PairLDA", "EigDML"),
    *("DCAGM", "GaussianClasses", "GLML", "GLML (24 draws)", "TwoStageMixture"),
]
CASE = ["data", "n", "seed"]
SIZES = (20, 40, 80, 160, "large")
METHOD = ["method", "votes"]
AVERAGED = {"LCA (32 draws)": "LCA", "GLML (24 draws)": "GLML"}


def with_stored(rows):
    """Add metric-learn's stored rows, and Euclid's of the same training sets."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    if STORED.exists():
        stored = pd.DataFrame(json.loads(STORED.read_text())["rows"], columns=COLUMNS)
        table = pd.concat([table, stored]).drop_duplicates([*CASE, *METHOD])
    place = table["method"].map(ORDER.index)
    return table.iloc[np.argsort(place, kind="stable")].reset_index(drop=True)


def less(table, method):
    """Return the table with differences from a method on the same training set."""
    own = table[(table["method"] == method) & (table["votes"] == "soft votes")]
    base = own.set_index(CASE)[FIGURES].reindex(pd.MultiIndex.from_frame(table[CASE]))
    gaps = table[FIGURES].astype(float).to_numpy() - base.to_numpy(float)
    return table[COLUMNS].join(pd.DataFrame(gaps, table.index, FIGURES), rsuffix="_gap")


def by_set(table):
    """Average within data sets, seeds first: index (method, votes, data)."""
    values = [*FIGURES, *(f"{f}_gap" for f in FIGURES), "seconds"]
    whole = table[table["failure"].isna()]
    means = whole.groupby([*METHOD, "data", "n"], sort=False)[values].mean()
    return means.groupby([*METHOD, "data"], sort=False).mean()


def cell(values, gaps, percent):
    """Write a mean, and in brackets its difference from Euclid ± s.e. over sets."""
    if values.isna().all():
        return "–"
    scale, digits = (100, 1) if percent else (1, 3)
    text = f"{scale * values.mean():.{digits}f}"
    if (gaps == 0).all():
        return text
    error = scale * gaps.sem()
    return f"{text} ({scale * gaps.mean():+.{digits}f} ± {error:.{digits}f})"


def table_of(table):
    """Return the table's lines: one a method, few labels and many beside each other."""
    lines = [
        "| learner | probabilities | few: accuracy, % | few: log loss | few: ECE "
        "| 70 %: accuracy, % | 70 %: log loss | 70 %: ECE | fit, s | not fitted "
        "| sets |",
        "|" + "---|" * 11,
    ]
    large = table["n"] == "large"
    means = with_all_few(table)
    parts = [by_set(means[means["n"] != "large"]), by_set(table[large])]
    parts = [part.sort_index() for part in parts]
    seconds = table[large].groupby(METHOD)["seconds"].median()
    for key in table[METHOD].drop_duplicates().itertuples(index=False, name=None):
        cells = list(key)
        for part in parts:
            if key not in part.index.droplevel("data"):
                cells += ["–"] * 3
                continue
            own = part.loc[key]
            for name, percent in (("accuracy", True), ("log_loss", False)):
                cells.append(cell(own[name], own[f"{name}_gap"], percent))
            cells.append(f"{own['ece'].mean():.3f}")
        of = table[(table["method"] == key[0]) & (table["votes"] == key[1])]
        failed = f"{of['failure'].notna().sum()} of {len(of)}"
        cells.append(f"{seconds[key]:.2f}" if key in seconds else "–")
        cells += [failed, f"{of['data'].nunique()}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def enough(table):
    """Return the rows of sizes that a learner was run at on half of the sets."""
    sets = table.groupby(["method", "n"])["data"].nunique()
    own = pd.MultiIndex.from_frame(table[["method", "n"]])
    whole = pd.MultiIndex.from_frame(table[["n"]].assign(method="Euclid")[own.names])
    return table[2 * sets.reindex(own).to_numpy() >= sets.reindex(whole).to_numpy()]


def gaps_of(table, methods):
    """Return lines with the difference in log loss at every size ± s.e. over sets."""
    means = with_all_few(table)
    sizes = [n for n in SIZES if n in set(table["n"])]
    parts = [means[means["n"] != "large"], *(table[table["n"] == n] for n in sizes)]
    gaps = [
        by_set(p)["log_loss_gap"].groupby(METHOD).agg(["mean", "sem"]) for p in parts
    ]
    heads = ["few", *("70 %" if n == "large" else f"n = {n}" for n in sizes)]
    lines = [
        "| learner | probabilities | " + " | ".join(heads) + " |",
        "|" + "---|" * (2 + len(heads)),
    ]
    for key in methods:
        found = [gap.loc[key] if key in gap.index else None for gap in gaps]
        cells = [
            "–"
            if gap is None or np.isnan(gap["mean"])
            else f"{gap['mean']:+.3f} ± {gap['sem']:.3f}"
            for gap in found
        ]
        if set(cells) == {"–"}:
            continue
        lines.append("| " + " | ".join([*key, *cells]) + " |")
    return lines


def draws_of(table):
    """Return lines with what averaged draws differ by from their plug-in, by size."""
    lines = []
    for name, plain in AVERAGED.items():
        if name in set(table["method"]):
            made = gaps_of(less(table, plain), [(name, "soft votes")])
            lines += made[2:] if lines else made
    said = [
        "They are of the splits named above: compare them with their plug-ins on the",
        "same training sets here, not with other rows or in the figure.",
    ]
    title = "## Log loss of averaged draws less the plug-in's, by size"
    return [title, "", *said, "", *lines, ""]


def with_all_few(table):
    """Return the rows but those of few labels of learners without one of the sizes."""
    sizes = table[table["n"] != "large"].groupby("method")["n"].nunique()
    short = sizes.index[sizes < sizes["Euclid"]]
    return table[(table["n"] == "large") | ~table["method"].isin(short)]


def written(numbers):
    """Write whole numbers, by commas."""
    return ", ".join(map(str, sorted(numbers)))


def missing_of(table):
    """Return lines on the training sets that learners were not run on."""
    fits = table.drop_duplicates([*CASE, "method"])
    sizes = [n for n in SIZES if n in set(fits["n"])]
    names = {n: "70 %" if n == "large" else f"n = {n}" for n in sizes}
    seeds = fits[fits["method"] == "Euclid"].groupby("n")["seed"].unique()
    each = "; ".join(f"{names[n]}: {written(seeds[n])}" for n in sizes)
    lines = [f"Splits (seeds): {each}. iris and wine have no n = 160.", ""]
    none = [name for name in ORDER if name not in set(fits["method"])]
    if none:
        lines += [f"Not run: {', '.join(none)}.", ""]
    counts = fits.groupby(["method", "n"]).size().unstack(fill_value=0)
    counts = counts.loc[[name for name in ORDER if name in counts.index], sizes]
    own = fits.groupby(["method", "n"])[["data", "seed"]].agg(set)
    short = counts[(counts < counts.loc["Euclid"]).any(axis=1)]
    if short.empty:
        return [*lines, "Every learner was run on every training set."]
    lines += [
        "Training sets that a learner was run on, where not on all, with its splits",
        "where they are others; in brackets the data sets that it has none of. A size",
        "run on fewer than half of the data sets is left out of the figure and of the",
        "other tables but the last.",
        "",
        "| learner | " + " | ".join(names.values()) + " |",
        "|" + "---|" * (1 + len(sizes)),
    ]
    for name, row in pd.concat([counts.loc[["Euclid"]], short]).iterrows():
        cells = [str(count) for count in row]
        for k, n in enumerate(sizes):
            if row[n] == 0:
                continue
            there, splits = own.loc[(name, n)]
            if splits != set(seeds[n]):
                cells[k] += f", split {written(splits)}"
            absent = sorted(own.loc[("Euclid", n), "data"] - there)
            cells[k] += f" ({', '.join(absent)})" if absent else ""
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def sets_of(table):
    """Return lines with the accuracy of every set, all training points."""
    large = by_set(table[table["n"] == "large"])["accuracy"].unstack("data", sort=False)
    lines = [
        "| learner | probabilities | " + " | ".join(large.columns) + " |",
        "|" + "---|" * (2 + large.shape[1]),
    ]
    for (method, votes), row in large.iterrows():
        shown = ["–" if np.isnan(v) else f"{100 * v:.1f}" for v in row]
        lines.append(f"| {method} | {votes} | " + " | ".join(shown) + " |")
    return lines


def plot(table, path):
    """Draw differences from Euclid, one row a method, one colour a size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    methods = list(table[METHOD].drop_duplicates().itertuples(index=False, name=None))
    sizes = [n for n in SIZES if n in set(table["n"])]
    colors = plt.colormaps["viridis_r"](np.linspace(0.08, 0.95, len(sizes)))
    panels = (
        ("accuracy_gap", "accuracy less Euclid's, points", 100),
        ("log_loss_gap", "log loss less Euclid's (left is better)", 1),
        ("ece", "calibration error (left is better)", 1),
    )
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 1 + 0.36 * len(methods)), sharey=True
    )
    parts = [by_set(table[table["n"] == n]) for n in sizes]
    for axis, (name, label, scale) in zip(axes, panels, strict=True):
        for k, (n, part) in enumerate(zip(sizes, parts, strict=True)):
            found = part[name].groupby(METHOD, sort=False).agg(["mean", "sem"])
            found = found.reindex(methods) * scale
            y = np.arange(len(methods)) + 0.13 * (k - (len(sizes) - 1) / 2)
            axis.errorbar(
                found["mean"], y, xerr=found["sem"], fmt="o", ms=3.5, lw=1,
                color=colors[k], label="70 %" if n == "large" else f"n = {n}",
            )  # fmt: skip
        axis.set_xlabel(label)
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
        for y in range(1, len(methods), 2):
            axis.axhspan(y - 0.5, y + 0.5, color="#f2f2f2", zorder=0, lw=0)
        if name != "ece":
            axis.axvline(0, color="#888888", lw=1)
    ticks = (-0.1, 0, 0.1, 0.3, 1)
    axes[1].set_xscale("symlog", linthresh=0.1)
    axes[1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[1].minorticks_off()
    names = [m if v == "soft votes" else f"{m}, own P" for m, v in methods]
    axes[0].set_yticks(range(len(methods)), names)
    axes[0].set_ylim(len(methods) - 0.5, -0.5)
    axes[2].legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def rounded(value):
    return float(f"{value:.4g}") if isinstance(value, float) else value


def store(rows, provenance, columns, path):
    """Write rows as JSON, one a line."""
    lines = [
        json.dumps([rounded(v) for v in row], separators=(",", ":")) for row in rows
    ]
    head = json.dumps({"provenance": provenance, "columns": columns}, indent=1)[:-2]
    path.write_text(head + ',\n "rows": [\n' + ",\n".join(lines) + "\n]}\n")


def report(rows, provenance, folder):
    """Write peers.md, peers.png, peers.json and peers_metric_learn.json."""
    if not any(row[3] == "Euclid" for row in rows):
        print("no table: expected Euclid among the learners that were run")
        return
    table = less(with_stored(rows), "Euclid")
    cases = pd.MultiIndex.from_frame(table[CASE])
    learned = cases.isin(cases[table["method"].isin(METRIC_LEARN)])
    kept = table[learned & table["method"].isin(["Euclid", *METRIC_LEARN])][COLUMNS]
    if not kept.empty:
        order = np.lexsort([kept[name].astype(str) for name in ("data", "n", "seed")])
        values = kept.iloc[order].replace({np.nan: None}).to_numpy(object).tolist()
        store(values, provenance, COLUMNS, folder / "peers_metric_learn.json")
    run = cases.isin([tuple(row[:3]) for row in rows if row[3] == "Euclid"])
    table = table[(table["method"] != "Euclid") | run]  # Others are for stored rows.
    plain = table[table["failure"].isna()]
    groups = plain.groupby(["data", "n", *METHOD], sort=False)
    means = (
        groups[FIGURES]
        .mean()
        .assign(seconds=groups["seconds"].median(), splits=groups.size())
    )
    columns = list(means.reset_index().columns)
    short = means.reset_index().replace({np.nan: None})
    store(short.to_numpy(object).tolist(), provenance, columns, folder / "peers.json")
    versions = ", ".join(f"{k} {v}" for k, v in provenance["versions"].items())
    shown = enough(table)
    methods = list(shown[METHOD].drop_duplicates().itertuples(index=False, name=None))
    lines = [
        "# Peers side by side",
        "",
        f"`benchmarks/peers.py`; {versions}.",
        "",
        "Means over data sets; in brackets the difference from Euclid on the same",
        "training sets ± its standard error, data sets as units. Few: n = 20 to 160",
        "training points, all four sizes. A learner that was not fitted everywhere, or",
        "was on other splits, has its means over those: compare its differences. Fit:",
        "CPU seconds with 70 %, median, while other work ran on the same cores. No",
        "default of a learner was chosen on splits from 30 on, but many were on others",
        "of the same data sets.",
        "",
        *table_of(shown),
        "",
        *missing_of(table),
        "",
        "## Log loss less Euclid's, by size",
        "",
        *gaps_of(shown, methods[1:]),
        "",
        "## Log loss less LCA's votes, by size",
        "",
        *gaps_of(less(shown, "LCA"), [m for m in methods if m[0] != "LCA"]),
        "",
        *draws_of(shown),
        "## Accuracy in % with 70 % of the points to learn from, by data set",
        "",
        *sets_of(table),
    ]
    (folder / "peers.md").write_text("\n".join(lines) + "\n")
    plot(shown, folder / "peers.png")
    print("\n".join(lines))
