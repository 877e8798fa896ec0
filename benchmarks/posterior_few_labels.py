"""Few labels: does averaging over draws of LCA's metric pay?

    python benchmarks/posterior_few_labels.py --data DIR [--seeds 6] [--out FILE.json]
    python benchmarks/posterior_few_labels.py --table --out FILE.json

Eight sets (data.md), standardised on the whole sample without labels (digits: 30
principal scores); n = 20, 40, 80 labelled points, stratified, two a class at least; at
most 300 test points, the same for every method. ``LCA()`` as shipped is fitted once.
Compared, by votes of neighbours whose bandwidth is chosen by leave-one-out:

euclid          no learning
map             the fit's own metric: the plug-in
fitted, all     draws for prediction from the pairs of the fit, from all pairs
own rate        draws about the fit itself: its λ = 10, its η = n/N
E[M]            one metric, the mean of those draws
jitter          control: 32 isotropic Gaussian perturbations of the mode of "fitted",
                with the mean trace of its draws, i.e. of equal total variance

λ = 0.1         "fitted" with a weaker prior than leave-one-out may choose

λ of draws is 1, 10 or 100 by leave-one-out of the averaged soft votes, as shipped.

Judged with the data sets as units: a set's figure is its mean over n and seeds, ± is
the standard error over the sets. Seeds below half were for choosing the pair scheme,
the others for confirming it. Results are added one set, n and seed at a time to the
file, which is continued when the script is started again.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import probmetric as pm
from probmetric.data import pad_pairs
from probmetric.inference.lca import fit, generalised_rate
from probmetric.models.lca import to_metric

BUILT_IN = ("wine", "iris", "breast_cancer", "digits")
BY_PATH = ("ionosphere", "balance_scale", "waveform", "image_segmentation")
SIZES = (20, 40, 80)
FIGURES = ("accuracy", "log_loss", "brier", "ece")
OUT = Path("out/posterior_few_labels.json")
HEAD = (
    "Made by `python benchmarks/posterior_few_labels.py --data DIR`, which says what",
    "the methods are. ± is the standard error with the data sets as units.",
)
N_TEST, N_DRAWS, WEAKER = 300, 32, 0.1
LOO_GRID = (1.0, 10.0, 100.0)  # λ that posterior_metric tries for prediction


def load(name, folder):
    """Return standardised points, without constant features, and class codes."""
    given = name if name in BUILT_IN else str(folder / f"{name}.npz")
    X, y = pm.datasets.load(given)
    X = np.asarray(X, float)
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    if name == "digits":
        U, S, _ = np.linalg.svd(X, full_matrices=False)
        X = (U * S)[:, :30]
        X = X / X.std(0)
    return X, np.unique(y, return_inverse=True)[1]


def split(y, n, seed):
    """Draw n training points in proportion to the classes, ≥ 2 each; the rest tests."""
    rng = np.random.default_rng([seed, n])
    wanted = n * np.bincount(y) / len(y)
    size = np.maximum(2, np.floor(wanted)).astype(int)
    while size.sum() != n:
        gap = wanted - size
        step = 1 if size.sum() < n else -1
        size[np.argmax(step * gap - 1e9 * ((step < 0) & (size <= 2)))] += step
    order = [rng.permutation(np.flatnonzero(y == c)) for c in range(len(size))]
    train = np.concatenate([o[:s] for o, s in zip(order, size, strict=True)])
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), train))
    return train, rest[:N_TEST]


def mode_for_prediction(lca, lam):
    """Return the factor of the mode under λ at the rate η_G, in standardised units."""
    pairs, start = lca.fitted_.pairs, lca.fitted_.fit.params
    prior = lca.fitted_.prior._replace(lam=np.asarray(lam))
    w = np.ones(len(pairs.i)) if pairs.w is None else pairs.w
    rate = len(pairs.X) / float(np.sum(w))
    with jax.enable_x64(True):
        padded = pad_pairs(pairs)
        found = fit(padded, prior, init=start, learning_rate=rate).params
        rate = generalised_rate(found, pairs, prior, rate)
        found = fit(padded, prior, init=start, learning_rate=float(rate)).params
    return np.asarray(to_metric(found).factor)


def jittered(lca, lam, draws, seed):
    """Return isotropic perturbations of the mode, of the draws' mean trace."""
    mode = mode_for_prediction(lca, lam)
    mean = draws.mean_metric().factor * lca.scale_
    excess = max(0.0, np.sum(mean**2) - np.sum(mode**2))
    noise = np.random.default_rng(seed).normal(size=(N_DRAWS, *mode.shape))
    made = (mode + noise * np.sqrt(excess / mode.size)) / lca.scale_
    return pm.PosteriorMetric([pm.Mahalanobis(L) for L in made], "prediction")


def cell(name, n, seed, X, y):
    """Yield one row a method and kind of votes."""
    train, test = split(y, n, seed)
    A, a, B, b = X[train], y[train], X[test], y[test]
    kept = np.ptp(A, 0) > 0
    A, B = A[:, kept], B[:, kept]

    def row(method, near, kind, lam=None):
        found = pm.evaluate(B, b, classifier=near, max_pairs=256)
        cell = {"data": name, "n": n, "seed": seed, "method": method, "votes": kind}
        figures = {figure: round(found[figure], 5) for figure in FIGURES}
        return cell | {"lam": lam, "loo": round(near.loo_scores_.max(), 5)} | figures

    def knn(method, metric, lam=None, votes=("soft",)):
        for kind in votes:
            near = pm.KNeighborsClassifier(metric, votes=kind).fit(A, a)
            yield row(method, near, kind, lam)

    both = ("soft", "count")
    lca = pm.LCA().fit(A, a)
    yield from knn("euclid", None, votes=both)
    yield from knn("map", lca.get_metric(), votes=both)
    own = {"regularization": lca.regularization_, "learning_rate": lca.learning_rate_}
    yield from knn("own rate", lca.posterior_metric("prediction", **own), 10.0)
    weak = lca.posterior_metric("prediction", regularization=WEAKER)
    yield from knn("λ = 0.1", weak, WEAKER)
    for scheme in ("fitted", "all"):
        tried = {}
        for lam in LOO_GRID:
            draws = lca.posterior_metric("prediction", pairs=scheme, regularization=lam)
            near = pm.KNeighborsClassifier(draws).fit(A, a)
            tried[lam] = near.loo_scores_.max(), near, draws
        lam = max(tried, key=lambda v: tried[v][0])
        _, near, draws = tried[lam]
        yield row(scheme, near, "soft", lam)
        yield from knn(scheme, draws, lam, ("count",))
        yield from knn(f"E[M] {scheme}", draws.mean_metric(), lam)
        if scheme == "fitted":
            yield from knn("jitter", jittered(lca, lam, draws, seed), lam)


def against(rows, method, base, figure, votes="soft", base_votes="soft"):
    """Return each set's mean difference of a figure, over n and seeds."""
    key = ["data", "n", "seed"]
    one = rows[(rows["method"] == method) & (rows["votes"] == votes)]
    two = rows[(rows["method"] == base) & (rows["votes"] == base_votes)]
    gap = one.set_index(key)[figure] - two.set_index(key)[figure]
    return gap.dropna()


def summary(gap):
    """Return mean and standard error with the data sets as units."""
    per_set = gap.groupby("data").mean()
    return per_set.mean(), per_set.sem()


def markdown(rows):
    """Return the tables."""
    half = (rows["seed"].max() + 1) // 2
    lines = ["# Few labels: averaged draws of LCA's metric", "", *HEAD, ""]
    lines += ["| n | method | votes | accuracy | log loss | Brier | ECE |"]
    lines += ["|---" * 7 + "|"]
    for n, of_n in rows.groupby("n"):
        mean = of_n.groupby(["method", "votes", "data"], sort=False)[list(FIGURES)]
        mean = mean.mean().groupby(["method", "votes"], sort=False).mean()
        for (method, votes), figures in mean.iterrows():
            shown = " | ".join(f"{v:.3f}" for v in figures)
            lines.append(f"| {n} | {method} | {votes} | {shown} |")
    lines += ["", "| log loss (accuracy) | n pooled | choosing | confirming |"]
    lines += ["|---" * 4 + "|"]
    for method, base, votes in CONTRASTS:
        parts = []
        for some in (rows, rows[rows["seed"] < half], rows[rows["seed"] >= half]):
            loss = summary(against(some, method, base, "log_loss", votes, votes))
            rate = summary(against(some, method, base, "accuracy", votes, votes))
            if np.isnan(loss[1]):  # one set or none
                parts.append("-")
                continue
            parts.append(
                f"{loss[0]:+.3f} ± {loss[1]:.3f} ({rate[0]:+.3f} ± {rate[1]:.3f})"
            )
        lines.append(f"| {method} - {base}, {votes} | " + " | ".join(parts) + " |")
    lines += ["", "| log loss, soft, n pooled | " + " | ".join(SHOWN) + " |"]
    lines += ["|---" * (len(SHOWN) + 1) + "|"]
    soft = rows[rows["votes"] == "soft"]
    wide = soft.groupby(["data", "method"], sort=False)["log_loss"].mean().unstack()
    for name, values in wide[list(SHOWN)].iterrows():
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    lines += ["", "| λ chosen (cells) | " + " | ".join(f"{v:g}" for v in LOO_GRID)]
    lines[-1] += " | leave-one-out prefers 0.1 |"
    lines += ["|---" * (len(LOO_GRID) + 2) + "|"]
    wide = soft.pivot_table(index=["data", "n", "seed"], columns="method", values="loo")
    prefers = (wide["λ = 0.1"] > wide["fitted"]).sum()
    for method in ("fitted", "all"):
        lam = soft[soft["method"] == method]["lam"]
        counts = [str(int((lam == v).sum())) for v in LOO_GRID]
        shown = f"{prefers} of {wide['λ = 0.1'].notna().sum()}"
        counts.append(shown if method == "fitted" else "")
        lines.append(f"| {method} | " + " | ".join(counts) + " |")
    return "\n".join(lines) + "\n"


SHOWN = ("euclid", "map", "own rate", "fitted", "all", "E[M] fitted", "E[M] all",
         "jitter")  # fmt: skip
CONTRASTS = (
    ("map", "euclid", "soft"),
    ("own rate", "euclid", "soft"),
    ("fitted", "euclid", "soft"),
    ("all", "euclid", "soft"),
    ("E[M] fitted", "euclid", "soft"),
    ("E[M] all", "euclid", "soft"),
    ("jitter", "euclid", "soft"),
    ("fitted", "map", "soft"),
    ("all", "map", "soft"),
    ("all", "fitted", "soft"),
    ("fitted", "own rate", "soft"),
    ("λ = 0.1", "fitted", "soft"),
    ("fitted", "E[M] fitted", "soft"),
    ("fitted", "jitter", "soft"),
    ("fitted", "euclid", "count"),
    ("all", "euclid", "count"),
    ("fitted", "map", "count"),
)


def plot(rows, path):
    """Draw log loss relative to Euclid by n, with two standard errors over sets."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    shown = ("map", "own rate", "fitted", "all", "E[M] fitted", "jitter")
    for place, method in enumerate(shown):
        gap = against(rows, method, "euclid", "log_loss")
        found = [summary(gap.xs(n, level="n")) for n in SIZES]
        mean, error = np.array(found).T
        at = np.arange(len(SIZES)) + 0.1 * (place - (len(shown) - 1) / 2)
        axes.errorbar(at, mean, 2 * error, fmt="o", capsize=3, label=method)
    axes.axhline(0, color="0.4", lw=1)
    axes.set_xticks(range(len(SIZES)), [str(n) for n in SIZES])
    axes.set_xlabel("labelled points n")
    axes.set_ylabel("test log loss minus Euclid's")
    n_sets, n_seeds = rows["data"].nunique(), rows["seed"].nunique()
    axes.set_title(
        f"Soft votes, {n_sets} data sets, {n_seeds} seeds; bars: ± 2 s.e. over sets",
        fontsize=10,
    )
    axes.legend(ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def main():
    """Run what is missing, then print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only make the tables")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.table:
        names = BUILT_IN + (BY_PATH if options.data else ())
        sets = {name: load(name, options.data) for name in names}
        done = {(row["data"], row["n"], row["seed"]) for row in rows}
        for seed in range(options.seeds):
            for n in SIZES:
                for name, (X, y) in sets.items():
                    if (name, n, seed) in done:
                        continue
                    rows += list(cell(name, n, seed, X, y))
                    text = ",\n".join(json.dumps(row) for row in rows)
                    options.out.write_text(f"[{text}]\n")
                    print(seed, n, name, flush=True)
    table = pd.DataFrame(rows)
    text = markdown(table)
    print(text)
    options.out.with_suffix(".md").write_text(text)
    plot(table, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
