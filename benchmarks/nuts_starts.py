"""Starts of NUTS on ten posteriors: effective draws per gradient and per CPU second.

    python benchmarks/nuts_starts.py --seeds 2
    python benchmarks/nuts_starts.py --first 100 --seeds 2
    python benchmarks/nuts_starts.py --table --out benchmarks/results

Targets are the posteriors of ``sample`` of the learners. Every sampler gets the same
log density, target acceptance, 4 chains of 1000 draws and one core:

* *diagonal*: ours, the default: from over-dispersed draws around the mode, in
  coordinates scaled by the standard deviations of Laplace's Gaussian, adapted by a
  diagonal mass matrix;
* *adapted*: ours, in coordinates whitened by its covariance, adapted by a dense matrix;
* *kept*: ours, in the whitened coordinates, without adaptation of the mass matrix;
* *random*: ours, uniform on (-2, 2) in each coordinate, with a diagonal mass matrix;
* *NumPyro*: its MCMC from the same random starts.

The warm-up has 300 iterations from a Gaussian, and 1000 at random (DCA-GM has no
Gaussian, and is always started at random).
All is compiled before. Seconds include the warm-up, gradients do not. The bulk
effective sample size is the smallest and the median of all reported quantities. Seeds 0
and 1 were used to choose, the others confirm. Stored rows are not run again.
"""

import time
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from arviz_stats.base.array import array_stats
from harness import markdown, parser, resumed, write_page
from hierarchical import world as groups_world
from numpyro.infer import MCMC, NUTS
from pairs_coverage import world as pairs_world
from triplets import world as triplets_world

import probmetric as pm
from probmetric.inference.sampling.target import Gaussian

KEYS = ["target", "method", "seed"]


class Caught(Exception):
    """The posterior that a learner passes to its sampler."""


class Catch(pm.NUTS):
    """A sampler that only returns its input."""

    def draw(self, posterior, **_):
        """Raise the posterior."""
        raise Caught(posterior)


def posterior_of(model):
    """Return the target, data and start that ``model.sample("nuts")`` uses."""
    try:
        model.sample(Catch())
    except Caught as caught:
        return caught.args[0]


def labels(name, p=None, columns=None):
    """Return a fit to pairs made from the labels of at most 150 rows."""
    X, y = pm.datasets.load(name)
    rows = np.random.default_rng(0).permutation(len(y))[:150]
    return pm.LCA(p).fit(np.asarray(X, float)[rows, :columns], y[rows])


def pairs(name, p):
    """Return a fit to 500 independent pairs in d = 5."""
    pairs, y, *_ = pairs_world(name, 500, 0)
    return pm.LCA(p).fit_pairs(pairs, y)


def triplets():
    """Return a fit to 400 triplets in d = 3."""
    _, X, _, triplets, y, _ = triplets_world(0, 400)
    return pm.TripletMetric(preprocessor=X).fit_triplets(triplets, y)


def hierarchical():
    """Return a fit to three groups of 150 pairs in d = 4."""
    (X, y, group), *_ = groups_world("ω = .5", 0)
    some = group < 3
    return pm.HierarchicalLCA(2).fit(X[some], y[some], group[some])


def two_stage():
    """Return a fit of two components to 60 sources of 3 rows in d = 2."""
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(60), 3)
    centers = rng.normal(size=(60, 2)) + 4 * (np.arange(60) % 2)[:, None]
    X = centers[source] + 0.5 * rng.normal(size=(180, 2))
    return pm.TwoStageMixture(2).fit(X, groups=source)


def dca_gm():
    """Return a fit to Iris with one normal distribution per class."""
    return pm.DCAGM(2, n_gaussians=1, prior_strength=0.0).fit(*pm.datasets.load("iris"))


TARGETS = {
    "labels, iris (p = d = 4)": (lambda: labels("iris"), 0.8),
    "labels, wine (p = 2, d = 13)": (lambda: labels("wine", 2), 0.8),
    "labels, cancer (p = 3, d = 10)": (lambda: labels("breast_cancer", 3, 10), 0.8),
    "labels, waveform (p = 2, d = 21)": (lambda: labels("waveform", 2), 0.8),
    "pairs (p = d = 5)": (lambda: pairs("a", None), 0.8),
    "pairs (p = 2, d = 5)": (lambda: pairs("a", 2), 0.8),
    "triplets (p = d = 3)": (triplets, 0.95),
    "hierarchical (p = 2, d = 4)": (hierarchical, 0.95),
    "two-stage (k = 2, d = 2)": (two_stage, 0.8),
    "DCA-GM (p = 2, d = 4)": (dca_gm, 0.8),
}
"""Fit and target acceptance, as ``sample`` sets it."""


def numpyro(posterior, accept):
    """Return a run of NumPyro's sampler that reports the same quantities."""
    target, data, start = posterior
    data = jax.device_put(data)
    mean = jax.tree.map(jnp.asarray, getattr(start, "mean", start))
    density = jax.jit(lambda z: target.log_density(z, data))
    report = jax.jit(lambda z: jax.lax.map(lambda u: target.functionals(u, data), z))
    kernel = NUTS(potential_fn=lambda z: -density(z), target_accept_prob=accept)
    mcmc = MCMC(kernel, num_warmup=1000, num_samples=1000, num_chains=4,
                chain_method="sequential", progress_bar=False)  # fmt: skip

    def run(seed):
        rng, first = np.random.default_rng(seed), []
        while len(first) < 4:
            z = jax.tree.map(lambda a: jnp.asarray(rng.uniform(-2, 2, a.shape)), mean)
            if np.isfinite(density(z)):
                first.append(z)
        first = jax.tree.map(lambda *a: jnp.stack(a), *first)
        fields = "num_steps", "diverging"
        mcmc.run(jax.random.key(seed), init_params=first, extra_fields=fields)
        values = report(mcmc.get_samples())
        steps, diverging = map(mcmc.get_extra_fields().__getitem__, fields)
        statistics = {"n_steps": np.asarray(steps), "diverging": np.asarray(diverging)}
        chains = {k: np.asarray(v).reshape(4, 1000, -1) for k, v in values.items()}
        return chains, statistics

    return run


def ours(start=lambda gaussian: gaussian, **settings):
    """Return a function of posterior and acceptance that returns a run of ours."""

    def prepare(posterior, accept):
        if isinstance(posterior.start, Gaussian):
            posterior = posterior._replace(start=start(posterior.start))
        sampler = pm.NUTS(target_accept=accept, **settings)

        def run(seed):
            drawn = sampler.draw(posterior, seed=seed, progress=False)
            return drawn.values, drawn.statistics

        return run

    return prepare


METHODS = {
    "diagonal": ours(),
    "adapted": ours(dense_mass=True),
    "kept": ours(dense_mass=True, adapt_mass=False),
    "random": ours(lambda gaussian: gaussian.mean),
    "NumPyro": numpyro,
}


def row_of(run, seed):
    """Return seconds, gradients and effective sample sizes of one run."""
    began = time.process_time()
    values, statistics = run(seed)
    seconds = time.process_time() - began
    sizes = []
    for value in values.values():
        columns = value.reshape(*value.shape[:2], -1)
        for column in np.moveaxis(columns[..., np.ptp(columns, (0, 1)) > 0], 2, 0):
            sizes.append(array_stats.ess(column, chain_axis=0, draw_axis=1))
    return {
        "seconds": seconds,
        "gradients": int(statistics["n_steps"].sum()),
        "divergent": int(statistics["diverging"].sum()),
        "minimum": np.min(sizes),
        "median": np.median(sizes),
    }


@cache
def posterior(name):
    """Return the log density, the data and the start of a target."""
    return posterior_of(TARGETS[name][0]())


@cache
def compiled(name, method):
    """Return the run of a method, whose programs are compiled."""
    run = METHODS[method](posterior(name), TARGETS[name][1])
    run(0)
    return run


def measured(name, method, seed):
    """Return the row of a target, a method and a seed."""
    return row_of(compiled(name, method), seed)


def tables(table):
    """Return efficiencies by target, and ratios to NumPyro in the same run (seed)."""
    lines = []
    units = {"seconds": ("CPU second", 1), "gradients": ("1000 gradients", 1000)}
    for unit, (title, factor) in units.items():
        rates, ratios = [], []
        for size in ("minimum", "median"):
            part = table.assign(log=np.log(factor * table[size] / table[unit]))
            logs = part.pivot(index=["target", "seed"], columns="method", values="log")
            logs = logs.reindex(columns=[*METHODS])
            of_targets = logs.groupby("target", sort=False)
            rates.append(np.exp(of_targets.mean()))
            less = logs.sub(logs["NumPyro"], axis=0)
            ratios.append(less.groupby("target", sort=False).mean())

        def cells(both, form):
            numbers = zip(*(part.to_numpy() for part in both), strict=True)
            return [
                [
                    "–" if np.isnan(a) else f"{form(a)} / {form(b)}"
                    for a, b in zip(*row, strict=True)
                ]
                for row in numbers
            ]

        lines += [f"## Effective draws per {title}: smallest / median", ""]
        body = cells(rates, lambda v: f"{v:,.0f}")
        names = [name for name in TARGETS if name in rates[0].index]
        body = [body[rates[0].index.get_loc(name)] for name in names]
        heads = ["target", *METHODS]
        lines += markdown([[n, *c] for n, c in zip(names, body, strict=True)], heads)
        counts = ratios[0].notna().sum()
        means = [np.exp(part.agg(["mean", "min"])) for part in ratios]
        body = cells(means, lambda v: f"{v:.2f}")
        lines += ["Ratio to NumPyro:", ""]
        lines += markdown(
            [["targets", *counts], ["geometric mean", *body[0]], ["least", *body[1]]],
            ["", *METHODS],
        )
    return lines


def main():
    """Run missing cases, and write the page."""
    options = parser(["nuts_starts"], __doc__).parse_args()
    options.first = options.first or 0
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "nuts_starts.csv"
    if options.table:
        table = pd.read_csv(path)
    else:
        with jax.enable_x64(True):
            seeds = range(options.first, options.first + options.seeds)
            names, methods = options.sets or TARGETS, options.methods or METHODS
            cases = ((c, partial(measured, *c)) for c in product(names, methods, seeds))
            table = resumed(path, KEYS, cases, options.minutes)
    write_page("nuts_starts", tables(table), options.out)


if __name__ == "__main__":
    main()
