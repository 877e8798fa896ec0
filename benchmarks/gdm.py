"""GDM: do 90 % limits of curves cover 90 %, and is a published analysis recovered?

    python benchmarks/gdm.py [--worlds 100] [--minutes 10]
    python benchmarks/gdm.py --southwest southwest.csv

**Worlds.** n sites with three covariates, uniform on (0, 1), two of them correlated
(.5); true curves of heights 1.5, 0.4 and 0 on known knots (0, ½, 1); b = 0.2. Every
pair of sites has 20 to 60 units. Of a pair

    P(shared) = exp(-(b + Σ|Δs| + a_i + a_j)),   a_i ~ Exponential of mean τ,

a site effect that all pairs of a site have in common. Averaged over it the curves are
exactly those of the model, with another b, so the truth of s_f(x) is known at any τ;
pairs are independent, as the posterior takes them, at τ = 0 alone. Judged are the
limits of s_f at x = ¼, ½, ¾, 1, pointwise:

    Laplace     the posterior at a learning rate of 1, 400 draws
    bootstrap   Bayesian bootstrap of sites, product weights, 200 refits
    jackknife   delete one site, t limits: the default of ``posterior_metric``
    pairs       Bayesian bootstrap of *pairs*, 200 refits: a control, which takes pairs
                as independent and has to fail at τ > 0

Coverage is of the two curves that rise; beside it its standard error, with worlds as
units (where all are alike "32 of 32", no error), and the mean width over that of the
jackknife. The lower curve begins flat: two of its heights are at or near the edge,
where draws of a posterior are above the truth by their nature. Of the flat curve: how
often its lower limit at x = 1 is above .02.

**southwest.** The data of R's gdm (github.com/fitzLab-AL/gdm, data/southwest.RData,
not copied here: GPL), written as CSV, Sørensen's index between 94 sites with
geographical distance, which ``GDM`` does not offer and which is here three columns
more, under a flat prior. R's summary of it is in the README of that package.

The tables go to results/gdm.md; numbers to gdm.csv and gdm_southwest.csv.
"""

import argparse
from functools import partial

import numpy as np
import pandas as pd
from harness import RESULTS, markdown, mean_error, resumed, write_page
from scipy.spatial.distance import pdist
from scipy.special import rel_entr
from scipy.stats import t as student

from probmetric.data import Pairs
from probmetric.inference import gdm
from probmetric.inference.gdm.bootstrap import leave_out, refits, site_weights
from probmetric.inference.gdm.fit import climb
from probmetric.inference.gdm.likelihood import Rows, rows_of
from probmetric.inference.gdm.target import start
from probmetric.metric.splines import i_splines
from probmetric.models.gdm import GDMPrior

KNOTS = np.tile([0.0, 0.5, 1.0], (3, 1))
TRUTH = np.array([[0.9, 0.4, 0.2], [0.0, 0.1, 0.3], [0.0, 0.0, 0.0]])
GRID = np.array([0.25, 0.5, 0.75, 1.0])
CELLS = [(n, tau) for tau in (0.0, 0.15) for n in (20, 40)]
METHODS = ("jackknife", "bootstrap", "Laplace", "pairs")
PRIOR = GDMPrior(KNOTS, np.asarray(1.0), np.asarray(1.0))


def world(seed, n, tau):
    """Return the pairs of a world."""
    rng = np.random.default_rng([seed, n, int(1000 * tau)])
    z = rng.normal(size=(n, 3))
    z[:, 1] = 0.5 * z[:, 0] + np.sqrt(0.75) * z[:, 1]
    X = np.argsort(np.argsort(z, 0), 0) + rng.random((n, 3))
    X /= n  # Uniform, and correlated by ranks.
    i, j = np.triu_indices(n, 1)
    S = i_splines(X, KNOTS)
    t = 0.2 + np.abs(S[i] - S[j]).reshape(len(i), -1) @ TRUTH.ravel()
    a = tau * rng.exponential(size=n)
    trials = rng.integers(20, 61, len(i))
    y = rng.binomial(trials, np.exp(-(t + a[i] + a[j])))
    return Pairs(X, i, j, y, trials=trials)


def curve(theta):
    """Return s_f on the grid, (..., 3, 4)."""
    splines = i_splines(np.tile(GRID[:, None], (1, 3)), KNOTS)
    return np.einsum("gdk,...dk->...dg", splines, theta)


def quantiles(theta):
    """Return the 5 % and 95 % points of curves of draws."""
    return np.quantile(curve(theta), [0.05, 0.95], axis=0)


def limits_of(pairs, params, seed):
    """Return lower and upper limits by each method, (2, 3, 4)."""
    n, rng, found = len(pairs.X), np.random.default_rng([seed, 7]), {}
    left = leave_out(pairs, PRIOR, params, np.arange(n)).theta
    each, own = curve(left), curve(params.theta)
    V = (n - 1) / n * ((each - each.mean(0)) ** 2).sum(0)
    half = student.ppf(0.95, n - 1) * np.sqrt(V)
    found["jackknife"] = np.stack([np.maximum(own - half, 0), own + half])
    u = [site_weights(n, k, seed) for k in range(200)]
    found["bootstrap"] = quantiles(refits(pairs, PRIOR, params, u).theta)
    rows = rows_of(pairs, PRIOR)
    gaussian = start(params, rows, PRIOR)
    mean = np.append(gaussian.mean["log_b"], gaussian.mean["log_theta"])
    drawn = np.exp(mean + rng.normal(size=(400, len(mean))) @ gaussian.factor.T)
    found["Laplace"] = quantiles(drawn[:, 1:].reshape(-1, 3, 3))
    one = np.ones(n)
    by_pair = [
        refits(
            pairs._replace(w=rng.exponential(size=len(pairs.i))), PRIOR, params, [one]
        ).theta[0]
        for _ in range(200)
    ]
    found["pairs"] = quantiles(np.stack(by_pair))
    return found


def one(n, tau, seed):
    """Yield a row for each method: coverage of two curves, width, zero left out."""
    pairs = world(seed, n, tau)
    params = gdm.fit(pairs, PRIOR).params
    truth = curve(TRUTH)
    for method, (low, high) in limits_of(pairs, params, seed).items():
        inside = (low <= truth + 1e-12) & (truth <= high)
        width = (high - low)[:2].mean()
        # A curve that is flat is 0: limits of draws are above it by their nature.
        out = int(low[2, -1] > 0.02)
        tall, low = inside[:2].mean(1)
        yield {"method": method, "tall": tall, "low": low, "width": width, "flat": out}


def tables(table, southwest):
    """Return the tables of the page."""
    rows = []
    for n, tau in CELLS:
        cell = table[(table["n"] == n) & (table["τ"] == tau)]
        width = cell.groupby("method")["width"].mean()
        for method in METHODS:
            own = cell[cell["method"] == method]
            shares = [
                mean_error(own[c])
                if own[c].nunique() > 1
                else f"{own[c].sum():g} of {len(own)}"  # Worlds all alike: no error.
                for c in ("tall", "low")
            ]
            ratio = f"{width[method] / width['jackknife']:.2f}"
            flat = f"{own['flat'].mean():.2f}"
            rows.append([n, tau, method, len(own), *shares, ratio, flat])
    head = ["n sites", "τ", "method", "worlds"]
    head += ["coverage of 90 % limits, height 1.5", "height 0.4"]
    head += ["width, of the jackknife's", "flat curve above .02"]
    lines = markdown(rows, head)
    lines += ["## southwest (R's gdm, 94 sites, 4371 pairs)", ""]
    return lines + markdown(southwest.to_numpy().tolist(), [*southwest])


R_SUMMARY = {
    "null deviance": 651.914,
    "deviance": 129.025,
    "deviance explained, %": 80.208,
    "intercept": 0.277,
    "bio19": (0.941, 0.868, 0.0),
    "phTotal": (1.127, 0.23, 0.0),
    "bio5": (0.127, 0.453, 0.114),
    "solumDepth": (0.682, 0.0, 0.0),
    "awcA": (0.0, 0.0, 0.523),
    "geographic": (0.014, 0.372, 0.0),
    "sandA": (0.092, 0.0, 0.139),
    "shcA": (0.0, 0.156, 0.0),
    "bio6": (0.121, 0.0, 0.0),
    "bio15": (0.027, 0.0, 0.0),
    "bio18": (0.0, 0.0, 0.0),
}
"""What R's gdm prints of ``gdm(data=gdmTab, geo=TRUE)``, in the README of gdm 1.6."""


def southwest(path):
    """Return the table of R's results and ours."""
    records = pd.read_csv(path)
    names = [n for n in R_SUMMARY if n in records.columns]
    sites = records.groupby("site").first()
    X, place = sites[names].to_numpy(), sites[["Long", "Lat"]].to_numpy()
    seen = pd.crosstab(records["site"], records["species"]).reindex(sites.index) > 0
    D, apart = pdist(seen.to_numpy(), "dice"), pdist(place)[:, None]
    i, j = np.triu_indices(len(X), 1)

    def spline(values):
        # Quantiles as they are, ties and all, as R sets them.
        return i_splines(values, np.quantile(values, [0, 0.5, 1], axis=0).T)

    S, far = spline(X), spline(apart)[:, 0]
    gaps = np.abs(S[i] - S[j]).reshape(len(i), -1)
    Z = np.concatenate([np.ones((len(i), 1)), gaps, far], 1)
    q = Z.shape[1]
    rows = Rows(Z, 1 - D, D, np.zeros(()))
    beta, _, _, gap = climb(rows, np.full(q, 1e-8), np.full(q, 0.05))

    def deviance(P):
        return 2 * float(np.sum(rel_entr(D, P) + rel_entr(1 - D, 1 - P)))

    null, own = deviance(np.full(len(D), D.mean())), deviance(-np.expm1(-Z @ beta))
    heights = dict(zip([*names, "geographic"], beta[1:].reshape(-1, 3), strict=True))
    found = {
        "null deviance": null,
        "deviance": own,
        "deviance explained, %": 100 * (1 - own / null),
        "intercept": beta[0],
        **heights,
    }
    lines = []
    for name, value in R_SUMMARY.items():
        ours = np.round(found[name], 3) + 0.0
        assert np.allclose(ours, value, atol=1e-3), (name, value, ours)
        lines.append((name, str(value), str(np.asarray(ours).tolist())))
    lines.append(("gap to the maximum, nats", "–", f"{gap:.0e}"))
    return pd.DataFrame(lines, columns=["quantity", "R's summary", "here"])


def main():
    """Run worlds, cell by cell in turn, or the published analysis."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--southwest")
    options = parser.parse_args()
    published = RESULTS / "gdm_southwest.csv"
    if options.southwest:
        southwest(options.southwest).to_csv(published, index=False)
        options.worlds = 0
    cases = [(*cell, seed) for seed in range(options.worlds) for cell in CELLS]
    made = ((case, partial(one, *case)) for case in cases)
    table = resumed(RESULTS / "gdm.csv", ["n", "τ", "seed"], made, options.minutes)
    write_page("gdm", tables(table, pd.read_csv(published)), RESULTS)


if __name__ == "__main__":
    main()
