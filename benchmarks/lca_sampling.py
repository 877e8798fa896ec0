"""NUTS on LCA: effective draws per gradient, marginal against latent form.

    python benchmarks/lca_sampling.py

One simulated data set (500 pairs, d = 5, p = 2), R-hat and effective sample size on
the entries of M. Forms: the pooled marginal density started from Laplace, the same
density without that start, and the NumPyro model with z and z' sampled. The latent
run's effective sample size is an upper bound on what it is worth while its R-hat is
above 1.01. Seconds are after compilation, of this run.
"""

import time

import arviz as az
import jax
import numpy as np
import xarray as xr

from probmetric.data import Pairs
from probmetric.inference.lca import fit
from probmetric.inference.lca.target import TARGET, start, target_data
from probmetric.inference.sampling import NUTS, Posterior
from probmetric.inference.sampling.target import model_target
from probmetric.models.lca import LCAParams, LCAPrior, lca, simulate


def problem():
    """Return 500 labeled pairs of independent points and a prior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    i = np.arange(500)
    truth = LCAParams(rng.normal(size=(2, 5)) * 0.6, np.log(0.3))
    pairs = simulate(jax.random.key(0), truth, Pairs(X, i, i + 500, None))
    prior = LCAPrior(0.5 * np.eye(2, 5), c=0.5, lam=1.0)
    return pairs._replace(y=np.asarray(pairs.y)), prior


def summary(name, run, n_draws):
    """Print effective draws per thousand gradients and per second."""
    run(20)  # compile
    began = time.perf_counter()
    draws = run(n_draws)
    seconds = time.perf_counter() - began
    M = xr.Dataset({"M": (("chain", "draw", "a", "b"), draws.values["M"])})
    ess = float(az.ess(M, sample_dims=["chain", "draw"], method="bulk")["M"].min())
    rhat = float(az.rhat(M, sample_dims=["chain", "draw"])["M"].max())
    gradients = float(draws.statistics["n_steps"].sum())
    per_gradient = 1e3 * ess / gradients
    print(
        f"{name:<28}{gradients / M['M'][..., 0, 0].size:>10.1f}{rhat:>9.3f}"
        f"{ess:>9.0f}{per_gradient:>12.2f}{ess / seconds:>10.1f}"
    )
    return per_gradient


def draw(posterior, n):
    """Draw by the default sampler."""
    return NUTS().draw(posterior, seed=0, n_draws=n, progress=False)


def main():
    """Print the table and the ratio."""
    with jax.enable_x64(True):
        pairs, prior = problem()
        mode = fit(pairs, prior, tol=1e-9).params
        data = target_data(pairs, prior, 1.0, mode)
        laplace = start(mode, data)
        heads = ("form", "grad/draw", "R-hat", "ESS min", "ESS/1k grad", "ESS/s")
        print("{:<28}{:>10}{:>9}{:>9}{:>12}{:>10}".format(*heads))
        best = summary(
            "marginal, pooled, Laplace",
            lambda n: draw(Posterior(TARGET, data, laplace), n),
            1000,
        )
        origin = jax.tree.map(np.zeros_like, laplace.mean)
        summary(
            "marginal, pooled, no start",
            lambda n: draw(Posterior(TARGET, data, origin), n),
            1000,
        )
        target, arrays, shapes = model_target(lca, (pairs, prior), {"latent": True})
        origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        latent = summary(
            "latent z, z' sampled",
            lambda n: draw(Posterior(target, arrays, origin), n),
            500,
        )
        print(f"marginal / latent, effective draws per gradient: {best / latent:.0f} ×")


if __name__ == "__main__":
    main()
