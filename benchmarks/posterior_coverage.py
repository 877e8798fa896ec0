"""Do nominal 90 % intervals of LCA's metric cover, and on which side do they fail?

    python benchmarks/posterior_coverage.py --data DIR [--seeds 30 60] [--sizes 20 40]
    python benchmarks/posterior_coverage.py --table --out FILE.json

Six populations in d = 5: principal scores of the standardised features of four sets
(data.md), and two simulated here: gauss3, three Gaussian classes of unequal variances,
and twonorm5, two unit Gaussians four apart (Bayes error 2.3 %). A training set of
n = 20, 40, 80 or 120 stratified points gives intervals for 40 fixed pairs of points:
for the distance, for its ratio to the distance of the next pair, and for P(same). The
truth is what the *same recipe* (all pairs, λ = 1, learning rate 1, link included) gives
on 1000 points that no training set uses.

jackknife   ``posterior_metric("intervals")``, as shipped
bootstrap   percentiles of 100 product-weight draws, ``method="bootstrap"``: a control,
            which must fail; its P(same) is by the model's link, as is its truth
hybrid      lower limit of the jackknife, upper of the bootstrap, for the distance
laplace     percentiles of 100 Laplace draws

The last three on the first 10, 10 and 3 of the judged seeds.

How the jackknife makes its limits was chosen on seeds 0-19 and is judged on seeds
30-59. ± is the standard error over training sets, sets alike. Results are added to the
file one training set at a time; it is continued when the script is started again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from posterior_coverage_report import JUDGED, QUESTIONS, SETS, SIZES, markdown, plot

import probmetric as pm
from probmetric.inference.lca import held_out_links, leave_out
from probmetric.posterior import aligned, groups_of

OUT = Path("out/posterior_coverage.json")
N_REFERENCE, N_PAIRS, N_SIMULATED = 1000, 40, 8000
N_CONTROL, N_LAPLACE, N_GROUPS = 10, 3, 10


def gauss3(rng):
    """Return points of three Gaussian classes of unequal variances, and classes."""
    y = rng.integers(0, 3, N_SIMULATED)
    mean = np.array([[0.0, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 2, 1, 0, 0]])
    sd = [[1.0, 1, 1, 1, 1], [0.5, 1.5, 1, 0.7, 1.2], [1.5, 0.6, 1.2, 1, 0.5]]
    return mean[y] + np.array(sd)[y] * rng.standard_normal((len(y), 5)), y


def twonorm5(rng):
    """Return points of two unit Gaussians whose means are four apart, and classes."""
    y = rng.integers(0, 2, N_SIMULATED)
    shift = (2 * y[:, None] - 1) * 2 / np.sqrt(5)
    return shift + rng.standard_normal((len(y), 5)), y


SIMULATED = {"gauss3": (gauss3, 11), "twonorm5": (twonorm5, 12)}


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


def fit(X, y):
    """Return the fit that the intervals are for."""
    return pm.LCA(pairs="all", regularization=1, learning_rate=1).fit(X, y)


def on_reference(X, y):
    """Return the factor and b of the reference fit, and its link on held-out pairs.

    Ten groups in place of fifty, and all pairs: of 1000 points the link is the same.
    """
    lca = fit(X, y)
    group = groups_of(y) % N_GROUPS
    left_out = leave_out(lca.fitted_, group)
    shrink = np.sqrt(1 + 2 * np.exp(np.asarray(left_out.log_sigma2)))[:, None, None]
    maps = np.asarray(left_out.W) / shrink / lca.scale_
    maps = aligned(maps, lca.components_)
    link = held_out_links(X, y, group, lca.components_, maps, most=len(y) ** 2)[0]
    return lca.components_, lca.intercept_, link


def scored(limits, truth, scale):
    """Return numbers of pairs covered, with the truth below and above, and a width."""
    low, high = limits
    inside, below, above = (low <= truth) & (truth <= high), truth < low, truth > high
    width = float(np.median(scale(high) - scale(np.maximum(low, 1e-300))))
    counts = [int(np.sum(which)) for which in (inside, below, above)]
    return [*counts, round(width, 3)]


def log_odds(P):
    """Return log P/(1 - P)."""
    with np.errstate(divide="ignore"):
        return np.log(P) - np.log1p(-P)


class World:
    """One population: reference points, the 40 pairs, and the fit on the reference."""

    def __init__(self, name, folder):
        self.name = name
        if name in SIMULATED:
            make, seed = SIMULATED[name]
            self.X, self.y = make(np.random.default_rng(seed))
        else:
            self.X, self.y = load(folder / f"{name}.npz")
        rng = np.random.default_rng(7)
        every = np.arange(len(self.y))
        reference = draw_points(self.y, N_REFERENCE, rng, every)
        rest = np.setdiff1d(every, reference)
        asked = rng.permutation(rest)[: 2 * N_PAIRS]
        self.A, self.B = self.X[asked[:N_PAIRS]], self.X[asked[N_PAIRS:]]
        self.shifted = np.roll(self.A, -1, 0), np.roll(self.B, -1, 0)
        self.rest = np.setdiff1d(rest, asked)
        L, b, link = on_reference(self.X[reference], self.y[reference])
        squared = np.sum(((self.A - self.B) @ L.T) ** 2, 1)
        distance = np.sqrt(squared)
        own = {"distance": distance, "ratio": distance / np.roll(distance, -1)}
        calibrated = 1 / (1 + np.exp(-np.asarray(link.log_odds(squared))))
        self.truth = {**own, "P(same)": calibrated}
        self.truth_of_model = {**own, "P(same)": np.exp(-(b + squared / 2))}

    def limits(self, made):
        """Return the limits of every question."""
        pair = (self.A, self.B)
        return {
            "distance": made.interval(*pair),
            "ratio": made.ratio_interval(pair, self.shifted),
            "P(same)": made.same_interval(*pair),
        }

    def run(self, n, seed):
        """Yield one row a method for one training set."""
        train = draw_points(self.y, n, np.random.default_rng([seed, n]), self.rest)
        lca, found = fit(self.X[train], self.y[train]), {}
        found["jackknife"] = self.limits(lca.posterior_metric("intervals"))
        if 0 <= seed - JUDGED.start < N_CONTROL:
            draws = lca.posterior_metric("intervals", method="bootstrap", seed=seed)
            found["bootstrap"] = self.limits(draws)
            low, high = (found[m]["distance"] for m in ("jackknife", "bootstrap"))
            found["hybrid"] = {"distance": (low[0], np.maximum(low[0], high[1]))}
        if 0 <= seed - JUDGED.start < N_LAPLACE:
            draws = lca.posterior_metric("intervals", method="laplace", seed=seed)
            pair = (self.A, self.B)
            found["laplace"] = {
                "distance": draws.interval(*pair),
                "ratio": draws.ratio_interval(pair, self.shifted),
            }
        for method, limits in found.items():
            ours = method in ("jackknife", "hybrid")
            truth = self.truth if ours else self.truth_of_model
            row = {"data": self.name, "n": n, "seed": seed, "method": method}
            for question in QUESTIONS:
                if question in limits:
                    scale = log_odds if question == "P(same)" else np.log
                    asked = limits[question], truth[question], scale
                    row[question] = scored(*asked)
            yield row


def main():
    """Run what is missing, then print and store the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--seeds", type=int, nargs=2, default=(30, 60))
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
        warnings.filterwarnings("ignore")
        done = {(row["data"], row["n"], row["seed"]) for row in rows}
        worlds = [World(name, options.data) for name in SETS]
        for n in options.sizes:
            for seed in range(*options.seeds):
                for world in worlds:
                    if (world.name, n, seed) not in done:
                        rows += list(world.run(n, seed))
                text = ",\n".join(json.dumps(row) for row in rows)
                options.out.write_text(f"[{text}]\n")
                print(n, seed, flush=True)
    table = pd.DataFrame(rows)
    text = markdown(table)
    print(text)
    options.out.with_suffix(".md").write_text(text)
    plot(table, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
