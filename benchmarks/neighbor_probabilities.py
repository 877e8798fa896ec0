"""Is a point nearer, or among the five nearest, as often as its probability states?

    python benchmarks/neighbor_probabilities.py --seeds 10
    python benchmarks/neighbor_probabilities.py --sets waveform twonorm --seeds 10

Populations are those of ``coverage.py``, or data sets from which training sets are
drawn. Queries are 30 other points, and their neighbors are training points. Questions:
is a point among the five nearest (*neighbor*), and is one of two points of the 20
nearest nearer than the other (*closer*)? The truth has two senses:

    expected     0 or 1, under mean distances of 40 fits to other training sets
    another fit  fraction of these fits in which it holds

Sources of probabilities after ``pm.LCA().fit(X, y)``:

    refits      ``posterior_metric("intervals")``
    uncentered  its maps are L + c (L_(k) - L), and not L + c (L_(k) - L̄)
    draws       ``posterior_metric("intervals", draws=lca.sample("laplace"))``
    prediction  fractions of the draws of ``posterior_metric("prediction")``
    fit         0 or 1 from the fit itself (control)

Rows of the CSV: population, n, number of training sets, question, source. Then the mean
of probabilities of at least 0.9 ("stated") and of their truth in both senses, and the
calibration errors (10 bins, without probabilities below 0.005). For the question *rank*
"expected" is the share of nominal 90% intervals of ``rank_interval`` that contain the
rank by mean distance of the 20 nearest points, and "stated" is the mean of high - low.
"""

from functools import cached_property, partial

import coverage
import numpy as np
from harness import markdown, parser, resumed, sets, shares, write_page

import probmetric as pm
from probmetric.posterior import PosteriorMetric
from probmetric.posterior.intervals import one_rotation

N_FITS, N_QUERIES, K, NEAR = 40, 30, 5, 20
SIZES = (40, 120, 400)
SENSES = ("expected", "another fit")
SHOWN = ("stated", *SENSES, *(f"error, {sense}" for sense in SENSES))


class Population:
    """Training sets of n points, and queries that are the same for all of them."""

    def __init__(self, name, n, folder):
        self.n, self.name, self.set = n, name, None
        rng = np.random.default_rng(777)
        if name in coverage.SHARES:
            self.Q = coverage.sample(name, 2000, rng)[0]
            self.Q = self.Q[rng.permutation(2000)[:N_QUERIES]]
        else:
            X, y = sets(folder, (name,))[name]
            X = X[:, X.std(0) > 0]
            rows = rng.permutation(len(X))
            self.Q = X[rows[:N_QUERIES]]
            self.set = X[rows[N_QUERIES:]], y[rows[N_QUERIES:]]

    def sample(self, *seed):
        """Return a training set."""
        rng = np.random.default_rng([*seed, self.n])
        if self.set is None:
            return coverage.sample(self.name, self.n, rng)
        X, y = self.set
        rows = [
            rng.choice(np.flatnonzero(y == c), count, replace=False)
            for c, count in enumerate(shares(y, self.n))
        ]
        rows = np.concatenate(rows)
        return X[rows], y[rows]

    @cached_property
    def fits(self):
        """Return metrics fitted to other training sets."""
        fits = (pm.LCA().fit(*self.sample(1, k)) for k in range(N_FITS))
        return [pm.Mahalanobis(fit.components_) for fit in fits]


def sources(X, y):
    """Return objects with ``closer_probability`` and so on, by name."""
    lca = pm.LCA().fit(X, y)
    drawn = lca.sample("laplace", n_draws=200, n_chains=1)
    prediction = lca.posterior_metric("prediction").metrics()
    fit, refits = pm.Mahalanobis(lca.components_), lca.posterior_metric("intervals")
    L, *others = one_rotation(np.stack([m.factor for m in (fit, *refits.left_out)]))
    maps = L + np.sqrt(refits.factor * (len(others) - 1)) * (np.array(others) - L)
    return fit, {
        "refits": refits,
        "uncentered": PosteriorMetric([*map(pm.Mahalanobis, maps)], "intervals"),
        "draws": lca.posterior_metric("intervals", draws=drawn),
        "prediction": PosteriorMetric(prediction, "intervals"),
        "fit": PosteriorMetric([fit], "intervals"),
    }


def ranks(D):
    """Return ranks of points from 0, by distance from each query."""
    return np.argsort(np.argsort(D, -1, kind="stable"), -1)


def one_set(population, seed):
    """Return stated probabilities, truth in both senses, by question, source."""
    X, y = population.sample(2, seed)
    Q, (fit, each) = population.Q, sources(X, y)
    near = np.argsort(fit.distance(Q[:, None], X[None]), 1)[:, :NEAR]
    D = np.stack([m.distance(Q[:, None], X[None]) for m in population.fits])
    order = ranks(D.mean(0))
    rng = np.random.default_rng(seed)
    pick = rng.permuted(np.tile(near[:, None], (1, NEAR, 1)), axis=2)[..., :2]
    a, b = pick.reshape(-1, 2).T
    rows = np.repeat(np.arange(len(Q)), NEAR)
    to_a, to_b = D[:, rows, a], D[:, rows, b]
    truth = {
        "neighbor": (order < K, np.mean(ranks(D) < K, 0)),
        "closer": (to_a.mean(0) < to_b.mean(0), np.mean(to_a < to_b, 0)),
    }
    found = {}
    for name, source in each.items():
        stated = {
            "neighbor": source.neighbor_probability(Q, X, K),
            "closer": source.closer_probability(Q[rows], X[a], X[b]),
        }
        for question, P in stated.items():
            values = [P, *truth[question]]
            found[question, name] = np.stack(
                [np.ravel(v).astype(float) for v in values]
            )
        if name in ("refits", "draws"):
            ends = np.stack([source.rank_interval(q, X) for q in Q[:10]], 1)
            low, high = np.take_along_axis(ends, near[None, :10], 2)
            holds = np.take_along_axis(order, near, 1)[:10] + 1
            holds = (low <= holds) & (holds <= high)
            found["rank", name] = np.stack([high - low, holds, holds]).reshape(3, -1)
    return found


def figures(values):
    """Return calibration errors, and the mean truth of probabilities ≥ 0.9."""
    P, *truths = values[:, values[0] >= 0.005]
    bins, top = np.minimum((P * 10).astype(int), 9), P >= 0.9
    found = {"stated": P[top].mean() if top.any() else np.nan}
    for sense, truth in zip(SENSES, truths, strict=True):
        gap = np.abs(np.bincount(bins, P - truth))
        found |= {sense: truth[top].mean() if top.any() else np.nan}
        found |= {f"error, {sense}": gap.sum() / len(P)}
    return found


def cell(name, n, options):
    """Return the rows of one population and size."""
    population = Population(name, n, options.data)
    seeds = range(options.first or 0, (options.first or 0) + options.seeds)
    each = [one_set(population, seed) for seed in seeds]
    for question, source in each[0]:
        values = np.concatenate([found[question, source] for found in each], 1)
        made = {"stated": values[0].mean(), "expected": values[1].mean()}
        made = made if question == "rank" else figures(values)
        yield {"sets": len(each), "question": question, "source": source} | made


def rounded(table, keys, names):
    """Return the lines of a table; ``names`` are its columns and their headings."""
    rows = [
        [*(row[k] for k in keys), *(f"{row[k]:.2f}" for k in names)]
        for _, row in table.iterrows()
    ]
    return ["", *markdown(rows, [*keys, *names.values()]), ""]


def tables(table):
    """Return means over populations, and all figures of the package's answers."""
    table = table.rename(columns={"data": "population"})
    ranks = table["question"] == "rank"
    means = table[~ranks].groupby(["question", "n", "source"])[list(SHOWN)].mean()
    own = table["source"].isin(["refits", "draws"])
    each = table[own & ~ranks].sort_values("question", kind="stable")
    keys, same = ["population", "n", "sets", "source"], {name: name for name in SHOWN}
    lines = ["## Means over populations"]
    lines += rounded(means.reset_index(), ["question", "n", "source"], same)
    lines += ["## Each population", *rounded(each, ["question", *keys], same)]
    names = {"expected": "coverage", "stated": "high - low"}
    return [*lines, "## Intervals of ranks", *rounded(table[ranks], keys, names)]


def main():
    """Run the cells that are not in the CSV, and write the page."""
    options = parser(["neighbor_probabilities"], __doc__).parse_args()
    names = [] if options.table else options.sets or coverage.SHARES
    cells = [(name, n) for n in options.sizes or SIZES for name in names]
    cases = ((each, partial(cell, *each, options)) for each in cells)
    path = options.out / "neighbor_probabilities.csv"
    table = resumed(path, ["data", "n"], cases)
    write_page("neighbor_probabilities", tables(table), options.out)


if __name__ == "__main__":
    main()
