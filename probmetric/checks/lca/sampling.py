"""LCA's claims against sampling: latent posterior, marginalisation, approximations.

What is exact must agree by ``compare``. Laplace and the variational guide are
approximations: their distance from NUTS is reported against a bound of one posterior
standard deviation. Distances keep well within it; b, whose posterior is skewed towards
its end at zero, is what comes nearest (0.6 on Wine).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import xarray as xr
from numpyro import handlers
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import AutoDelta
from numpyro.infer.initialization import init_to_value

from probmetric.checks.check import Check, Problem, Values
from probmetric.checks.lca.posterior import (
    N_PAIRS,
    differences,
    posterior_estimate,
    posterior_with_a_flipped_sign,
    some_pairs,
)
from probmetric.checks.lca.problems import fit_problem
from probmetric.checks.sides import as_dataset, sampled
from probmetric.data.containers import Pairs
from probmetric.inference.lca.laplace import laplace as lca_laplace
from probmetric.inference.lca.laplace import laplace_draws
from probmetric.inference.lca.target import TARGET, start, target_data
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.models.lca import LCAParams, LCAPrior, identified, lca

N_DISTANCES = 8


def latent_at(pairs: Pairs, prior: LCAPrior, W: Any, log_sigma2: Any) -> None:
    """Write the latent form with W and σ² known: z and z' are all that is left."""
    with handlers.condition(data={"W": W, "log_sigma2": log_sigma2}):
        lca(pairs, prior, latent=True)


def _alternating(problem: Problem[Pairs]) -> Pairs:
    return some_pairs(problem)._replace(y=np.arange(N_PAIRS) % 2)


def _directions(problem: Problem[Pairs]) -> np.ndarray:
    g = differences(problem, some_pairs(problem))
    norm = np.linalg.norm(g, axis=1, keepdims=True)
    return g / np.where(norm == 0, 1, norm)


def latent_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample z and z' of six pairs, labels alternating, at fixed parameters."""
    W, log_sigma2 = (np.asarray(a) for a in problem.params[:2])
    args = (_alternating(problem), problem.prior, W, log_sigma2)
    sampler = NUTS(target_accept=0.98)
    draws = sampled(latent_at, args, seed=1, n_draws=2500, sampler=sampler)
    u = draws.values["z"] - draws.values["z_prime"]
    along = np.einsum("cspk,pk->csp", u, _directions(problem))
    return as_dataset(
        {
            "u along g": along,
            "(u along g)²": along**2,
            "‖u across g‖²": np.sum(u**2, -1) - along**2,
        }
    )


def _latent_values(
    problem: Problem[Pairs], moments: Callable[[Problem[Pairs]], Values]
) -> Values:
    """Return the same moments of u from those of (z, z') under either label."""
    found, unit = moments(problem), _directions(problem)
    p, y = unit.shape[1], np.arange(N_PAIRS) % 2
    mean, cov = (
        np.stack([found[f"{kind}, z' | y={label}]"][k] for k, label in enumerate(y)])
        for kind in ("E[z", "Cov[z")
    )
    less = np.concatenate([np.eye(p), -np.eye(p)])
    mean_u, cov_u = mean @ less, less.T @ cov @ less
    along = np.sum(mean_u * unit, 1)
    spread = np.einsum("pk,pkl,pl->p", unit, cov_u, unit)
    return {
        "u along g": along,
        "(u along g)²": along**2 + spread,
        "‖u across g‖²": np.trace(cov_u, axis1=1, axis2=2) - spread,
    }


def autodelta_mode(problem: Problem[Pairs]) -> Values:
    """Find M and b at the mode by NumPyro's AutoDelta and BFGS."""
    pairs, prior = problem.data, problem.prior
    with jax.enable_x64(True):
        begin = {"W": jnp.asarray(prior.mean), "log_sigma2": jnp.log(0.3)}
        guide = AutoDelta(lca, init_loc_fn=init_to_value(values=begin))
        optimizer, elbo = numpyro.optim.Minimize(), Trace_ELBO()
        run = numpyro.infer.SVI(lca, guide, optimizer, elbo, **problem.options)
        state = run.init(jax.random.key(0), pairs, prior)
        for _ in range(3):  # a restart renews BFGS's memory where it stopped early
            state, _ = run.update(state, pairs, prior)
        found = run.get_params(state)
        return identified(LCAParams(found["W_auto_loc"], found["log_sigma2_auto_loc"]))


def closed_form_mode(problem: Problem[Pairs], factor: float = 1.0) -> Values:
    """Fit M and b, with the prior's λ times a factor."""
    prior = problem.prior._replace(lam=factor * problem.prior.lam)
    return identified(fit_problem(replace(problem, prior=prior)).params)


def _metric_summaries(problem: Problem[Pairs], draws: Draws) -> xr.Dataset:
    """Distances of a few pairs and b: what users read off the posterior."""
    pairs = some_pairs(problem, N_DISTANCES)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    squared = np.einsum("pk,cskl,pl->csp", delta, draws.values["M"], delta)
    values = {"distance": np.sqrt(squared), "b": draws.values["b"]}
    return as_dataset(values, draws.attributes)


def _pooled(problem: Problem[Pairs]) -> Posterior:
    """Return the pooled target, with Laplace's start."""
    data = target_data(problem.data, problem.prior, problem.options["learning_rate"])
    return Posterior(TARGET, data, start(problem.params, data))


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the pooled target from Laplace's start."""
    with jax.enable_x64(True):
        draws = NUTS().draw(_pooled(problem), seed=3, progress=False)
    return _metric_summaries(problem, draws)


def laplace_estimate(problem: Problem[Pairs], spread: float = 1.0) -> xr.Dataset:
    """Draw from Laplace's Gaussian with the rotation quotiented out."""
    with jax.enable_x64(True):
        posterior = _pooled(problem)
        found = lca_laplace(problem.params, *posterior.data)
        found = found._replace(root=spread * found.root)
        values = jax.vmap(identified)(laplace_draws(found, jax.random.key(5), 4000))
        plain = Laplace().draw(posterior, seed=6)
    values = {k: np.asarray(v)[None] for k, v in values.items()}
    return _metric_summaries(problem, plain._replace(values=values))


def svi_estimate(problem: Problem[Pairs]) -> xr.Dataset:
    """Draw from a full-rank Gaussian guide fitted to the NumPyro model."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    with jax.enable_x64(True):
        draws = SVI().draw_model(
            lca, args, options, seed=7, n_draws=4000, progress=False
        )
    return _metric_summaries(problem, draws)


CHECKS = (
    Check(
        "mode of (W, log σ²) is AutoDelta's",
        "exact",
        autodelta_mode,
        closed_form_mode,
        {"λ a tenth too large": partial(closed_form_mode, factor=1.1)},
        rtol=1e-4,
        layer="gradient",
    ),
    Check(
        "posterior of (z, z') is that of the latent form, sampled",
        "exact",
        latent_reference,
        partial(_latent_values, moments=posterior_estimate),
        {
            "y=0 pulls together": partial(
                _latent_values, moments=posterior_with_a_flipped_sign
            )
        },
        layer="sampling",
    ),
    Check(
        "Laplace's distances and b are near NUTS's",
        "approximate",
        nuts_reference,
        laplace_estimate,
        {"four times too wide": partial(laplace_estimate, spread=4.0)},
        bound=1.0,
        layer="sampling",
    ),
    Check(
        "SVI's distances and b are near NUTS's",
        "approximate",
        nuts_reference,
        svi_estimate,
        bound=1.0,
        layer="sampling",
    ),
)
