"""LCA's marginal form against the latent one, and its calibration by simulation.

On a problem small enough to sample the latent form well, both forms must give one
posterior; and over simulated worlds the ranks of true values among the draws of the
marginal form must be uniform (x, pairs, W₀ and c are constants of the world).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam

from probmetric.checks.check import Check, Problem, uniform
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Pairs
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import cast, model_target
from probmetric.models.lca import (
    Coincidence,
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    identified,
    lca,
)


def tiny() -> tuple[Pairs, LCAPrior]:
    """Return 12 pairs in d = 2: small enough to sample the latent form well."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(24, 2))
    i = np.arange(12)
    y = (np.sum((X[i] - X[i + 12]) ** 2, 1) < 2.5).astype(int)
    return Pairs(X, i, i + 12, y), LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


def latent_form(pairs: Pairs, prior: LCAPrior) -> None:
    """Write the latent form in z = Wx + σε: the same story, without its funnel in σ."""
    centred: Any = {name: LocScaleReparam(0.0) for name in ("z", "z_prime")}
    with handlers.reparam(config=centred):
        lca(pairs, prior, latent=True)


def sample_tiny(
    problem: Problem[Pairs], n_draws: int = 6000, model: Any = lca
) -> xr.Dataset:
    """Sample M, b and P(same) of four pairs of the tiny problem."""
    del problem
    pairs, _ = tiny()
    sampler = NUTS(target_accept=0.9)
    draws = sampled(model, tiny(), seed=2, n_draws=n_draws, sampler=sampler)
    M, b = draws.values["M"], draws.values["b"]
    delta = pairs.X[pairs.i[:4]] - pairs.X[pairs.j[:4]]
    same = np.exp(-(b[..., None] + 0.5 * np.einsum("pk,cskl,pl->csp", delta, M, delta)))
    return as_dataset({"M": M[..., [0, 0, 1], [0, 1, 1]], "b": b, "P(same)": same})


def without_determinant(pairs: Pairs, prior: LCAPrior) -> None:
    """Write a wrong marginal form: the link without its normaliser."""
    width = prior.c / jnp.sqrt(prior.lam)
    W: Any = numpyro.sample("W", dist.Normal(prior.mean, width).to_event(2))
    rho: Any = numpyro.sample(
        "log_sigma2", dist.Normal(prior.log_sigma2_loc, prior.log_sigma2_scale)
    )
    for name, value in identified(LCAParams(W, rho)).items():
        numpyro.deterministic(name, value)
    X: Any = jnp.asarray(pairs.X)
    D = jnp.sum(((X[pairs.i] - X[pairs.j]) @ W.T) ** 2, -1)
    t = coincidence_exponent(D, jnp.exp(rho), 1.0, 0)
    numpyro.sample("y", Coincidence(-t - 1e-9), obs=pairs.y)


def _world() -> tuple[Pairs, LCAPrior]:
    """Return 100 pairs of 60 points in d = 2, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    i = rng.integers(0, 60, 100)
    j = (i + rng.integers(1, 60, 100)) % 60
    return Pairs(X, i, j, None), LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


def _observe(pairs: Pairs, sites: Any) -> Pairs:
    return pairs._replace(y=sites["y"])


def calibrate(
    problem: Problem[Pairs], model: Any = lca, n_simulations: int = 400
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by LCA."""
    del problem
    pairs, prior = _world()
    target, story, data = model_story(lca, pairs, _observe, prior=prior)
    if model is not lca:
        with jax.enable_x64(True):
            labelled = pairs._replace(y=np.zeros(len(pairs.i), np.int32))
            target = model_target(model, cast((labelled, prior), "float64"), {})[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS = (
    Check(
        "marginal and latent forms have one posterior of M",
        "exact",
        partial(sample_tiny, n_draws=10_000, model=latent_form),
        sample_tiny,
        {
            "marginal form without its determinant": partial(
                sample_tiny, model=without_determinant
            )
        },
        layer="sampling",
        ess_min=5000,
        slow=True,
    ),
    Check(
        "posterior of the marginal form is calibrated over simulated worlds",
        "exact",
        uniform,
        calibrate,
        {
            "no determinant": partial(
                calibrate, model=without_determinant, n_simulations=100
            )
        },
        layer="sbc",
        slow=True,
    ),
)
