"""Draws around a fitted LCA by every method: what is identified, M (d, d), b, log σ².

All but the bootstrap sample one target, the pooled log joint density (``lca.target``),
so that a gradient costs the same however many y = 1 pairs there are.

``log_likelihood`` gives that of every pair under every draw, for LOO. In units of the
link -log P(y=1) = b + δᵀMδ/2: what is reported of a draw suffices, W and σ² are not
needed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.data.containers import Pairs, weights
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca.bootstrap import bootstrap_draws
from probmetric.inference.lca.target import TARGET, position, start, target_data
from probmetric.inference.sampling.laplace import gaussian_draws
from probmetric.inference.sampling.nuts import nuts
from probmetric.inference.sampling.svi import svi, target_model
from probmetric.inference.sampling.target import Draws, check_arguments
from probmetric.models.lca import Coincidence, LCAParams, LCAPrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["METHODS", "Problem", "draw", "log_likelihood"]


METHODS = {
    "nuts": nuts,
    "svi": svi,
    "laplace": gaussian_draws,
    "bootstrap": bootstrap_draws,
}
OWN = {
    *("target", "model", "data", "args", "kwargs", "full_kwargs", "start", "seed"),
    *("n_chains", "n_draws", "progress", "gaussian"),
    *("pairs", "prior", "n_points", "learning_rate"),
}
"""Arguments that ``draw`` fills in itself."""


class Problem(NamedTuple):
    """A posterior and its mode."""

    pairs: Pairs
    prior: LCAPrior
    learning_rate: float
    params: LCAParams


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
    """Draw M, b and log σ² of a problem, in float64, on padded shapes.

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
        Further arguments of ``nuts``, ``svi`` or ``bootstrap_draws``.
    progress : bool, optional
        Default: in terminals and notebooks.

    Raises
    ------
    ValueError
        An unknown method or further argument ("laplace" has none), and as the samplers.
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {list(METHODS)}, got {method!r}")
    extra = dict(sampler or {})
    check_arguments(METHODS[method], method, extra, OWN)
    total = n_draws * n_chains
    pairs, prior, rate, params = problem
    with jax.enable_x64(True):
        padded = pad_pairs(pairs)
        if method == "bootstrap":
            return bootstrap_draws(
                padded,
                prior,
                params,
                n_points=len(pairs.X),
                learning_rate=rate,
                seed=seed,
                n_draws=total,
                progress=progress,
                **extra,
            )
        data = target_data(padded, prior, rate)
        common: Any = {"seed": seed, "progress": progress, **extra}
        if method == "svi":
            model = target_model(TARGET, position(params))
            return svi(model, (data,), {}, n_draws=total, **common)
        around = start(params, data, quotient=method == "laplace")
        if method == "laplace":
            return gaussian_draws(TARGET, data, around, seed, total)
        return nuts(
            TARGET, data, start=around, n_draws=n_draws, n_chains=n_chains, **common
        )


@numpy_in_numpy_out
def log_likelihood(
    M: Float[Array, "s c d d"],
    b: Float[Array, "s c"],
    pairs: Pairs,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, "s c n"]:
    """Return η · weight · log p(y | M, b) of each draw and pair.

    Parameters
    ----------
    M : array of shape (n_chains, n_draws, d, d)
    b : array of shape (n_chains, n_draws)
    pairs : Pairs
        In the units of M.
    learning_rate : float, default=1

    Notes
    -----
    Memory beside the result: a draw's n × d differences.
    """
    return _log_likelihood(M, b, pairs, jnp.asarray(learning_rate))


@jax.jit
def _log_likelihood(M: Array, b: Array, pairs: Pairs, learning_rate: Array) -> Array:
    delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])

    def one(draw: tuple[Array, Array]) -> Array:
        t = draw[1] + 0.5 * jnp.sum((delta @ draw[0]) * delta, -1)
        return Coincidence(-t, weights(pairs), learning_rate).log_prob(pairs.y)

    flat = M.reshape(-1, *M.shape[2:]), b.ravel()
    return jax.lax.map(one, flat).reshape(*b.shape, -1)
