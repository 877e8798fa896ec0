"""Few labels: the default prior of the two-stage mixture, beside Euclid.

    python benchmarks/few_sources.py --data DIR [--first 6] [--splits 9]
        [--sets digits,usps_8x8] [--only "default prior"] [--out FOLDER] [--table]

Question, data, splits and what was asked are those of few_labels.py, classes being
sources: is the log loss of soft votes under ``TwoStageMixture()`` ever worse than that
of the Euclidean distance? Beside it the prior chosen by votes (``prior="cv"``), and the
weak prior, which was the default before and is that of many sources.

The form of the chosen prior was made up on splits 0 and 1 of nine of the sets, by
another script, and that of the default, with its 8 points a feature, on splits 0 to 2
of all. Rows are kept in FOLDER/few_sources.json, done ones not done again.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from few_labels import SIZES, cell, markdown, summary
from peers_data import problems, sets

import probmetric as pm
from probmetric.inference.mixture import default_prior

CHOSEN, DEFAULT, WEAK = "prior chosen", "default prior", "weak prior"
PRIORS = {
    "Euclid": lambda A: None,
    DEFAULT: lambda A: "default",
    CHOSEN: lambda A: "cv",
    WEAK: lambda A: default_prior(A, 1),
}
COLUMNS = ["data", "n", "split", "learner", "log_loss", "strength"]


def loss(metric, A, a, B, b):
    """Return the log loss of soft votes."""
    P = pm.KNeighborsClassifier(metric, 5).fit(A, a).predict_proba(B)
    return float(np.mean(-np.log(P[np.arange(len(b)), b])))


def rows_of(A, a, B, b, names):
    """Yield learner, log loss and strength."""
    for name in names:
        metric, s = pm.Mahalanobis(np.eye(A.shape[1])), None
        if name != "Euclid":  # Features are standardised: the units of the fit.
            prior = PRIORS[name](A)
            model = pm.TwoStageMixture(prior=prior).fit(A, groups=a)
            s = f"{model.prior_strength_:g}" if name == CHOSEN else None
            metric = model.get_metric()
        yield name, loss(metric, A, a, B, b), s


def report(table, provenance):
    """Return the page."""
    case = ["data", "n", "split"]
    euclid = table[table.learner == "Euclid"].set_index(case).log_loss
    keys = list(table[case].itertuples(index=False, name=None))
    table = table.assign(gap=table.log_loss - euclid.loc[keys].to_numpy())
    lines = [
        "# Few labels: the default prior of the two-stage mixture, and a chosen one",
        "",
        f"`benchmarks/few_sources.py`; {provenance}.",
        "",
        "Log loss of soft votes minus Euclid's on the same training set, classes as",
        "sources: mean over data sets ± standard error (≤ upper one-sided 90 % limit).",
        "Asked: mean ≤ +.02 and limit ≤ +.05 in every cell. The form of the prior that",
        "votes choose was found on splits 0 and 1 of nine of the sets; that of the",
        "default, and its 8 points a feature, on splits 0 to 2, and no figure of it on",
        "splits 6 to 8 had been seen. The weak prior was the default before, and is",
        "that of more sources than features.",
        "",
    ]
    lines += [f"## Splits {table.split.min()}–{table.split.max()}", ""]
    sizes, body = [f"n = {n}" for n in SIZES], []
    run = [name for name in list(PRIORS)[1:] if name in set(table.learner)]
    for name in run:
        own = table[table.learner == name]
        every = [own, *(own[own.n == n] for n in SIZES)]
        ends = [summary(one) for one in every]
        met = all(mean <= 0.02 and limit <= 0.05 for mean, _, limit in ends)
        answer = "met" if met else "not met"
        body.append([name, *map(cell, every), len(own), answer])
    lines += markdown(body, ["learner", "n = 20 to 160", *sizes, "fits", "asked"])
    for name in run:
        lines += [f"## By data set: {name}", ""]
        own, body = table[table.learner == name], []
        for data in dict.fromkeys(table.data):
            gaps = [own[(own.data == data) & (own.n == n)].gap for n in SIZES]
            body.append([data, *(f"{g.mean():+.3f}" if len(g) else "–" for g in gaps)])
        lines += markdown(body, ["set", *sizes])
    lines += ["iris and wine have fewer than 160 points to learn from.", ""]
    lines += ["## What votes chose: share of fits by strength", ""]
    grid, body = ["inf", "256", "64", "16", "4", "1"], []
    for n in SIZES:
        own = table[(table.learner == CHOSEN) & (table.n == n)].strength
        body.append([n, *(f"{np.mean(own == s):.0%}" for s in grid)])
    return "\n".join(lines + markdown(body, ["n", *grid]))


def main():
    """Run what is missing, keep it, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--first", type=int, default=6, help="split to begin with")
    parser.add_argument("--splits", type=int, default=9)
    parser.add_argument("--sets", help="only these, by commas")
    parser.add_argument("--only", help="run these alone: names, with ;")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--table", action="store_true", help="only the report")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "few_sources.json"
    kept = json.loads(file.read_text()) if file.exists() else {"rows": []}
    rows, found = kept["rows"], sets(options.data)
    kept["data"] = {name: digest for name, (_, _, digest) in found.items()}
    packages = ("probmetric", "scikit-learn", "numpy", "scipy")
    kept["versions"] = {name: version(name) for name in packages}
    wanted = options.sets.split(",") if options.sets else list(found)
    names = options.only.split(";") if options.only else list(PRIORS)
    for split in range(options.first, 0 if options.table else options.splits):
        for name in wanted:
            X, y, _ = found[name]
            done = {tuple(row[:4]) for row in rows}
            for n, *parts in problems(X, y, split):
                left = [o for o in names if (name, n, split, o) not in done]
                if n in SIZES:
                    rows += [[name, n, split, *row] for row in rows_of(*parts, left)]
            file.write_text(json.dumps(kept))
        print("split", split, flush=True)
    provenance = ", ".join(f"{k} {v}" for k, v in kept["versions"].items())
    page = report(pd.DataFrame(rows, columns=COLUMNS), provenance)
    (options.out / "few_sources.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
