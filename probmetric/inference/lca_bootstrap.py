"""The weighted-likelihood bootstrap of LCA: refits under random weights on points.

A draw gives point i the weight u_i, u = n·Dirichlet(1, …, 1), pair (i, j) the *product*
w u_i u_j, and refits by SQUAREM over the reduced EM from the fit to the data. To first
order its covariance is H⁻¹JH⁻¹ with J the variance of a U-statistic of order two, which
is what pairs that share points need; with the mean of the weights instead, intervals
would come out half as wide.

Draws run in batches, each one ``vmap``: memory is batch · (N·p + 2·N) numbers.

References
----------
Newton and Raftery, "Approximate Bayesian inference with the weighted likelihood
bootstrap", JRSS B 56 (1994).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.data import Pairs, weights
from probmetric.inference.em import run_em
from probmetric.inference.lca_em import reduced_step, spectrum
from probmetric.inference.lca_likelihood import to_params, to_unconstrained
from probmetric.inference.lca_statistics import Statistics
from probmetric.inference.results import Fit
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.typing import Array

__all__ = ["bootstrap", "dirichlet_weights"]


def dirichlet_weights(key: Any, n_draws: int, n: int) -> Float[Array, "s n"]:
    """Draw weights n·Dirichlet(1, …, 1): mean 1 over the points of each draw."""
    u = jax.random.exponential(key, (n_draws, n))
    return u / jnp.mean(u, -1, keepdims=True)


def bootstrap(
    pairs: Pairs,
    prior: LCAPrior,
    start: LCAParams,
    u: Float[Array, "s n"],
    *,
    learning_rate: float = 1.0,
    batch: int = 10,
    max_steps: int = 200,
    tol: float = 1e-6,
) -> Fit:
    """Refit LCA under each row of unit weights.

    Parameters
    ----------
    pairs : Pairs
        Labelled pairs; not per anchor.
    prior : LCAPrior
        Kept as it is: only the likelihood is reweighted.
    start : LCAParams
        The fit to the data, from which every draw starts.
    u : array of shape (s, n)
        Weights on points, one row a draw (``dirichlet_weights``); zero allowed.
    learning_rate : float, default=1
    batch : int, default=10
        Draws in memory at once.
    max_steps, tol
        As for ``run_em`` with SQUAREM.

    Returns
    -------
    Fit
        Every entry with a leading draw axis. Check ``result``.
    """
    same = jnp.asarray(pairs.y) == 1
    delta = jnp.asarray(pairs.X)[pairs.i] - jnp.asarray(pairs.X)[pairs.j]
    chosen = (jnp.nonzero(same)[0], jnp.nonzero(~same)[0])
    i, j, w = jnp.asarray(pairs.i), jnp.asarray(pairs.j), weights(pairs)
    sides = tuple((delta[k], i[k], j[k], w[k]) for k in chosen)
    prior = LCAPrior(*(jnp.asarray(v, delta.dtype) for v in prior))
    begin = jax.tree.map(lambda a: jnp.asarray(a, delta.dtype), to_unconstrained(start))
    found = _refit(
        begin,
        sides,
        prior,
        jnp.asarray(learning_rate, delta.dtype),
        jnp.asarray(u, delta.dtype),
        tol,
        batch=batch,
        max_steps=max_steps,
    )
    params = to_params(found.params)
    ones = jnp.ones_like(found.params["log_sigma2"])
    return found._replace(params=params._replace(kappa2=ones))


@partial(jax.jit, static_argnames=("batch", "max_steps"))
def _refit(
    begin: Any,
    sides: Any,
    prior: Any,
    learning_rate: Any,
    u: Any,
    tol: Any,
    *,
    batch: int,
    max_steps: int,
) -> Fit:
    def refit(weight: Any) -> Fit:
        (d1, i1, j1, w1), (d0, i0, j0, w0) = sides
        w_same, w_rows = w1 * weight[i1] * weight[j1], w0 * weight[i0] * weight[j0]
        T_same = (d1 * w_same[:, None]).T @ d1
        T = T_same + (d0 * w_rows[:, None]).T @ d0
        stats = Statistics(
            X=d0,
            i=None,
            j=None,
            same=jnp.zeros(len(d0), bool),
            w=w_rows,
            anchor=None,
            n_same=jnp.sum(w_same),
            T_same=T_same,
            n=jnp.sum(w_same) + jnp.sum(w_rows),
            T=T,
            S=T,
        )
        data = (stats, prior, learning_rate, spectrum(T))
        return run_em(
            reduced_step, begin, data, max_steps=max_steps, tol=tol, accelerate=True
        )

    return jax.lax.map(refit, u, batch_size=batch)
