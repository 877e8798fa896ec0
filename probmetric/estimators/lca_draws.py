"""Draws of a fitted LCA: what is sampled, by which method, in input units.

The target is the pooled log joint density of ``inference.lca``, so that a gradient
costs the same however many y = 1 pairs there are. Reported are the quantities that the
likelihood identifies, M (d, d) in units of the link and b, and log σ². With features
standardised as (x - mean)/s, M in input units is diag(1/s) M diag(1/s).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.data import Pairs
from probmetric.estimators._validation import check_choice, pad_pairs, report
from probmetric.estimators.lca_recipe import Fitted, Recipe, recipe_of, solve
from probmetric.inference import lca
from probmetric.inference.lca_bootstrap import bootstrap, dirichlet_weights
from probmetric.inference.lca_laplace import laplace
from probmetric.inference.lca_likelihood import objective
from probmetric.inference.results import REMEDY, Result
from probmetric.inference.sampling import Draws, Gaussian, Target, nuts, svi
from probmetric.inference.sampling_laplace import pareto_khat
from probmetric.inference.sampling_svi import target_model
from probmetric.linalg import psd_factor
from probmetric.metric import Link, Mahalanobis
from probmetric.models.lca import LCAParams, LCAPrior, identified

__all__ = ["METHODS", "TARGET", "Problem", "draw", "metrics", "problem_at", "usable"]

METHODS = ("nuts", "svi", "laplace", "bootstrap")


class Problem(NamedTuple):
    """A posterior and its mode, in standardised units; ``scale`` leads back."""

    pairs: Pairs
    prior: LCAPrior
    learning_rate: float
    params: LCAParams
    scale: Float[np.ndarray, "d"]


def _log_density(position: Any, data: Any) -> Any:
    return objective(position, data[:3])


def _functionals(position: Any, data: Any) -> dict[str, Any]:
    params = LCAParams(position["W"], position["log_sigma2"], 1.0)
    found, scale = identified(params), data[3]
    return {
        "M": found["M"] / (scale[:, None] * scale[None, :]),
        "b": found["b"],
        "log_sigma2": position["log_sigma2"],
    }


TARGET = Target(_log_density, _functionals)
"""Positions are {"W", "log_sigma2"}; data are (stats, prior, learning rate, scale)."""


def draw(
    problem: Problem,
    method: str,
    *,
    seed: int,
    n_draws: int = 1000,
    n_chains: int = 4,
    sampler: dict[str, Any] | None = None,
    progress: bool | None = None,
) -> Draws:
    """Draw M, b and log σ² of a problem.

    Parameters
    ----------
    problem : Problem
    method : {"nuts", "svi", "laplace", "bootstrap"}
        NUTS starts at the mode, over-dispersed, with the inverse mass matrix of the
        Laplace approximation. "laplace" leaves out the rotation of W. "bootstrap"
        refits under product weights.
    seed : int
    n_draws, n_chains : int
        All but NUTS make ``n_chains * n_draws`` independent draws, in one chain.
    sampler : dict, optional
        Further arguments of ``nuts`` or ``svi``, or of the bootstrap (``batch``).
    """
    check_choice("method", method, METHODS)
    extra = dict(sampler or {})
    if extra and method == "laplace":
        raise ValueError(f"sampler: wanted nothing for 'laplace', got {sorted(extra)}")
    with jax.enable_x64(True):
        padded = pad_pairs(problem.pairs)
        stats = lca.prepare(padded)
        rate = np.asarray(problem.learning_rate)
        data = (stats, problem.prior, rate, problem.scale)
        position = {
            "W": jnp.asarray(problem.params.W),
            "log_sigma2": jnp.asarray(problem.params.log_sigma2),
        }
        total = n_draws * n_chains
        if method == "bootstrap":
            return _bootstrap(problem, padded, seed, total, **extra)
        if method == "svi":
            model = target_model(TARGET, position)
            common: Any = {"seed": seed, "progress": progress, **extra}
            return svi(model, (data,), {}, n_draws=total, **common)
        approximation = laplace(
            problem.params, stats, problem.prior, rate, quotient=method == "laplace"
        )
        if method == "laplace":
            key = jax.random.key(seed)
            values, log_weight = _gaussian(
                key, approximation[:2], position, data, total
            )
            return Draws(
                {name: np.asarray(v)[None] for name, v in values.items()},
                {},
                {"method": "laplace", "seed": seed, "khat": _khat(log_weight)},
            )
        return nuts(
            TARGET,
            data,
            start=Gaussian(position, approximation.root),
            seed=seed,
            n_draws=n_draws,
            n_chains=n_chains,
            progress=progress,
            **extra,
        )


@partial(jax.jit, static_argnames="n_draws")
def _gaussian(
    key: Any, approximation: Any, like: Any, data: Any, n_draws: int
) -> tuple[dict[str, Any], Any]:
    """Draw θ̂ + root·ε; return the functionals and log p - log q up to a constant.

    q is a Gaussian on the slice θ̂ + span(root), on which log q = -‖ε‖²/2: k-hat
    judges it against the posterior on that slice.
    """
    mode, root = approximation
    unravel = ravel_pytree(like)[1]
    noise = jax.random.normal(key, (n_draws, root.shape[1]), root.dtype)

    def one(e: Any) -> tuple[dict[str, Any], Any]:
        position = unravel(mode + root @ e)
        log_weight = _log_density(position, data) + 0.5 * jnp.sum(e**2)
        return _functionals(position, data), log_weight

    return jax.lax.map(one, noise, batch_size=min(n_draws, 50))


def _khat(log_weight: Any) -> float:
    """Return k-hat, or NaN for too few draws to have a tail."""
    weights = np.asarray(log_weight)
    return pareto_khat(weights) if len(weights) >= 100 else float("nan")


def _bootstrap(
    problem: Problem, padded: Pairs, seed: int, n_draws: int, *, batch: int = 10
) -> Draws:
    """Refit under product weights on the points; padding points weigh one."""
    n = len(problem.pairs.X)
    u = np.ones((n_draws, len(padded.X)))
    u[:, :n] = dirichlet_weights(jax.random.key(seed), n_draws, n)
    fits = bootstrap(
        padded,
        problem.prior,
        problem.params,
        u,
        learning_rate=problem.learning_rate,
        batch=batch,
    )
    results = np.asarray(fits.result)
    for code in (Result.NONFINITE, Result.DECREASED, Result.MAX_STEPS):
        if np.any(results == code):
            raise RuntimeError(
                f"bootstrap: {code.name} in {int(np.sum(results == code))} of "
                f"{n_draws} refits; {REMEDY[code]}"
            )
    params = fits.params
    positions = {"W": params.W, "log_sigma2": params.log_sigma2}
    values = jax.vmap(lambda p: _functionals(p, (None, None, None, problem.scale)))(
        positions
    )
    return Draws(
        {name: np.asarray(v)[None] for name, v in values.items()},
        {},
        {"method": "bootstrap", "seed": seed},
    )


def metrics(drawn: Draws) -> list[Mahalanobis]:
    """Return one metric a draw, chains joined."""
    M, b = (
        np.asarray(drawn.values[name]).reshape(-1, *drawn.values[name].shape[2:])
        for name in ("M", "b")
    )
    with jax.enable_x64(True):
        # M = WᵀW has rounding-level negative eigenvalues when p < d.
        factors = jax.vmap(lambda m: psd_factor(m, tol=1e-10))(jnp.asarray(M))
    half = np.asarray(0.5)
    return [
        Mahalanobis(factor, Link(np.asarray(own), half))
        for factor, own in zip(np.asarray(factors), b, strict=True)
    ]


def usable(estimator: Any) -> Any:
    """Refuse fits that have no posterior of one metric."""
    check_is_fitted(estimator)
    if estimator.per_anchor:
        raise ValueError("per_anchor: wanted False for draws, got True")
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "regularization: wanted a finite λ for draws, got the fit of "
            "regularization='cv', which chose no learning (λ = inf)"
        )
    return estimator


def problem_at(estimator: Any, pairs: Pairs, rate: float, lam: float | None) -> Problem:
    """Return the mode at a learning rate and λ, refitted where they are not the fit's.

    The prior stays that of the fit but for λ.
    """
    fitted: Fitted = usable(estimator).fitted_
    prior: LCAPrior = fitted.prior
    if lam is not None:
        prior = prior._replace(lam=np.asarray(lam))
    params = fitted.fit.params
    same = rate == fitted.learning_rate and float(prior.lam) == float(fitted.prior.lam)
    if not same or pairs is not fitted.pairs:
        recipe: Recipe = recipe_of(estimator, pairs.X.shape[1])[0]
        fit = solve(pairs, prior, recipe, rate, params)
        report(fit, type(estimator).__name__)
        params = fit.params
    return Problem(pairs, prior, rate, params, np.asarray(estimator.scale_))
