"""Draws after a fit to labels: can one learning rate make their intervals cover?

    python benchmarks/label_draws.py --sets heavy --sizes 40 --seeds 3

Populations, truth, questions and ideal width are those of ``coverage.py``, with 30 fits
for the truth. Laplace draws of the default fit are 400 draws from N(mode, H⁻¹/T). The
power T multiplies likelihood *and* prior, so that the mode remains the fit. T = 1 is
``lca.sample``. Otherwise T makes the spread of log distances of 300 pairs of training
points equal to the spread of the jackknife refits of ``posterior_metric("intervals")``:
the mean log sd ("log sd"), or the mean sd, with the quantile of t ("sd"). Limits are
corrected for the noise of the draws, as those of ``PosteriorMetric``.

Rows of the CSV: population, n, number of training sets, rule, and means over the sets
of T, coverage, width / ideal, and sd of draws / sd of the fit over samples.
"""

import re
from functools import partial

import coverage
import jax
import numpy as np
import pandas as pd
from harness import markdown, parser, resumed, write_page
from scipy.optimize import brentq

import probmetric as pm
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca.target import start, target_data
from probmetric.models.lca import log_sigma2_of
from probmetric.posterior import intervals
from probmetric.posterior.jackknife import quantile_of_t

coverage.N_TRUTH = 30
QUESTIONS = ("distance", "ratio")


def log_sd(distances):
    """Return the standard deviation of log distances over draws."""
    return np.std(np.log(np.maximum(distances, 1e-12)), 0, ddof=1)


def lengths_of_draws(lca):
    """Return a function of T and differences: corrected distances of draws, center."""
    fit, params = lca.fitted_, lca.fitted_.fit.params
    with jax.enable_x64(True):
        data = target_data(pad_pairs(fit.pairs), fit.prior, fit.learning_rate, params)
        mean, root = start(params, data, quotient=True)
    at = np.append(np.ravel(mean["W"]), mean["log_b"])
    noise = np.random.default_rng(0).normal(size=(400, root.shape[1])) @ root.T

    def lengths(T, delta, n_draws=400):
        drawn = at + noise[:n_draws] / np.sqrt(T)
        p, d = mean["W"].shape
        scale = np.sqrt(1 + 2 * np.exp(np.asarray(log_sigma2_of(drawn[:, -1], p))))
        L = drawn[:, :-1].reshape(-1, p, d) / scale[:, None, None] / lca._taught
        return intervals.true_lengths(intervals.one_rotation(L), delta)

    return lengths


def powers(lca, refits, X, lengths):
    """Return T by rule."""
    i, j = np.random.default_rng(0).integers(0, len(X), (2, 300))
    i, j = i[i != j], j[i != j]
    logs = np.log([refit.distance(X[i], X[j]) for refit in refits.left_out])
    wanted = np.sqrt(refits.factor * (len(logs) - 1) * logs.var(0))
    t = quantile_of_t(0.9, refits.df) / 1.645
    rules = {
        "log sd": lambda sd: np.mean(np.log(sd / wanted)),
        "sd": lambda sd: np.mean(sd) - t * np.mean(wanted),
    }

    def solve(gap):
        def at(log_T):
            return gap(log_sd(lengths(np.exp(log_T), X[i] - X[j], 150)[0]))

        return np.exp(brentq(at, np.log(0.2), np.log(200), xtol=0.01))

    return {"T = 1": 1.0} | {rule: solve(gap) for rule, gap in rules.items()}


def row(ends, truth, sds=(np.nan, np.nan), T=np.nan):
    """Return coverage, width and spread of both questions."""
    found = {"T": T}
    for name, (low, high), mean, sd, own in zip(
        QUESTIONS, ends, *truth, sds, strict=True
    ):
        found[name] = np.mean((low <= mean) & (mean <= high))
        found[f"width of {name}"] = np.mean((high - low) / (3.29 * sd))
        found[f"sd of {name}"] = np.mean(own / sd)
    return found


def one_set(world, seed):
    """Return the rows of one training set."""
    rng = np.random.default_rng([2, world.n, seed])
    X, y = coverage.sample(world.name, world.n, rng)
    lca, truth = pm.LCA().fit(X, y), world.truth("LCA")
    refits, lengths = lca.posterior_metric("intervals"), lengths_of_draws(lca)
    A, B = world.A, world.B
    following = np.roll(A, -1, 0), np.roll(B, -1, 0)
    ends = refits.interval(A, B), refits.ratio_interval((A, B), following)
    rows = {"jackknife": row(ends, truth)}
    for rule, T in powers(lca, refits, X, lengths).items():
        floored = (
            np.maximum(length, intervals.LEAST * mean)
            for length, mean in (lengths(T, A - B), lengths(T, np.subtract(*following)))
        )
        above, below = floored
        values = lengths(T, A - B)[0], above / below
        ends = [np.quantile(v, [0.05, 0.95], axis=0) for v in values]
        rows[rule] = row(ends, truth, [v.std(0) for v in values], T)
    return pd.DataFrame(rows.values()).assign(rule=rows.keys())


def main():
    """Run the cases that are not in the CSV, and write the page."""
    options = parser(["label_draws"], __doc__).parse_args()

    def means(name, n):
        world = coverage.World(name, n)
        sets = pd.concat([one_set(world, seed) for seed in range(options.seeds)])
        table = sets.groupby("rule", sort=False).mean().reset_index()
        return table.assign(sets=options.seeds).to_dict("records")

    names = [] if options.table else options.sets or coverage.SHARES
    cells = [(name, n) for n in options.sizes or coverage.SIZES for name in names]
    cases = ((cell, partial(means, *cell)) for cell in cells)
    table = resumed(options.out / "label_draws.csv", ["data", "n"], cases)
    body = []
    for _, r in table.iterrows():
        of = ("{}", "width of {}", "sd of {}")
        cells = [", ".join(f"{r[k.format(q)]:.2f}" for k in of) for q in QUESTIONS]
        body.append([*r[["data", "n", "sets", "rule"]], f"{r['T']:.2f}", *cells])
    body = [[re.sub(r"\bnan\b", "–", str(cell)) for cell in line] for line in body]
    header = ["population", "n", "sets", "rule", "mean T", *QUESTIONS]
    write_page("label_draws", markdown(body, header), options.out)


if __name__ == "__main__":
    main()
