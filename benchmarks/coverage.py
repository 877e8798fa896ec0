"""Do nominal 90% intervals of learned distances cover, and how wide are they?

    python benchmarks/coverage.py --seeds 40
    python benchmarks/coverage.py --methods RCA --sets heavy --sizes 40

Populations: ``heavy`` (three classes, t with 3 degrees of freedom, d = 5),
``unbalanced`` (Gaussian, shares 70, 20 and 10%, d = 10), ``many`` (12 Gaussian classes,
d = 8), ``banana`` (two curved classes, d = 2), ``sparse`` (two Gaussian classes, 5 of
60 features differ). For each training set, ``pm.with_intervals`` (for LCA
``posterior_metric("intervals")``) gives intervals for 30 fixed pairs of points: for the
distance, and for its ratio to the distance of the next pair. The truth is the mean of
the fits to ``N_TRUTH`` other training sets of the same size. The ideal width is 3.29
standard deviations of these fits. The method was chosen on other populations.

Rows of the CSV: method, data, n, seed, and for both questions the share of intervals
that contain the truth, and their mean width divided by the ideal width. Errors are over
training sets.
"""

from functools import partial

import numpy as np
from harness import markdown, mean_error, parser, resumed, write_page
from sklearn.base import clone

import probmetric as pm

N_TRUTH, N_PAIRS = 60, 30
LEARNERS = {
    "LCA": pm.LCA(),
    "LCA, all pairs": pm.LCA(pairs="all", learning_rate=1, regularization=1),
    "LDA": pm.LDA(prior_strength=1),
    "RCA": pm.RCA(prior_strength=1),
    "PairLDA": pm.PairLDA(prior_strength=0),
}
SHARES = {
    "heavy": [1 / 3] * 3,
    "unbalanced": [0.7, 0.2, 0.1],
    "many": [1 / 12] * 12,
    "banana": [0.5] * 2,
    "sparse": [0.5] * 2,
}
SIZES = (40, 120, 400)


def sample(name, n, rng):
    """Return n points of a population, and classes in fixed shares."""
    fixed, shares = np.random.default_rng(sum(map(ord, name))), np.array(SHARES[name])
    count = np.maximum(2, np.floor(n * shares).astype(int))
    while count.sum() != n:
        count[np.argmax(n * shares - count)] += np.sign(n - count.sum())
    y = np.repeat(np.arange(len(count)), count)
    if name == "heavy":
        mean, mix = fixed.normal(size=(3, 5)) * 1.5, fixed.normal(size=(5, 5)) / 2
        noise = rng.normal(size=(n, 5)) @ (mix + np.eye(5))
        return mean[y] + noise / np.sqrt(rng.chisquare(3, (n, 1)) / 3), y
    if name == "unbalanced":
        mean, mix = fixed.normal(size=(3, 10)), fixed.normal(size=(10, 10)) / 4
        return mean[y] + rng.normal(size=(n, 10)) @ (mix + np.eye(10)), y
    if name == "many":
        mean, sd = fixed.normal(size=(12, 8)) * 1.7, fixed.uniform(0.5, 1.5, 8)
        return mean[y] + rng.normal(size=(n, 8)) * sd, y
    if name == "banana":
        t, sign = rng.uniform(0, np.pi, n), 1 - 2 * y
        curve = np.column_stack([np.cos(t) * sign + y, np.sin(t) * sign + 0.4 * y])
        return curve + 0.25 * rng.normal(size=(n, 2)), y
    shift = (2 * y[:, None] - 1) * 0.6 * (np.arange(60) < 5)
    return shift + rng.normal(size=(n, 60)), y


def questions(metric, A, B):
    """Return the distances, and their ratios to the distances of the next pairs."""
    distance = np.asarray(metric.distance(A, B))
    return np.stack([distance, distance / np.roll(distance, -1)])


class World:
    """A population and a size: pairs, and the truth for each learner."""

    def __init__(self, name, n):
        self.name, self.n, self.truths = name, n, {}
        points = sample(name, 2000, np.random.default_rng(777))[0]
        chosen = np.random.default_rng(5).permutation(2000)[: 2 * N_PAIRS]
        self.A, self.B = points[chosen[:N_PAIRS]], points[chosen[N_PAIRS:]]

    def fit(self, learner, X, y):
        """Return the learned metric, without a calibrated link."""
        learner = clone(learner)
        if isinstance(learner, pm.LCA):
            return pm.Mahalanobis(learner.fit(X, y).components_)
        return learner.fit(X, y).get_metric()

    def truth(self, name):
        """Return the mean and the standard deviation of the fits to other samples."""
        if name not in self.truths:
            seeds = ([1, self.n, k] for k in range(N_TRUTH))
            samples = (
                sample(self.name, self.n, np.random.default_rng(s)) for s in seeds
            )
            fits = (self.fit(LEARNERS[name], X, y) for X, y in samples)
            values = [questions(fit, self.A, self.B) for fit in fits]
            self.truths[name] = np.mean(values, 0), np.std(values, 0, ddof=1)
        return self.truths[name]

    def row(self, name, seed):
        """Return the row of one training set: coverage and width."""
        X, y = sample(self.name, self.n, np.random.default_rng([2, self.n, seed]))
        learner = LEARNERS[name]
        if isinstance(learner, pm.LCA):
            made = clone(learner).fit(X, y).posterior_metric("intervals")
        else:
            made = pm.with_intervals(lambda X, y: self.fit(learner, X, y), X, y)
        following = np.roll(self.A, -1, 0), np.roll(self.B, -1, 0)
        ends = (
            made.interval(self.A, self.B),
            made.ratio_interval((self.A, self.B), following),
        )
        found = {}
        what = zip(("distance", "ratio"), ends, *self.truth(name), strict=True)
        for question, (low, high), mean, sd in what:
            found[question] = np.mean((low <= mean) & (mean <= high))
            found[f"width of {question}"] = np.mean((high - low) / (3.29 * sd))
        return found


def tables(table):
    """Return coverage and width by learner, population and size."""
    body = []
    for key, part in table.groupby(["method", "data", "n"], sort=False):
        cells = []
        for question in ("distance", "ratio"):
            width = part[f"width of {question}"].mean()
            cells.append(f"{mean_error(part[question])}, {width:.2f}")
        body.append([*key, len(part), *cells])
    header = ["learner", "population", "n", "training sets", "distance", "ratio"]
    return markdown(body, header)


def main():
    """Run what the CSV lacks, and write the page."""
    options = parser(["intervals"], __doc__).parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = [(d, n) for d in options.sets or SHARES for n in options.sizes or SIZES]
    worlds = [] if options.table else [World(*cell) for cell in cells]
    first, keys = options.first or 0, ["method", "data", "n", "seed"]
    cases = (
        ((name, world.name, world.n, seed), partial(world.row, name, seed))
        for seed in range(first, first + options.seeds)
        for world in worlds
        for name in options.methods or LEARNERS
    )
    table = resumed(options.out / "intervals.csv", keys, cases, options.minutes)
    write_page("intervals", tables(table), options.out)


if __name__ == "__main__":
    main()
