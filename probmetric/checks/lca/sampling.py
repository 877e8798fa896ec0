"""LCA's claims against sampling: latent posterior, marginalisation, approximations.

What is exact must agree by ``compare``. Laplace and the variational guide are
approximations: their distance from NUTS is reported against a bound of one posterior
standard deviation. Distances keep well within it; b, whose posterior is skewed towards
its end at zero, is what comes nearest (0.6 on Wine).
"""

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

from probmetric.checks.check import Check, Problem
from probmetric.checks.lca.posterior import (
    posterior_estimate,
    posterior_with_a_flipped_sign,
    some_pairs,
)
from probmetric.data.containers import Pairs
from probmetric.inference.lca import fit as closed_form
from probmetric.inference.lca.laplace import laplace as lca_laplace
from probmetric.inference.lca.laplace import laplace_draws
from probmetric.inference.lca.target import TARGET, start, target_data
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior, model_target
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    identified,
    lca,
)

__all__ = ["CHECKS"]

N_DISTANCES = 8


def latent_at(pairs: Pairs, prior: LCAPrior, W: Any, log_sigma2: Any) -> None:
    """Write the latent form with W and σ² known: z and z' are all that is left."""
    with handlers.condition(data={"W": W, "log_sigma2": log_sigma2}):
        lca(pairs, prior, latent=True)


def _alternating(problem: Problem) -> Pairs:
    pairs = some_pairs(problem)
    return pairs._replace(y=np.arange(len(pairs.i)) % 2)


def _directions(problem: Problem) -> Any:
    pairs = _alternating(problem)
    g = (pairs.X[pairs.i] - pairs.X[pairs.j]) @ np.asarray(problem.params.W).T
    norm = np.linalg.norm(g, axis=1, keepdims=True)
    return g / np.where(norm == 0, 1, norm)


def latent_reference(problem: Problem) -> xr.Dataset:
    """Sample z and z' of six pairs, labels alternating, at fixed parameters."""
    params = problem.params
    args = (_alternating(problem), problem.prior, params.W, params.log_sigma2)
    with jax.enable_x64(True):
        target, data, shapes = model_target(latent_at, jax.tree.map(_array, args), {})
        origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        posterior = Posterior(target, data, origin)
        sampler = NUTS(target_accept=0.98)
        draws = sampler.draw(posterior, seed=1, n_draws=2500, progress=False)
    u = draws.values["z"] - draws.values["z_prime"]
    along = np.einsum("cspk,pk->csp", u, _directions(problem))
    columns = {
        "u along g": along,
        "(u along g)²": along**2,
        "‖u across g‖²": np.sum(u**2, -1) - along**2,
    }
    dims = ("chain", "draw", "pair")
    return xr.Dataset({k: (dims, v) for k, v in columns.items()})


def _array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array | np.ndarray) else leaf


def _latent_values(problem: Problem, moments: dict[str, Any]) -> dict[str, Any]:
    unit = _directions(problem)
    y = np.asarray(_alternating(problem).y)
    p = unit.shape[1]
    mean, cov = (
        np.where(
            (y == 1).reshape(-1, *([1] * (moments[f"{kind} | y=1]"].ndim - 1))),
            moments[f"{kind} | y=1]"],
            moments[f"{kind} | y=0]"],
        )
        for kind in ("E[z, z'", "Cov[z, z'")
    )
    mean_u = mean[:, :p] - mean[:, p:]
    cov_u = cov[:, :p, :p] + cov[:, p:, p:] - cov[:, :p, p:] - cov[:, p:, :p]
    along = np.sum(mean_u * unit, 1)
    spread = np.einsum("pk,pkl,pl->p", unit, cov_u, unit)
    return {
        "u along g": along,
        "(u along g)²": along**2 + spread,
        "‖u across g‖²": np.trace(cov_u, axis1=1, axis2=2) - spread,
    }


def _identified(params: LCAParams) -> dict[str, Any]:
    return {k: np.asarray(v) for k, v in identified(params).items()}


def autodelta_mode(problem: Problem) -> dict[str, Any]:
    """Find M and b at the mode by NumPyro's AutoDelta and BFGS."""
    pairs, prior = problem.data, problem.prior
    with jax.enable_x64(True):
        begin = {"W": jnp.asarray(prior.mean), "log_sigma2": jnp.log(0.3)}
        guide = AutoDelta(lca, init_loc_fn=init_to_value(values=begin))
        options = {"learning_rate": problem.options["learning_rate"]}
        run = numpyro.infer.SVI(
            lca, guide, numpyro.optim.Minimize(), Trace_ELBO(), **options
        )
        state = run.init(jax.random.key(0), pairs, prior)
        for _ in range(3):  # a restart renews BFGS's memory where it stopped early
            state, _ = run.update(state, pairs, prior)
        found = run.get_params(state)
        return _identified(LCAParams(found["W_auto_loc"], found["log_sigma2_auto_loc"]))


def _refit(problem: Problem, lam: float) -> dict[str, Any]:
    found = closed_form.fit(
        problem.data,  # pyright: ignore[reportArgumentType]
        problem.prior._replace(lam=lam * problem.prior.lam),
        learning_rate=problem.options["learning_rate"],
        tol=1e-9,
    )
    return _identified(found.params)


def _metric_summaries(problem: Problem, draws: Draws) -> xr.Dataset:
    """Distances of a few pairs and b: what users read off the posterior."""
    pairs = some_pairs(problem, N_DISTANCES)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    squared = np.einsum("pk,cskl,pl->csp", delta, draws.values["M"], delta)
    return xr.Dataset(
        {
            "distance": (("chain", "draw", "pair"), np.sqrt(squared)),
            "b": (("chain", "draw"), draws.values["b"]),
        },
        attrs=draws.attributes,
    )


def _pooled(problem: Problem) -> Any:
    pairs: Any = problem.data
    return target_data(pairs, problem.prior, problem.options["learning_rate"])


def nuts_reference(problem: Problem) -> xr.Dataset:
    """Sample the pooled target from Laplace's start."""
    with jax.enable_x64(True):
        data = _pooled(problem)
        posterior = Posterior(TARGET, data, start(problem.params, data))
        draws = NUTS().draw(posterior, seed=3, progress=False)
    return _metric_summaries(problem, draws)


def laplace_estimate(problem: Problem, spread: float = 1.0) -> xr.Dataset:
    """Draw from Laplace's Gaussian with the rotation quotiented out."""
    with jax.enable_x64(True):
        data = _pooled(problem)
        found = lca_laplace(problem.params, *data)
        found = found._replace(root=spread * found.root)
        params = laplace_draws(found, jax.random.key(5), 4000)
        values = jax.vmap(identified)(params)
        posterior = Posterior(TARGET, data, start(problem.params, data))
        khat = Laplace().draw(posterior, seed=6).attributes["khat"]
    values = {k: np.asarray(v)[None] for k, v in values.items()}
    return _metric_summaries(problem, Draws(values, {}, {"khat": khat}))


def svi_estimate(problem: Problem) -> xr.Dataset:
    """Draw from a full-rank Gaussian guide fitted to the NumPyro model."""
    with jax.enable_x64(True):
        draws = SVI().draw_model(
            lca,
            (problem.data, problem.prior),
            {"learning_rate": problem.options["learning_rate"]},
            seed=7,
            n_draws=4000,
            progress=False,
        )
    return _metric_summaries(problem, draws)


CHECKS: tuple[Check, ...] = (
    Check(
        "mode of (W, log σ²) is AutoDelta's",
        "exact",
        autodelta_mode,
        lambda problem: _refit(problem, 1.0),
        {"λ a tenth too large": lambda problem: _refit(problem, 1.1)},
        rtol=1e-4,
        layer="gradient",
    ),
    Check(
        "posterior of (z, z') is that of the latent form, sampled",
        "exact",
        latent_reference,
        lambda problem: _latent_values(problem, posterior_estimate(problem)),
        {
            "y=0 pulls together": lambda problem: _latent_values(
                problem, posterior_with_a_flipped_sign(problem)
            )
        },
        layer="sampling",
    ),
    Check(
        "Laplace's distances and b are near NUTS's",
        "approximate",
        nuts_reference,
        laplace_estimate,
        {"four times too wide": lambda problem: laplace_estimate(problem, 4.0)},
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
