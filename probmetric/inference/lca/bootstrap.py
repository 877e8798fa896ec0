"""The weighted-likelihood bootstrap of LCA: refits under random weights on points.

In each draw, u = n·Dirichlet(1, …, 1), point i has the weight u_i, and pair (i, j) has
the *product* w u_i u_j. The refit uses L-BFGS and starts at the fit to the data. To
first order the covariance of the draws is H⁻¹JH⁻¹. J is the variance of a U-statistic
of order two, because pairs share points. With the weight w (u_i + u_j)/2, intervals
would be half as wide.

Each refit uses coordinates in which the curvature is near the identity. With T₁ = Σ w
δδᵀ over the weighted y = 1 pairs and η the learning rate, the Hessian of W is I_p ⊗
(ηT₁/(1 + 2σ²) + λ/c²) if the y = 0 pairs are far apart (see docs/measured.md). The
sampler ``Bootstrap`` draws weights and refits in one compiled program, in blocks that
are stored and resumed. Draw k depends only on the seed and k.

References
----------
Newton and Raftery, "Approximate Bayesian inference with the weighted likelihood
bootstrap", JRSS B 56 (1994).
"""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Float, PyTree

from probmetric.arguments import check_bool, check_number, store_counts
from probmetric.data.containers import Pairs, weights
from probmetric.data.pairs import as_labels
from probmetric.inference.lca.likelihood import objective, to_unconstrained
from probmetric.inference.lca.statistics import Statistics
from probmetric.inference.lca.target import TARGET
from probmetric.inference.sampling.checkpoint import (
    check_folder,
    describe,
    plan_blocks,
    run_blocks,
)
from probmetric.inference.sampling.target import Arrays, Draws, Posterior, cast, counts
from probmetric.inference.solvers.lbfgs_traced import minimize
from probmetric.inference.solvers.result import REMEDY, Fit, Result
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.typing import Array, Scalar


def dirichlet_weights(
    key: Array, n: Array | int, size: int, dtype: DTypeLike = float
) -> Float[Array, "size"]:
    """Draw weights n·Dirichlet(1, …, 1) of n points; padded points have weight 1."""
    u = jax.random.exponential(key, (size,), dtype)
    real = jnp.arange(size) < n
    return jnp.where(real, u * n / jnp.sum(u, where=real), 1.0)


class Shared(NamedTuple):
    """Data shared by all draws: (delta, i, j, w) for y = 1 and 0, prior, η, start."""

    sides: tuple[tuple[Array, Array, Array, Array], ...]
    prior: LCAPrior
    learning_rate: Array
    start: Arrays


def gather(
    pairs: Pairs, prior: LCAPrior, learning_rate: Scalar, start: LCAParams
) -> Shared:
    """Compute the data shared by all draws, on the host and once per run."""
    pairs = as_labels(pairs)
    X, i, j, y = (np.asarray(v) for v in (pairs.X, pairs.i, pairs.j, pairs.y))
    w = np.asarray(weights(pairs), X.dtype)
    delta = X[i] - X[j]
    sides = (np.flatnonzero(y == label) for label in (1, 0))
    shared = Shared(
        tuple((delta[k], i[k], j[k], w[k]) for k in sides),
        prior,
        np.asarray(learning_rate),
        to_unconstrained(start),
    )
    return cast(jax.tree.map(np.asarray, shared), X.dtype)


def refit(shared: Shared, u: Array, tol: Scalar, max_steps: int) -> Fit:
    """Refit under weights (n,) on the points."""
    (d1, i1, j1, w1), (d0, i0, j0, w0) = shared.sides
    w_same, w_rows = w1 * u[i1] * u[j1], w0 * u[i0] * u[j0]
    T_same = (d1 * w_same[:, None]).T @ d1
    T = T_same + (d0 * w_rows[:, None]).T @ d0
    stats = Statistics(
        X=d0,
        i=None,
        j=None,
        w=w_rows,
        n_same=jnp.sum(w_same),
        T_same=T_same,
        n=jnp.sum(w_same) + jnp.sum(w_rows),
        T=T,
        S=T,
    )
    return fit_near(
        stats, shared.prior, shared.learning_rate, shared.start, tol, max_steps
    )


def fit_near(
    stats: Statistics,
    prior: LCAPrior,
    rate: Scalar,
    start: Arrays,
    tol: Scalar,
    max_steps: int,
) -> Fit:
    """Fit to ``tol`` from {W, log_b}, whitened by the curvature at this start."""
    p, d = start["W"].shape
    values, vectors, by_log_b = _curvature(stats, prior, rate, start)

    def position(z: Array) -> Arrays:
        step = (z[:-1].reshape(p, d) / jnp.sqrt(values)) @ vectors.T
        log_b = start["log_b"] + z[-1] / jnp.sqrt(by_log_b)
        return {"W": start["W"] + step, "log_b": log_b}

    def negative(z: Array) -> Scalar:
        return -objective(position(z), (stats, prior, rate))

    origin = jnp.zeros(p * d + 1, stats.T_same.dtype)
    end = minimize(jax.value_and_grad(negative), origin, max_steps=max_steps, tol=tol)
    return Fit(
        position(end.x),
        -end.value,
        end.result,
        end.n_steps,
        end.n_evaluations,
        -end.trace,
    )


def _curvature(
    stats: Statistics, prior: LCAPrior, rate: Scalar, start: Arrays
) -> tuple[Array, Array, Array]:
    """Return eigenpairs for a row of W, and the curvature of log b (b at D = 0)."""
    b = jnp.exp(start["log_b"])
    eta = jnp.exp(2 * b / len(start["W"]))
    values, vectors = jnp.linalg.eigh(rate * stats.T_same / eta)
    values = values + prior.lam / jnp.asarray(prior.width) ** 2
    # The floor only scales steps and does not change the model.
    values = jnp.maximum(values, 1e-8 * values[-1])
    by_log_b = (rate * stats.n_same + prior.b_rate) * b
    return values, vectors, by_log_b


@dataclass(frozen=True)
class Bootstrap:
    """The weighted-likelihood bootstrap: refits under Dirichlet weights on points.

    Parameters
    ----------
    block_size : int, default=50
        Number of draws computed in one compiled call and stored in one checkpoint file.
    max_steps : int, default=500
        Maximum number of L-BFGS steps of a refit.
    tol : float, default=1e-6
        A refit stops if its estimated distance from the maximum, divided by the log
        density, is below ``tol``.
    checkpoint : path, optional
        Folder in which each finished block is stored as a file.
    resume : bool, default=False
        Continue from the blocks in ``checkpoint``. The draws are the same as without
        interruption.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> lca = pm.LCA(n_components=2, regularization=1.0).fit(X, y)
    >>> draws = lca.sample(Bootstrap(block_size=4), n_draws=4, n_chains=1)
    >>> draws["posterior"]["M"].shape
    (1, 4, 4, 4)
    """

    block_size: int = 50
    max_steps: int = 500
    tol: float | int = 1e-6
    checkpoint: str | Path | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        store_counts(self, "block_size", "max_steps")
        check_number("tol", self.tol, 0)
        check_bool("resume", self.resume)

    def draw(
        self,
        posterior: Posterior,
        *,
        seed: int,
        n_draws: int = 1000,
        n_chains: int | None = None,
        progress: bool | None = None,
    ) -> Draws:
        """Draw M, b and log σ² by refits.

        ``posterior`` contains the data (pairs, prior, learning rate, number of points
        before padding) and the fit, from which refits start. The result has ``n_chains
        * n_draws`` draws in one chain. Raises RuntimeError if a refit does not
        converge; stored blocks remain.
        """
        total = math.prod(counts(n_draws, n_chains))
        folder, size = check_folder(self.checkpoint, self.resume), self.block_size
        pairs, prior, learning_rate, n_points = posterior.data
        start = posterior.start
        assert isinstance(start, LCAParams)
        with jax.enable_x64(True):
            shared = gather(pairs, prior, learning_rate, start)
            n, seeded = np.asarray(n_points), np.int64(seed)

            def advance(
                _: tuple[()], n_block: int, index: int
            ) -> tuple[tuple[()], Arrays, Arrays]:
                first = np.asarray(index * size)
                static = len(pairs.X), size, self.max_steps
                values, results = _block(
                    shared, seeded, n, first, np.asarray(n_block), self.tol, *static
                )
                check_results(np.asarray(results)[:n_block], index * size)
                return (), jax.tree.map(lambda a: np.asarray(a)[None], values), {}

            values, _ = run_blocks(
                advance,
                (),
                plan_blocks(0, total, size),
                folder=folder,
                resume=self.resume,
                run=describe(
                    shared._asdict(),
                    model="lca bootstrap",
                    seed=seed,
                    n_draws=total,
                    n_points=int(n),
                    block_size=size,
                    max_steps=self.max_steps,
                    tol=self.tol,
                ),
                label="bootstrap",
                progress=progress,
            )
        return Draws(values, {}, {"method": "bootstrap", "seed": seed})


def check_results(results: np.ndarray, first: int) -> None:
    """Raise RuntimeError if a refit did not converge."""
    for code in (Result.NONFINITE, Result.DECREASED, Result.MAX_STEPS):
        if np.any(results == code):
            raise RuntimeError(
                f"bootstrap: {int(np.sum(results == code))} of the {len(results)} "
                f"refits from draw {first} on did not converge ({code.name}): "
                f"{REMEDY[code]}."
            )


@partial(jax.jit, static_argnums=(6, 7, 8))
def _block(
    shared: Shared,
    seed: Array | np.integer,
    n: Array,
    first: Array,
    count: Array,
    tol: Scalar,
    n_padded: int,
    size: int,
    max_steps: int,
) -> tuple[Arrays, Array]:
    """Make draws first, …, first + count - 1 in arrays of length ``size``."""
    dtype, key = shared.learning_rate.dtype, jax.random.key(seed)

    def draw(k: Array) -> tuple[Arrays, Array]:
        u = dirichlet_weights(jax.random.fold_in(key, k), n, n_padded, dtype)
        fit = refit(shared, u, tol, max_steps)
        return TARGET.functionals(fit.params, None), fit.result

    def fill(k: Array, draws: PyTree) -> PyTree:
        row = draw(first + k)
        return jax.tree.map(lambda array, new: array.at[k].set(new), draws, row)

    shapes = jax.eval_shape(draw, first)
    empty = jax.tree.map(lambda s: jnp.zeros((size, *s.shape), s.dtype), shapes)
    return jax.lax.fori_loop(0, count, fill, empty)
