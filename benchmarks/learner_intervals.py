"""Do nominal 90 % intervals of ``pm.with_intervals`` cover, for learners beside LCA?

    python benchmarks/learner_intervals.py --data DIR [--seeds 30 45] [--sizes 20 40 80]
    python benchmarks/learner_intervals.py --table --out FILE.json

Populations, points and pairs are those of posterior_coverage.py (four of its six). The
truth is what the same learner with the same settings learns from 1000 points that no
training set uses. Asked are the metric's value of 40 pairs (a distance, a local
dissimilarity, or a score that may be negative) and, where it is a distance, ratios.
Nothing was chosen here: seeds are only for judging. The control takes the distribution
of the refits for that of the fit (percentiles of the refits, which differ by one point
where fits differ by all): it must fail.

Results are added to the file one training set at a time; it is continued when the
script is started again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from posterior_coverage import N_PAIRS, N_REFERENCE, SIMULATED, draw_points, load
from sklearn.base import clone

import probmetric as pm

OUT = Path("out/learner_intervals.json")
SETS = ("gauss3", "twonorm5", "waveform", "twonorm")
SIZES = (20, 40, 80)
LEARNERS = {
    "LDA": pm.LDA(prior_strength=1),
    "RCA": pm.RCA(prior_strength=1),
    "PairLDA": pm.PairLDA(prior_strength=0),
    "TwoStageMixture": pm.TwoStageMixture(),
    "GLML": pm.GLML(prior="evidence", gamma="loo"),
}
QUESTIONS = ("value", "ratio", "refits' percentiles")


class World:
    """One population: reference points, the 40 pairs and what each learner makes."""

    def __init__(self, name, folder):
        if name in SIMULATED:
            make, seed = SIMULATED[name]
            self.X, self.y = make(np.random.default_rng(seed))
        else:
            self.X, self.y = load(folder / f"{name}.npz")
        rng = np.random.default_rng(7)
        every = np.arange(len(self.y))
        self.reference = draw_points(self.y, N_REFERENCE, rng, every)
        rest = np.setdiff1d(every, self.reference)
        asked = rng.permutation(rest)[: 2 * N_PAIRS]
        self.pair = self.X[asked[:N_PAIRS]], self.X[asked[N_PAIRS:]]
        self.shifted = tuple(np.roll(part, -1, 0) for part in self.pair)
        self.rest = np.setdiff1d(rest, asked)
        self.truths = {}

    def truth(self, learner):
        """Return the values of the pairs in the fit on the reference points."""
        if learner not in self.truths:
            metric = learn_with(learner)(self.X[self.reference], self.y[self.reference])
            self.truths[learner] = values(metric, self.pair)
        return self.truths[learner]

    def run(self, learner, n, seed):
        """Return how often each kind of interval covers, and misses on either side."""
        train = draw_points(self.y, n, np.random.default_rng([seed, n]), self.rest)
        truth, found = self.truth(learner), {}
        made = pm.with_intervals(learn_with(learner), self.X[train], self.y[train])
        found["value"] = sides(made.interval(*self.pair), truth)
        refits = [values(m, self.pair) for m in made.left_out]
        percentiles = np.quantile(refits, (0.05, 0.95), axis=0)
        found["refits' percentiles"] = sides(percentiles, truth)
        if isinstance(made.metric, pm.Mahalanobis):
            ratios = made.ratio_interval(self.pair, self.shifted)
            found["ratio"] = sides(ratios, truth / np.roll(truth, -1))
        return found


def learn_with(learner):
    """Return the function of points and labels that makes the learner's metric."""
    return lambda X, y: clone(LEARNERS[learner]).fit(X, y).get_metric()


def values(metric, pair):
    """Return the metric's value of each pair: a distance where it is one."""
    found = np.diag(metric.pairwise(*pair))
    return np.sqrt(found) if metric.is_distance else found


def sides(limits, truth):
    """Return numbers of pairs covered, with the truth below, and above."""
    low, high = limits
    inside = (low <= truth) & (truth <= high)
    return [int(np.sum(which)) for which in (inside, truth < low, truth > high)]


def markdown(rows):
    """Return the table: by learner and n over sets, with the least set."""
    lines = [
        "# Coverage of nominal 90 % intervals of learners beside LCA",
        "",
        "Made by `python benchmarks/learner_intervals.py --data DIR`, which says what",
        "the truth is. Share of intervals that hold the truth ± standard error over",
        "training sets; in brackets how often the truth lies below and above them; the",
        "least set.",
        "",
        "| learner | n | training sets | " + " | ".join(QUESTIONS) + " |",
        "|---" * (3 + len(QUESTIONS)) + "|",
    ]
    for (learner, n), of in rows.groupby(["learner", "n"], sort=False):
        cells = []
        for question in QUESTIONS:
            some = of[of[question].notna()]
            if not len(some):
                cells.append("–")
                continue
            counts = np.array(some[question].tolist(), float)
            share = pd.DataFrame(counts / counts.sum(1, keepdims=True))
            by_set = share.groupby(some["data"].to_numpy())
            inside, below, above = by_set.mean().mean()
            error = np.sqrt((by_set[0].sem() ** 2).sum()) / by_set.ngroups
            least = by_set[0].mean()
            cells.append(
                f"{inside:.3f} ± {error:.3f} ({below:.3f}/{above:.3f}), "
                f"{least.min():.2f} {least.idxmin()}"
            )
        lines.append(f"| {learner} | {n} | {len(of)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    """Run what is missing, then print and store the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of NPZ files (data.md)")
    parser.add_argument("--seeds", type=int, nargs=2, default=(30, 45))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="only make the table")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.table:
        if options.data is None:
            print("nothing is run without --data, a folder with " + ", ".join(SETS))
            return
        warnings.filterwarnings("ignore")
        done = {(row["learner"], row["data"], row["n"], row["seed"]) for row in rows}
        worlds = {name: World(name, options.data) for name in SETS}
        for learner in options.learners:
            for n in options.sizes:
                for seed in range(*options.seeds):
                    for name, world in worlds.items():
                        if (learner, name, n, seed) not in done:
                            where = dict(learner=learner, data=name, n=n, seed=seed)
                            rows.append({**where, **world.run(learner, n, seed)})
                    text = ",\n".join(json.dumps(row) for row in rows)
                    options.out.write_text(f"[{text}]\n")
                print(learner, n, flush=True)
    text = markdown(pd.DataFrame(rows))
    print(text)
    options.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
