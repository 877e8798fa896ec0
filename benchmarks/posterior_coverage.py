"""Do nominal 90 % intervals of LCA's metric cover, and what do they cover?

    python benchmarks/posterior_coverage.py --data DIR [--seeds 30] [--sizes 20 40]
    python benchmarks/posterior_coverage.py --table              # from the file alone

Four sets (data.md) in d = 5 principal scores of the standardised features. A training
set of n = 20, 40 or 120 stratified points gives intervals for 40 fixed pairs of points:
for the distance, for its ratio to the distance of the next pair, and for P(same). The
truth is what the *same fit* (pairs, λ, learning rate of the intervals) gives on 1000
points that no training set uses.

bootstrap   product weights on points, η = 1
laplace     the posterior at η = 1, Laplace without the rotation
nuts        the same by NUTS, 200 draws of one chain, n ≤ 40 and seeds 0-2 only

Pairs are those of the fit (fitted) or all pairs of the training points (all). What to
ship, and the factor ``inflate`` by which draws are spread about their mean, are chosen
on seeds 0-9 and judged on seeds 10-29, where ± is the standard error over training
sets. Results are added to the file one training set at a time; it is continued when
the script is started again. A size with one training set a set is not shown.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import probmetric as pm
from probmetric.posterior_intervals import spread

SETS = ("waveform", "image_segmentation", "twonorm", "usps_8x8")
SIZES, N_LARGE = (20, 40, 120), 2  # n = 120 on the first two sets
RESULTS = Path(__file__).parent / "results"
INFLATE = (1.0, 1.1, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 2.0, 2.5)
QUESTIONS = ("distance", "ratio", "P(same)")
SHIPPED = ("all", 1.0)
OTHERS = (("all", 10.0), ("fitted", 10.0))
HEAD = (
    "Made by `python benchmarks/posterior_coverage.py --data DIR`, which says what the",
    "truth is; five principal scores; n = 120 on waveform and image_segmentation only.",
    "± is the standard error over training sets; width is relative to 3.29 standard",
    "deviations of the fit over training sets; bias is that of log distance.",
)
N_REFERENCE, N_PAIRS, N_CHOOSING, N_FEW = 1000, 40, 10, 3


def load(path):
    """Return five principal scores and class codes."""
    X, y = pm.datasets.load(str(path))
    X = np.asarray(X, float)
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    _, vectors = np.linalg.eigh(X.T @ X)
    scores = X @ vectors[:, :-6:-1]
    return scores / scores[:, 0].std(), np.unique(y, return_inverse=True)[1]


def draw_points(y, n, rng, among):
    """Draw n points of ``among`` in proportion to the classes, ≥ 2 of each."""
    codes = y[among]
    wanted = n * np.bincount(codes) / len(codes)
    size = np.maximum(2, np.floor(wanted)).astype(int)
    while size.sum() != n:
        step = 1 if size.sum() < n else -1
        gap = step * (wanted - size) - 1e9 * ((step < 0) & (size <= 2))
        size[np.argmax(gap)] += step
    parts = [rng.permutation(among[codes == c])[:s] for c, s in enumerate(size)]
    return np.concatenate(parts)


def values(metrics, A, B):
    """Return draws (s, 40) of each question, of -log P(same) for P(same)."""
    D = np.stack([np.linalg.norm((A - B) @ m.factor.T, axis=1) for m in metrics])
    b = np.array([m.link.b for m in metrics])[:, None]
    return {"distance": D, "ratio": D / np.roll(D, -1, 1), "P(same)": b + D**2 / 2}


def shares(draws, truth):
    """Return coverage by question and inflation, and the width on log scale."""
    found = {}
    for question in QUESTIONS:
        covered = []
        for factor in INFLATE:
            low, high = np.quantile(
                spread(draws[question], factor, True), [0.05, 0.95], axis=0
            )
            inside = (low <= truth[question]) & (truth[question] <= high)
            covered.append(round(float(inside.mean()), 3))
        low, high = np.quantile(np.log(draws[question]), [0.05, 0.95], axis=0)
        bias = np.log(draws[question]).mean(0) - np.log(truth[question][0])
        found[question] = {
            "covered": covered,
            "width": round(float(np.mean(high - low)), 4),
            "bias": round(float(bias.mean()), 4),
        }
    return found


def variants(n, seed):
    """List (method, pairs, λ): candidates and NUTS at first, then what is shipped."""
    found = [("bootstrap", *SHIPPED)]
    if seed < N_FEW:
        found += [("bootstrap", *other) for other in OTHERS]
        found += [("nuts", *SHIPPED)] if n <= 40 else []
    elif seed >= N_CHOOSING:
        found.append(("laplace", *SHIPPED))
    return found


class World:
    """One data set: reference points, the 40 pairs, and the fits on the reference."""

    def __init__(self, name, folder):
        self.name = name
        self.X, self.y = load(folder / f"{name}.npz")
        rng = np.random.default_rng(7)
        every = np.arange(len(self.y))
        self.reference = draw_points(self.y, N_REFERENCE, rng, every)
        rest = np.setdiff1d(every, self.reference)
        asked = rng.permutation(rest)[: 2 * N_PAIRS]
        self.A, self.B = self.X[asked[:N_PAIRS]], self.X[asked[N_PAIRS:]]
        self.rest = np.setdiff1d(rest, asked)
        self._truth = {}

    def fit(self, pairs, lam, index):
        """Return the fit that the intervals are for."""
        X, y = self.X[index], self.y[index]
        lca = pm.LCA(regularization=lam, learning_rate=1)
        if pairs == "all":
            return lca.set_params(pairs="all").fit(X, y)
        # LCA refuses three targets where no class has a fourth member.
        return lca.set_params(n_targets=min(3, np.bincount(y).max() - 1)).fit(X, y)

    def truth(self, pairs, lam):
        """Return the questions' answers by the fit on the reference points."""
        if (pairs, lam) not in self._truth:
            metric = self.fit(pairs, lam, self.reference).get_metric()
            self._truth[pairs, lam] = values([metric], self.A, self.B)
        return self._truth[pairs, lam]

    def run(self, n, seed):
        """Yield one row a variant for one training set."""
        rng = np.random.default_rng([seed, n])
        train = draw_points(self.y, n, rng, self.rest)
        fits = {}
        for method, pairs, lam in variants(n, seed):
            if (pairs, lam) not in fits:
                fits[pairs, lam] = self.fit(pairs, lam, train)
            fit = fits[pairs, lam]
            draws = fit.posterior_metric(
                "intervals",
                method=method,
                pairs="fitted",  # those of this very fit
                regularization=lam,
                n_draws=200 if method == "nuts" else 100,
                seed=seed,
            )
            found = values(draws.metrics(), self.A, self.B)
            row = {"data": self.name, "n": n, "seed": seed, "method": method,
                   "pairs": pairs, "lam": lam}  # fmt: skip
            own = np.log(values([fit.get_metric()], self.A, self.B)["distance"][0])
            row["log_distance"] = own.round(3).tolist()
            yield row | shares(found, self.truth(pairs, lam))


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


def main():
    """Run what is missing, then print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=RESULTS / "posterior_coverage.json")
    parser.add_argument("--table", action="store_true", help="only make the tables")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.table:
        if options.data is None:
            parser.error("--data: wanted a folder with " + ", ".join(SETS))
        done = {(row["data"], row["n"], row["seed"]) for row in rows}
        worlds = [World(name, options.data) for name in SETS]
        plan = [
            (n, seed, world)
            for n in options.sizes
            for seed in range(options.seeds)
            for world in worlds[: None if n <= 40 else N_LARGE]
            if (world.name, n, seed) not in done
        ]
        for n, seed, world in plan:
            rows += list(world.run(n, seed))
            text = ",\n".join(json.dumps(row) for row in rows)
            options.out.write_text(f"[{text}]\n")
            print(n, seed, world.name, flush=True)
    table = pd.DataFrame(rows)
    text = markdown(table)
    print(text)
    options.out.with_suffix(".md").write_text(text)
    plot(table, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
