"""Tables and figure of ``posterior_coverage.py``, from its rows."""

import matplotlib.pyplot as plt
import numpy as np

SETS = ("waveform", "image_segmentation", "twonorm", "usps_8x8")
SIZES = (20, 40, 120)
INFLATE = (1.0, 1.1, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 2.0, 2.5)
QUESTIONS = ("distance", "ratio", "P(same)")
SHIPPED = ("all", 1.0)
OTHERS = (("all", 10.0), ("fitted", 10.0))
N_CHOOSING = 10
HEAD = (
    "Made by `python benchmarks/posterior_coverage.py --data DIR`, which says what the",
    "truth is; five principal scores; n = 120 on waveform and image_segmentation only.",
    "± is the standard error over training sets; width is relative to 3.29 standard",
    "deviations of the fit over training sets; bias is that of log distance.",
)


def error_of(share, names):
    """Return the standard error of the mean over sets, from training sets."""
    grouped = share.groupby(names)
    return float(np.sqrt(np.sum(grouped.sem() ** 2))) / grouped.ngroups


def pick(rows, method, pairs, lam, *, judged=None):
    """Return a variant's rows, of the choosing or the judging seeds."""
    kept = (rows["method"] == method) & (rows["pairs"] == pairs) & (rows["lam"] == lam)
    if judged is not None:
        kept &= (rows["seed"] >= N_CHOOSING) == judged
    return rows[kept]


def covered(some, question, factor):
    """Return mean coverage at an inflation, sets alike, and its standard error."""
    at = INFLATE.index(factor)
    share = some[question].map(lambda found: found["covered"][at])
    return share.groupby(some["data"]).mean().mean(), error_of(share, some["data"])


def choose_inflate(rows):
    """Return the factor whose coverage is nearest .9 at n ≥ 40, choosing seeds only."""
    some = pick(rows, "bootstrap", *SHIPPED, judged=False)
    some = some[some["n"] >= 40]
    mean = [np.mean([covered(some, q, f)[0] for q in QUESTIONS]) for f in INFLATE]
    return INFLATE[int(np.argmin(np.abs(np.array(mean) - 0.9)))]


def relative_width(some):
    """Return mean width of intervals of log distance over 3.29 sd of the fit."""
    parts = []
    for _, own in some.groupby("data"):
        sd = np.std(np.stack(own["log_distance"].to_list()), 0, ddof=1).mean()
        parts.append(np.mean([found["width"] for found in own["distance"]]) / sd / 3.29)
    return float(np.mean(parts))


def line(label, n, some, factor):
    """Return one line of a table."""
    cells = [
        f"{m:.2f} ± {e:.2f}" for m, e in (covered(some, q, factor) for q in QUESTIONS)
    ]
    bias = np.mean([found["bias"] for found in some["distance"]])
    n_seeds = some["seed"].nunique()
    return (
        f"| {label} | {n} | {factor:g} | {n_seeds} | "
        + " | ".join([*cells, f"{relative_width(some):.2f}", f"{bias:+.2f}"])
        + " |"
    )


def markdown(rows):
    """Return the tables."""
    head = "| intervals | n | inflate | training sets a set | " + " | ".join(QUESTIONS)
    head += " | width | bias |\n" + "|---" * 9 + "|"
    best = choose_inflate(rows)
    lines = ["# Coverage of nominal 90 % intervals of LCA's metric", "", *HEAD, ""]
    lines += ["Choosing (seeds 0-9; candidates 0-2)", "", head]
    for pairs, lam in (SHIPPED, *OTHERS):
        for n in SIZES:
            some = pick(rows, "bootstrap", pairs, lam, judged=False)
            some = some[some["n"] == n]
            if some["seed"].nunique() > 1:
                lines.append(line(f"bootstrap, {pairs}, λ = {lam:g}", n, some, 1.0))
    lines += ["", f"inflate chosen on seeds 0-9, n ≥ 40: {best:g}", ""]
    lines += ["Judging (seeds 10-29; NUTS seeds 0-2)", "", head]
    shown = [("bootstrap", 1.0), ("bootstrap", best), ("laplace", 1.0), ("nuts", 1.0)]
    for method, factor in shown:
        for n in SIZES:
            judged = None if method == "nuts" else True
            some = pick(rows, method, *SHIPPED, judged=judged)
            some = some[some["n"] == n]
            if some["seed"].nunique() > 1:
                lines.append(line(method, n, some, factor))
    lines += ["", "By set, bootstrap, judging", "", head]
    for name in SETS:
        for n in SIZES:
            some = pick(rows, "bootstrap", *SHIPPED, judged=True)
            some = some[(some["n"] == n) & (some["data"] == name)]
            if len(some):
                lines.append(line(name, n, some, best))
    return "\n".join(lines) + "\n"


def plot(rows, path):
    """Draw coverage by n and method, with two standard errors."""
    best = choose_inflate(rows)
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), sharey=True,
                                  layout="constrained")  # fmt: skip
    shown = [("bootstrap", 1.0), ("bootstrap", best), ("laplace", 1.0), ("nuts", 1.0)]
    for axes, question in zip(panels, QUESTIONS, strict=True):
        for place, (method, factor) in enumerate(shown):
            some = pick(
                rows, method, *SHIPPED, judged=None if method == "nuts" else True
            )
            sizes = [n for n in SIZES if some["seed"][some["n"] == n].nunique() > 1]
            found = [covered(some[some["n"] == n], question, factor) for n in sizes]
            mean, error = np.array(found).T
            at = np.arange(len(sizes)) + 0.1 * (place - 1.5)
            label = method if factor == 1 else f"{method}, inflate={factor:g}"
            axes.errorbar(at, mean, 2 * error, fmt="o-", lw=1, capsize=3, label=label)
        axes.axhspan(0.85, 0.95, color="0.92", zorder=0)
        axes.axhline(0.9, color="0.4", lw=1)
        axes.set_xticks(range(len(SIZES)), [str(n) for n in SIZES])
        axes.set_xlabel("training points n")
        axes.set_title(question, fontsize=10)
    panels[0].set_ylim(0, 1)
    panels[0].set_ylabel("share of nominal 90 % intervals that cover")
    panels[0].legend(fontsize=8, loc="lower left", frameon=False)
    figure.savefig(path, dpi=150)
