"""Gaussian classes compared with NUTS on the model; calibration of exact draws.

Controls: ν off by one, the shrinkage term of Ψ left out, the scale of the predictive
left out, a posterior that ignores the data.

The true parameters of a simulated data set, and its data, come from the sites of the
NumPyro model and not from ``draw``. Otherwise a fault of ``draw`` would be in both
truth and posterior, which is again a conjugate pair with uniform ranks.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.special import digamma

from probmetric.checks.check import (
    Problem,
    Values,
    by_sampling,
    by_sbc,
    near_sampling,
)
from probmetric.checks.gaussian_classes.density import places, some_posterior
from probmetric.checks.gaussian_classes.problems import on_overlapping
from probmetric.checks.ranks import sample_sites
from probmetric.checks.sides import as_dataset, inverse, sampled, stretched
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Labeled
from probmetric.densities.classes import ClassDensities, class_log_densities
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    draw,
    posterior,
    statistics,
)
from probmetric.inference.gaussian_classes.predict import predictive
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Attribute
from probmetric.metric.local import local_metric
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    NIWPrior,
    gaussian_classes,
    to_densities,
)
from probmetric.typing import Array


@on_overlapping
def nuts_reference(problem: Problem[Labeled]) -> xr.Dataset:
    """Sample the NumPyro model: precision, log |Σ|, means, and p_c(x | θ) at 3 x."""
    args = (problem.data, problem.prior)
    draws = sampled(gaussian_classes, args, problem.options, seed=1, n_draws=2000)
    mean, chol = (np.asarray(draws.values[name]) for name in ("mean", "chol"))
    d = mean.shape[-1]
    root = inverse(chol)
    log_det = 2 * np.log(np.diagonal(chol, axis1=-2, axis2=-1)).sum(-1)
    off = _middle(problem)[:, None] - mean[:, :, None]
    squared = np.sum(np.einsum("skcij,skpcj->skpci", root, off) ** 2, -1)
    logs = -(squared + log_det[:, :, None] + d * np.log(2 * np.pi)) / 2
    i, j = np.tril_indices(d)
    return as_dataset(
        {
            "weights": draws.values["weights"],
            "mean": mean,
            "precision": (np.swapaxes(root, -1, -2) @ root)[..., i, j],
            "log |Σ|": log_det,
            "predictive": np.exp(logs),
        }
    )


def _middle(problem: Problem[Labeled]) -> Float[np.ndarray, "3 d"]:
    """Return three points halfway to the mean (far off, densities are skewed)."""
    X = np.asarray(problem.data.X)
    return (places(problem)[:3] + X.mean(0)) / 2


def _log_det(chol: Float[Array, "... d d"]) -> Float[Array, "..."]:
    return 2 * jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)).sum(-1)


@on_overlapping
def moments_estimate(
    problem: Problem[Labeled],
    nu: float = 0.0,
    shrink: bool = True,
    spread: bool = True,
) -> Values:
    """Return E Σ⁻¹ = νΨ⁻¹, E log |Σ|, E μ, E π and the Student-t predictive."""
    post = jax.tree.map(np.asarray, some_posterior(problem, nu, shrink))
    d = post.mean.shape[1]
    i, j = np.tril_indices(d)
    digammas = digamma(0.5 * (post.nu[:, None] - np.arange(d)))
    classes = predictive(post)
    if not spread:  # Without the uncertainty of μ, (κ + 1)/κ.
        shorter = np.sqrt(post.kappa / (post.kappa + 1))
        factor = classes.factor * shorter[:, None, None, None]
        classes = classes._replace(factor=factor)
    return {
        "weights": post.alpha / np.sum(post.alpha),
        "mean": post.mean,
        "precision": (post.nu[:, None, None] * inverse(post.Psi))[:, i, j],
        "log |Σ|": np.linalg.slogdet(post.Psi)[1] - d * np.log(2.0) - digammas.sum(-1),
        "predictive": _densities(classes, _middle(problem)),
    }


@jax.jit
def _densities(classes: ClassDensities, X: Array) -> Array:
    return jnp.exp(jax.vmap(partial(class_log_densities, classes))(X))


N_WORLDS, N_POINTS, N_DRAWS, BLOCK = 1000, 20, 49, 200
"""They detect a common shift of 0.16 posterior sd among seven quantities.

Small data sets show a wrong ν best. A block is a compiled call.
"""


def ranks_of_draws(
    problem: Problem[Labeled],
    nu: float = 0.0,
    shrink: float = 1.0,
    blind: float = 0.0,
    n_worlds: int = N_WORLDS,
) -> Ranks:
    """Rank true parameters among exact draws, over data sets drawn from the model.

    The local distance between two fixed points is ranked with them: its intervals are
    those of ``GLML.posterior_metric("intervals")``.

    Wrong posteriors: ``nu`` added to ν, ``shrink=0`` without the shrinkage term,
    ``blind=1`` the prior instead of the posterior.
    """
    shape = np.asarray(problem.data.X).shape
    keys = jax.random.split(jax.random.key(11), n_worlds)
    c = problem.options["n_classes"]
    size, wrong = (min(shape[0], N_POINTS), shape[1]), (nu, shrink, blind)
    blocks = [
        _world_ranks(problem.prior, keys[k : k + BLOCK], wrong, size, c)
        for k in range(0, n_worlds, BLOCK)
    ]
    return Ranks(jax.tree.map(lambda *v: np.concatenate(v), *blocks), N_DRAWS)


@partial(jax.jit, static_argnames=("shape", "c"))
def _world_ranks(
    prior: NIWPrior,
    keys: jax.Array,
    wrong: tuple[Array, Array, Array],
    shape: tuple[int, int],
    c: int,
) -> dict[str, Array]:
    nothing = statistics(Labeled(jnp.zeros((1, shape[1])), jnp.zeros(1, int)), c)
    nothing = jax.tree.map(jnp.zeros_like, nothing)
    before = posterior(nothing, prior)

    def quantities(params: GaussianClassesParams, data: Labeled) -> dict[str, Array]:
        logs = jax.vmap(lambda x: class_log_densities(to_densities(params), x))(data.X)
        labeled = jnp.take_along_axis(
            logs + jnp.log(params.weights), jnp.asarray(data.y)[:, None], 1
        )
        local = local_metric(to_densities(params), frame="identity")
        distance = local.dissimilarity(prior.mean, prior.mean[None] + 1.0)[0]
        return {
            "weight": params.weights[0],
            "mean[0, 0]": params.mean[0, 0],
            "mean[1, -1]": params.mean[1, -1],
            "log |Σ_0|": _log_det(params.chol[0]),
            "Σ_1[0, 0]": params.chol[1, 0, 0] ** 2,
            "local distance": distance,
            "log_likelihood": jnp.sum(labeled),
        }

    def world(key: jax.Array) -> dict[str, Array]:
        key_world, key_draws = jax.random.split(key)
        theta, data = _simulated(key_world, prior, shape, c)
        stats = statistics(data, c)
        post: ClassPosterior = posterior(stats, prior)
        nu, shrink, blind = wrong
        whole = prior.Psi + stats.scatter
        Psi = whole + shrink * (post.Psi - whole)
        post = post._replace(nu=post.nu + nu, Psi=Psi)
        post = jax.tree.map(lambda a, b: jnp.where(blind, a, b), before, post)
        draws = draw(key_draws, post, N_DRAWS)
        both = jax.tree.map(lambda a, b: jnp.append(a, b[None], 0), draws, theta)
        values = jax.vmap(lambda p: quantities(p, data))(both)
        return jax.tree.map(lambda v: jnp.sum(v[:-1] < v[-1]), values)

    return jax.lax.map(world, keys, batch_size=50)


def _simulated(
    key: jax.Array, prior: NIWPrior, shape: tuple[int, int], c: int
) -> tuple[GaussianClassesParams, Labeled]:
    """Draw true parameters and their data from the NumPyro model."""
    empty = Labeled(jnp.zeros(shape), None)
    sites = sample_sites(gaussian_classes, key, (empty, prior), {"n_classes": c})
    theta = GaussianClassesParams(sites["weights"], sites["mean"], sites["chol"])
    return theta, Labeled(sites["x"], sites["y"])


def _summaries(
    weights: np.ndarray, mean: np.ndarray, chol: np.ndarray, **attrs: Attribute
) -> xr.Dataset:
    """Return log odds of the weights, means and log L, whose spreads are stable."""
    i, j = np.tril_indices(mean.shape[-1], -1)
    values = {
        "log weight": np.log(weights) - np.log(weights).mean(-1, keepdims=True),
        "mean": mean,
        "log of L's diagonal": np.log(np.diagonal(chol, axis1=-2, axis2=-1)),
        "L below it": chol[..., i, j],
    }
    return as_dataset(values, attrs)


def exact_draws(problem: Problem[Labeled]) -> xr.Dataset:
    """Draw from the closed form, as four chains."""
    with jax.enable_x64(True):
        drawn = draw(jax.random.key(8), some_posterior(problem), 8000)
    parts = (np.asarray(a) for a in drawn[:3])
    return _summaries(*(a.reshape(4, -1, *a.shape[1:]) for a in parts))


@stretched
def svi_draws(problem: Problem[Labeled]) -> xr.Dataset:
    """Draw from a full-rank guide of NumPyro's model."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    with jax.enable_x64(True):
        draws = SVI(n_steps=10_000).draw_model(
            gaussian_classes, args, options, seed=9, n_draws=8000, progress=False
        )
    parts = (np.asarray(draws.values[k]) for k in ("weights", "mean", "chol"))
    return _summaries(*parts, **draws.attributes)


CHECKS = (
    by_sampling(
        "moments of the NIW posterior and its Student-t predictive equal NUTS draws",
        reference=nuts_reference,
        estimate=moments_estimate,
        controls={
            "ν one too small": partial(moments_estimate, nu=-1.0),
            "shrinkage term left out": partial(moments_estimate, shrink=False),
            "(κ + 1)/κ left out": partial(moments_estimate, spread=False),
        },
    ),
    near_sampling(
        "SVI's means, covariances and weights are near the closed form",
        reference=exact_draws,
        estimate=svi_draws,
        controls={"twice too wide": partial(svi_draws, wide=2.0)},
        bound=0.3,
        slow=True,
    ),
    by_sbc(
        "closed-form draws are calibrated over simulated data sets (SBC)",
        estimate=ranks_of_draws,
        controls={
            "ν one too small": partial(ranks_of_draws, nu=-1.0),
            "shrinkage term left out": partial(
                ranks_of_draws, shrink=0.0, n_worlds=400
            ),
            "data ignored": partial(ranks_of_draws, blind=1.0, n_worlds=200),
        },
    ),
)
