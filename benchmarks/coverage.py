"""Do nominal 90% intervals of learned metrics cover, and on which side do they fail?

    python benchmarks/coverage.py posterior_coverage --data DIR --first 30 --seeds 30
    python benchmarks/coverage.py learner_intervals --data DIR --sizes 20 40
    python benchmarks/coverage.py step_coverage

Populations in five features: gauss3 (three Gaussian classes of unequal variances),
twonorm5 (two unit Gaussians four apart), principal scores of sets in the folder, and
for steps waveform5 (five correlated columns) and collinear (gauss3 whose fifth feature
is the first plus noise). A stratified training set of n points gives intervals for 40
fixed pairs of points: for the distance (``value``), for its ratio to the distance of
the next pair, and for P(same). The truth is what the same recipe gives on 1000 points
that no training set uses; P(same) of draws is by the model's link, as is its truth.

posterior_coverage  LCA (all pairs, λ = 1, learning rate 1): the jackknife of
                    ``posterior_metric("intervals")``, and as negative controls the
                    bootstrap and Laplace's draws, for the first 10 and 3 seeds
learner_intervals   ``pm.with_intervals`` of other learners; the control takes
                    percentiles of the refits
step_coverage       LCA's jackknife for points that differ by one standard deviation in
                    one feature; Laplace's draws are the control

Rows of the CSV: population, n, seed, method, question, and how many of the truths are
inside, below and above the limits. Errors are over training sets.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from harness import parser, shares, write_page
from sklearn.base import clone

import probmetric as pm
from probmetric.inference.lca.jackknife import held_out_links, leave_out
from probmetric.posterior.jackknife import aligned, groups_of

N_REFERENCE, N_PAIRS, N_SIMULATED = 1000, 40, 8000
LIMITED = {"bootstrap": 10, "laplace": 3}  # number of seeds of the slow controls
LCA = {"LCA": pm.LCA(pairs="all", regularization=1, learning_rate=1)}
LEARNERS = {
    "LDA": pm.LDA(prior_strength=1),
    "RCA": pm.RCA(prior_strength=1),
    "PairLDA": pm.PairLDA(prior_strength=0),
    "TwoStageMixture": pm.TwoStageMixture(),
    "GLML": pm.GLML(prior="evidence", gamma="loo"),
}
SIMULATED = ("gauss3", "twonorm5")
STUDIES = {  # populations, sizes, methods
    "posterior_coverage": (
        (*SIMULATED, "waveform", "image_segmentation", "twonorm", "usps_8x8"),
        (20, 40, 80, 120),
        ("jackknife", "bootstrap", "laplace"),
    ),
    "learner_intervals": ((*SIMULATED, "waveform", "twonorm"), (20, 40, 80), LEARNERS),
    "step_coverage": (
        (*SIMULATED, "waveform5", "collinear"),
        (40, 120),
        ("jackknife", "laplace"),
    ),
}


def population(name, folder):
    """Return points of a population in five features, and their classes."""
    if name in ("gauss3", "collinear"):
        rng = np.random.default_rng(11)
        y = rng.integers(0, 3, N_SIMULATED)
        mean = np.array([[0.0, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 2, 1, 0, 0]])
        sd = [[1.0, 1, 1, 1, 1], [0.5, 1.5, 1, 0.7, 1.2], [1.5, 0.6, 1.2, 1, 0.5]]
        X = mean[y] + np.array(sd)[y] * rng.standard_normal((len(y), 5))
        if name == "collinear":
            noise = np.random.default_rng(13).standard_normal(len(X))
            X = np.column_stack([X[:, :4], X[:, 0] + 0.2 * noise])
        return X, y
    if name == "twonorm5":
        rng = np.random.default_rng(12)
        y = rng.integers(0, 2, N_SIMULATED)
        shift = (2 * y[:, None] - 1) * 2 / np.sqrt(5)
        return shift + rng.standard_normal((len(y), 5)), y
    if name == "waveform5":
        X, y = pm.datasets.load("waveform", n=N_SIMULATED)
        return X[:, [4, 8, 10, 12, 16]], y
    X, y = pm.datasets.load(str(folder / f"{name}.npz"))
    X = np.asarray(X, float)
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    scores = X @ np.linalg.eigh(X.T @ X)[1][:, :-6:-1]
    return scores / scores[:, 0].std(), np.unique(y, return_inverse=True)[1]


def draw_points(y, n, rng, among):
    """Draw n points of ``among`` in the shares of the classes, at least 2 of each."""
    codes = y[among]
    counts = shares(codes, n)
    parts = [rng.permutation(among[codes == c])[:m] for c, m in enumerate(counts)]
    return np.concatenate(parts)


def values(metric, A, B):
    """Return the metric's value of each pair: a distance if it is one."""
    D = np.diag(metric.pairwise(A, B))
    return np.sqrt(D) if metric.is_distance else D


class World:
    """A population: reference points, pairs, and the truth of each learner."""

    def __init__(self, name, folder, steps):
        self.name, (self.X, self.y) = name, population(name, folder)
        rng = np.random.default_rng(7)
        every = np.arange(len(self.y))
        self.reference = draw_points(self.y, N_REFERENCE, rng, every)
        self.rest = np.setdiff1d(every, self.reference)
        if steps:
            self.A = np.tile(self.X.mean(0), (5, 1))
            self.B = self.A + np.diag(self.X.std(0))
        else:
            pairs = rng.permutation(self.rest)[: 2 * N_PAIRS]
            self.A, self.B = self.X[pairs[:N_PAIRS]], self.X[pairs[N_PAIRS:]]
            self.rest = np.setdiff1d(self.rest, pairs)
        self.pair = self.A, self.B
        self.shifted = np.roll(self.A, -1, 0), np.roll(self.B, -1, 0)
        self.truths = {}

    def truth(self, name, learner):
        """Return the values and P(same) of the pairs under the fit on the reference."""
        if name not in self.truths:
            X, y = self.X[self.reference], self.y[self.reference]
            metric = clone(learner).fit(X, y).get_metric()
            value = values(metric, *self.pair)
            self.truths[name] = {"value": value, "ratio": value / np.roll(value, -1)}
            if name == "LCA":
                self.truths[name] |= self.links(clone(learner).fit(X, y), X, y)
        return self.truths[name]

    def links(self, lca, X, y):
        """Return P(same) of the pairs: by the link on held-out pairs, and the model's.

        Ten groups instead of fifty, and all pairs: the link of 1000 points is the same.
        """
        group = groups_of(y) % 10
        left_out = leave_out(lca.fitted_, group)
        shrink = np.sqrt(1 + 2 * np.exp(np.asarray(left_out.log_sigma2)))
        maps = np.asarray(left_out.W) / shrink[:, None, None] / lca.scale_
        maps = aligned(maps, lca.components_)
        link = held_out_links(X, y, group, lca.components_, maps, most=len(y) ** 2)[0]
        D = np.sum(((self.A - self.B) @ lca.components_.T) ** 2, 1)
        calibrated = 1 / (1 + np.exp(-np.asarray(link.log_odds(D))))
        return {"P(same)": calibrated, "draws": np.exp(-(lca.intercept_ + D / 2))}

    def limits(self, method, learner, X, y, seed):
        """Yield questions with their limits."""
        if isinstance(learner, pm.LCA):
            fitted = clone(learner).fit(X, y)
            made = fitted.posterior_metric("intervals", method=method, seed=seed)
            yield "value", made.interval(*self.pair)
            yield "ratio", made.ratio_interval(self.pair, self.shifted)
            if method != "laplace":
                yield "P(same)", made.same_interval(*self.pair)
            return
        fit = lambda X, y: clone(learner).fit(X, y).get_metric()  # noqa: E731
        made = pm.with_intervals(fit, X, y)
        yield "value", made.interval(*self.pair)
        refits = [values(metric, *self.pair) for metric in made.left_out]
        yield "refits' percentiles", np.quantile(refits, (0.05, 0.95), axis=0)
        if isinstance(made.metric, pm.Mahalanobis):
            yield "ratio", made.ratio_interval(self.pair, self.shifted)

    def rows(self, method, learner, n, seed):
        """Yield a row a question for one training set."""
        train = draw_points(self.y, n, np.random.default_rng([seed, n]), self.rest)
        truths = self.truth(method if method in LEARNERS else "LCA", learner)
        parts = self.X[train], self.y[train], seed
        for question, (low, high) in self.limits(method, learner, *parts):
            of_draws = question == "P(same)" and method == "bootstrap"
            truth = truths.get("draws" if of_draws else question, truths["value"])
            yield {
                **{"data": self.name, "n": n, "seed": seed, "method": method},
                "question": question,
                "inside": int(np.sum((low <= truth) & (truth <= high))),
                "below": int(np.sum(truth < low)),
                "above": int(np.sum(truth > high)),
            }


def tables(table):
    """Return coverage by method, size and question: over populations, and the least."""
    counts = table[["inside", "below", "above"]].sum(axis=1)
    for side in ("inside", "below", "above"):
        table[side] /= counts
    header = ["method", "n", "question", "training sets", "covered (below/above)"]
    lines = ["| " + " | ".join([*header, "least population"]) + " |", "|---" * 6 + "|"]
    for key, part in table.groupby(["method", "n", "question"], sort=False):
        of_set = part.groupby("data")
        inside, below, above = of_set[["inside", "below", "above"]].mean().mean()
        error = np.sqrt((of_set["inside"].sem() ** 2).sum()) / of_set.ngroups
        least = of_set["inside"].mean()
        cells = [
            *key,
            len(part),
            f"{inside:.3f} ± {error:.3f} ({below:.3f}/{above:.3f})",
        ]
        cells.append(f"{least.min():.3f} {least.idxmin()}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return [*lines, ""]


def main():
    """Run what the CSV lacks, and write the page."""
    options = parser(STUDIES, __doc__).parse_args()
    names, sizes, methods = STUDIES[options.study]
    names = [n for n in options.sets or names if options.data or n not in ("waveform",
             "image_segmentation", "twonorm", "usps_8x8")]  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    path = Path(options.out, f"{options.study}.csv")
    table = pd.read_csv(path) if path.exists() else pd.DataFrame()
    first = 30 if options.first is None else options.first
    key = ["method", "data", "n", "seed"]
    done = set(map(tuple, table[key].to_numpy())) if len(table) else set()
    steps = options.study == "step_coverage"
    warnings.filterwarnings("ignore")
    worlds = [] if options.table else [World(n, options.data, steps) for n in names]
    for n in options.sizes or sizes:
        for seed in range(first, first + options.seeds):
            for method in options.methods or methods:
                if seed - first >= LIMITED.get(method, np.inf):
                    continue
                learner = {**LEARNERS}.get(method, LCA["LCA"])
                for world in worlds:
                    if (method, world.name, n, seed) not in done:
                        made = list(world.rows(method, learner, n, seed))
                        table = pd.concat([table, pd.DataFrame(made)])
                        table.to_csv(path, index=False)
            print(n, seed, flush=True)
    write_page(options.study, tables(table), options.out)


if __name__ == "__main__":
    main()
