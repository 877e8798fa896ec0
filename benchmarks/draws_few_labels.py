"""Few labels: what is it in averaged draws that LCA's plug-in metric lacks?

    python benchmarks/draws_few_labels.py --data DIR [--seeds 3] [--first 0]
        [--sets wine,iris] [--learners LDA,RCA,DCAGM] [--out FILE.jsonl] [--table]

Sets, standardisation and splits are those of posterior_few_labels.py, and three sets
more; n = 20, 40. Soft votes of

plug-in     the fit's own metric, λ = 10
draws       votes averaged over ``posterior_metric("prediction")``, λ by leave-one-out
mode        the mode under λ and learning rate of the draws: of them only their *prior*
E[M]        one metric, the mean of the draws
jitter      that mode with isotropic Gaussian noise, as much as gives the draws' mean
            trace: of the draws only their prior and *size*
λ by folds  the plug-in or a mode, and its bandwidth, whichever folds find best

Of other learners: plug-in, draws, E[M] and jitter about the plug-in, all at defaults.

The bandwidth of the votes is chosen by leave-one-out of the neighbours alone (``loo``:
the metric has learned from the point left out), or on folds in which the metric is
learned again (``folds``). The log score on each bandwidth of the grid is stored, in
training and test, so that a method can be judged at another one's bandwidth too.

Figures are log losses minus that of the Euclidean distance, ± one standard error with
the data sets as units.
"""

import argparse
import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from posterior_few_labels import (
    BUILT_IN,
    BY_PATH,
    LOO_GRID,
    N_DRAWS,
    load,
    mode_for_prediction,
    split,
)

import probmetric as pm

SIZES = (20, 40)
MORE = ("german_numeric", "twonorm", "usps_8x8")
N_FOLDS = 5
WIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # the grid of KNeighborsClassifier
OUT = Path("out/draws_few_labels.jsonl")


def folds(y, seed):
    """Yield rows to learn from and rows held out, of classes of three members or more.

    A learner needs two members of each class.
    """
    rng, fold, dealt = np.random.default_rng(seed), np.full(len(y), -1), 0
    for code in range(y.max() + 1):
        members = rng.permutation(np.flatnonzero(y == code))
        if len(members) > 2:
            fold[members] = (dealt + np.arange(len(members))) % N_FOLDS
            dealt += len(members)
    for out in range(N_FOLDS):
        test = np.flatnonzero(fold == out)
        if len(test):
            yield np.flatnonzero(fold != out), test


def curve(near, B, b):
    """Return log loss and accuracy at every bandwidth of the grid."""
    losses, rates = [], []
    for width in WIDTHS:
        near.bandwidth_ = width
        P = near.predict_proba(B)
        losses.append(-np.log(P[np.arange(len(b)), b]).mean())
        rates.append(np.mean(P.argmax(1) == b))
    return losses, rates


def by_folds(learn, A, a, seed):
    """Return the log score at every bandwidth of points whose fold was left out."""
    total, count = 0.0, 0
    for train, test in folds(a, seed):
        near = pm.KNeighborsClassifier(learn(A[train], a[train])).fit(
            A[train], a[train]
        )
        total = total - len(test) * np.array(curve(near, A[test], a[test])[0])
        count += len(test)
    return (total / count).tolist()


def jittered(plain, draws, seed):
    """Return noisy copies of a map, whose mean trace is that of draws; None if less."""
    excess = np.sum(draws.mean_metric().factor ** 2) - np.sum(plain.factor**2)
    if not excess > 0:
        return None
    noise = np.random.default_rng(seed).normal(size=(N_DRAWS, *plain.factor.shape))
    made = plain.factor + noise * np.sqrt(excess / plain.factor.size)
    return pm.PosteriorMetric([pm.Mahalanobis(L) for L in made], "prediction")


def of_lca(A, a, seed):
    """Yield name, metric, and what learns it in a fold, of LCA; λ by leave-one-out."""
    lca = pm.LCA().fit(A, a)
    yield "LCA, plug-in", lca.get_metric(), lambda A, a: pm.LCA().fit(A, a).get_metric()
    tried = {}
    for lam in LOO_GRID:
        draws = lca.posterior_metric("prediction", regularization=lam)
        near = pm.KNeighborsClassifier(draws).fit(A, a)
        tried[lam] = near.loo_scores_.max(), draws
    lam = max(tried, key=lambda v: tried[v][0])
    draws = tried[lam][1]
    yield "LCA, draws", draws, None
    yield "LCA, E[M]", draws.mean_metric(), None
    for value in (1.0, 10.0):
        learn = partial(mode_metric, lam=value)
        name = f"LCA, mode at λ = {value:g}"
        yield name, pm.Mahalanobis(mode_for_prediction(lca, value) / lca.scale_), learn
    mode = pm.Mahalanobis(mode_for_prediction(lca, lam) / lca.scale_)
    yield "LCA, mode", mode, None
    yield "LCA, jitter", jittered(mode, draws, seed), None


def of_linear(learner, A, a, seed):
    """Yield the same of another learner of a linear map, at its defaults."""
    fitted = getattr(pm, learner)().fit(A, a)
    plain, draws = fitted.get_metric(), fitted.posterior_metric("prediction")
    yield f"{learner}, plug-in", plain, None
    yield f"{learner}, draws", draws, None
    yield f"{learner}, E[M]", draws.mean_metric(), None
    yield f"{learner}, jitter", jittered(plain, draws, seed), None


def mode_metric(A, a, lam):
    """Return the mode's metric under λ and the rate of draws for prediction."""
    lca = pm.LCA().fit(A, a)
    return pm.Mahalanobis(mode_for_prediction(lca, lam) / lca.scale_)


def cell(data, n, seed, X, y, learners):
    """Yield one row a method."""
    train, test = split(y, n, seed)
    A, a, B, b = X[train], y[train], X[test], y[test]
    kept = np.ptp(A, 0) > 0
    A, B = A[:, kept], B[:, kept]
    methods = [("Euclid", pm.Mahalanobis(np.eye(A.shape[1])), None)]
    for learner in learners:
        lca = learner == "LCA"
        made = of_lca(A, a, seed) if lca else of_linear(learner, A, a, seed)
        methods += list(made)
    for method, metric, learn in methods:
        if metric is None:
            continue
        near = pm.KNeighborsClassifier(metric).fit(A, a)
        losses, rates = curve(near, B, b)
        row = {"data": data, "n": n, "seed": seed, "method": method}
        row |= {"loo": near.loo_scores_[:, 0].tolist(), "loss": losses, "rate": rates}
        yield row | {"folds": None if learn is None else by_folds(learn, A, a, seed)}


def figures(rows):
    """Return a table of log losses, a column for each way to choose the bandwidth."""
    kept, index = [], {(r["data"], r["n"], r["seed"], r["method"]): r for r in rows}
    for (*cell, method), row in index.items():
        name = method.split(",")[0]
        loss, best = row["loss"], {"loo": int(np.argmax(row["loo"]))}
        if row["folds"] is not None:
            best["folds"] = int(np.argmax(row["folds"]))
        best["hindsight"] = int(np.argmin(loss))
        for column, other in (("draws'", "draws"), ("plug-in's", "plug-in")):
            of = index.get((*cell, f"{name}, {other}"))
            if of is not None:
                best[column] = int(np.argmax(of["loo"]))
        found = {column: loss[at] for column, at in best.items()}
        rate = row["rate"][best["loo"]]
        kept.append([*cell, method, found, rate, WIDTHS[best["loo"]]])
    for cell in {key[:3] for key in index}:
        tried = [index.get((*cell, f"LCA, {m}")) for m in FOLDED]
        tried = [row for row in tried if row is not None]
        if tried:
            row = max(tried, key=lambda row: max(row["folds"]))
            at = int(np.argmax(row["folds"]))
            found = {"folds": row["loss"][at]}
            kept.append([*cell, "LCA, λ by folds", found, row["rate"][at], WIDTHS[at]])
    columns = ["data", "n", "seed", "method", "loss", "accuracy", "width"]
    table = pd.DataFrame(kept, columns=columns)
    return pd.concat([table, pd.DataFrame(list(table.pop("loss")))], axis=1)


def summary(gap):
    """Write the mean and standard error of a difference, data sets as units."""
    of_set = gap.dropna().groupby("data").mean()
    if len(of_set) < 2:
        return ""
    return f"{of_set.mean():+.3f} ± {of_set.sem():.3f}"


def markdown(rows):
    """Return the tables."""
    table = figures(rows)
    key = ["data", "n", "seed"]
    euclid = table[table["method"] == "Euclid"].set_index(key)["loo"]
    ways = ["loo", "folds", "plug-in's", "draws'", "hindsight"]
    cells = table[key].drop_duplicates()
    of_set = cells.groupby("data", sort=False).size()
    lines = [
        "# Few labels: what averaged draws have that the plug-in metric lacks",
        "",
        "Made by `python benchmarks/draws_few_labels.py --data DIR`, which says what",
        "methods and bandwidths are. Log loss minus Euclid's, ± one standard error,",
        f"sets as units; cells: {', '.join(f'{k} {v}' for k, v in of_set.items())}.",
    ]
    for name, chosen in (("pooled", SIZES), *((f"{n}", (n,)) for n in SIZES)):
        lines += ["", f"| n = {name}; bandwidth: | " + " | ".join(ways) + " |"]
        lines += ["|---" * (len(ways) + 1) + "|"]
        for method, own in table.groupby("method", sort=False):
            own = own[own["n"].isin(chosen)].set_index(key)
            shown = [
                summary(own[way] - euclid.reindex(own.index)) if way in own else ""
                for way in ways
            ]
            lines.append(f"| {method} | " + " | ".join(shown) + " |")
    lines += paired(table.pivot_table(index=key, columns="method", values="loo"))
    wide = table.pivot_table(index="data", columns="method", values="loo", sort=False)
    lca = "LCA, plug-in" in wide
    shown = [m for m in (SHOWN if lca else wide) if m in wide]
    lines += ["", "| log loss, loo | " + " | ".join(shown) + " |"]
    lines += ["|---" * (len(shown) + 1) + "|"]
    for name, values in wide[shown].iterrows():
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    return "\n".join(lines) + "\n"


def paired(loss):
    """Return a table of log losses (loo) minus the plug-in's, of the same cells."""
    lines = [
        "",
        "| minus the plug-in's, loo | draws | E[M] | jitter |",
        "|---" * 4 + "|",
    ]
    for name in dict.fromkeys(m.split(",")[0] for m in loss if ", plug-in" in m):
        plain = loss[f"{name}, plug-in"]
        others = (f"{name}, {how}" for how in ("draws", "E[M]", "jitter"))
        gaps = [summary(loss[o] - plain) if o in loss else "" for o in others]
        lines.append(f"| {name} | " + " | ".join(gaps) + " |")
    return [*lines, "", "Without jitter where draws have no larger trace than the fit."]


FOLDED = ("plug-in", "mode at λ = 1", "mode at λ = 10")
SHOWN = ("Euclid", "LCA, plug-in", "LCA, mode", "LCA, E[M]", "LCA, jitter",
         "LCA, draws")  # fmt: skip


def main():
    """Run what is missing, then print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--sets", default="", help="names, with commas; default: all")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learners", default="LCA", help="names, with commas")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only make the tables")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    rows = [json.loads(line) for line in lines]
    if not options.table:
        warnings.simplefilter("ignore")
        names = options.sets.split(",") if options.sets else BUILT_IN + BY_PATH + MORE
        done = {(row["data"], row["n"], row["seed"]) for row in rows}
        for seed in range(options.first, options.first + options.seeds):
            for name in names:
                X, y = load(name, options.data)
                for n in SIZES:
                    if (name, n, seed) in done:
                        continue
                    learners = options.learners.split(",")
                    made = list(cell(name, n, seed, X, y, learners))
                    rows += made
                    with options.out.open("a") as out:
                        out.writelines(json.dumps(row) + "\n" for row in made)
                    print(seed, name, n, flush=True)
    text = markdown(rows)
    print(text)
    options.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
