"""Do nominal 90 % intervals of LCA's metric cover, and what do they cover?

    python benchmarks/posterior_coverage.py --data DIR [--seeds 30] [--sizes 20 40]
    python benchmarks/posterior_coverage.py --table --out FILE.json

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

import numpy as np
import pandas as pd
from posterior_coverage_report import (
    INFLATE,
    N_CHOOSING,
    OTHERS,
    QUESTIONS,
    SETS,
    SHIPPED,
    SIZES,
    markdown,
    plot,
)

import probmetric as pm
from probmetric.posterior import spread

N_LARGE = 2  # n = 120 on the first two sets
OUT = Path("out/posterior_coverage.json")
N_REFERENCE, N_PAIRS, N_FEW = 1000, 40, 3


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
        lca = pm.LCA(regularization=lam, learning_rate=1, link="model")
        if pairs == "all":
            return lca.set_params(pairs="all").fit(X, y)
        return lca.fit(X, y)

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


def main():
    """Run what is missing, then print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only make the tables")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.table:
        if options.data is None:
            print("nothing is run without --data, a folder with " + ", ".join(SETS))
            return
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
