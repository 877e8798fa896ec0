"""``Laplace``: independent draws from a Gaussian at the mode, with a k-hat.

Let u be the mode and H the Hessian of the log density at u. The approximation is N(u,
(-H)⁻¹), which requires a positive definite -H. A posterior that is flat along a
direction (rotations of a map W under a flat prior) has no Laplace approximation. k-hat
is the Pareto shape of the importance weights p(u)/q(u).

References
----------
Vehtari et al., "Pareto smoothed importance sampling", JMLR 2024.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree

from probmetric.arguments import store_counts
from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.target import (
    Arrays,
    Draws,
    Gaussian,
    Posterior,
    Seed,
    Target,
    as_draws,
    cast,
    counts,
    gaussian_draw,
    is_double,
    report,
)
from probmetric.inference.solvers.lbfgs import lbfgs
from probmetric.inference.solvers.result import REMEDY, Result
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar

WHOLE, BLOCK = 256, 64
"""Largest Hessian computed at once; a larger Hessian is computed in row blocks."""


# It runs once, so a shorter compilation is worth more than faster code.
@partial(jax.jit, static_argnames="target", compiler_options=COMPILED_SOONEST)
def _curvature(
    target: Target, mode: PyTree, data: PyTree
) -> tuple[Float[Array, "k"], Float[Array, "k k"]]:
    """Return the eigenvalues, ascending, and eigenvectors of -H."""
    flat, unravel = ravel_pytree(mode)

    def density(x: jax.Array) -> Scalar:
        return target.log_density(unravel(x), data)

    if flat.size <= WHOLE:
        H = jax.hessian(density)(flat)
    else:  # All rows at once would need memory for as many evaluations.

        def row(e: Array) -> Array:
            return jax.jvp(jax.grad(density), (flat,), (e,))[1]

        H = jax.lax.map(row, jnp.eye(flat.size, dtype=flat.dtype), batch_size=BLOCK)
    return jnp.linalg.eigh(-(H + H.T) / 2)


@partial(jax.jit, static_argnames=("target", "n_draws"))
def _draw(
    target: Target, gaussian: Gaussian, seed: Seed, n_draws: int, data: PyTree
) -> tuple[Arrays, Float[Array, "s"]]:
    """Return functionals of independent draws and log p - log q, up to a constant."""
    m = gaussian.factor.shape[1]
    shape, dtype = (n_draws, m), gaussian.factor.dtype
    noise = jax.random.normal(jax.random.key(seed), shape, dtype)

    def draw(e: Float[Array, "m"]) -> tuple[Arrays, Array]:
        position = gaussian_draw(gaussian, e)
        # log q = -‖e‖²/2 up to a constant. For a factor with fewer columns than rows,
        # both densities are densities on mean + span(factor).
        log_weight = target.log_density(position, data) + 0.5 * jnp.sum(e**2)
        return report(target, position, data), log_weight

    return jax.lax.map(draw, noise, batch_size=min(n_draws, 100))


@numpy_in_numpy_out
def laplace_fit(
    target: Target, data: PyTree, start: PyTree, *, max_steps: int = 2000
) -> Gaussian:
    """Find a local mode by L-BFGS, and return the Gaussian defined by the Hessian.

    Raises ValueError if L-BFGS does not converge, or H is not negative definite.
    """
    fit = lbfgs(target.log_density, start, data, max_steps=max_steps)
    result = Result(int(fit.result))
    if result is not Result.CONVERGED:
        raise ValueError(
            f"start: L-BFGS found no mode of the posterior ({result.name} after "
            f"{int(fit.n_steps)} steps); {REMEDY[result]}"
        )
    eigenvalues, vectors = map(np.asarray, _curvature(target, fit.params, data))
    floor = len(eigenvalues) * np.finfo(eigenvalues.dtype).eps * eigenvalues[-1]
    if not eigenvalues[0] > floor:
        raise ValueError(
            "model: the Hessian H of the log posterior must be negative definite at "
            f"the mode, got eigenvalues of -H from {eigenvalues[0]:.3g} to "
            f"{eigenvalues[-1]:.3g}. Use a proper prior, or sample with method='nuts'."
        )
    return Gaussian(fit.params, vectors / np.sqrt(eigenvalues))


@dataclass(frozen=True)
class Laplace:
    """Independent draws from a Gaussian approximation at the posterior mode.

    Parameters
    ----------
    max_steps : int, default=2000
        Maximum number of L-BFGS iterations in the search for the mode. Not used if the
        Gaussian is given as ``start`` of ``sample``.
    khat : bool, default=True
        Whether to compute k-hat, a diagnostic of the approximation. If k-hat is below
        0.7, the draws are close to the exact posterior, and importance weights can
        correct the difference. By default, ``posterior_metric("prediction")`` of a
        learner does not compute k-hat.

    Examples
    --------
    >>> Laplace(max_steps=500).max_steps
    500
    """

    max_steps: int = 2000
    khat: bool = True

    def __post_init__(self) -> None:
        store_counts(self, "max_steps")

    def draw(
        self,
        posterior: Posterior,
        *,
        seed: int,
        n_draws: int = 1000,
        n_chains: int | None = None,
        dtype: str = "float64",
        progress: bool | None = None,
    ) -> Draws:
        """Draw ``n_chains * n_draws`` draws in one chain.

        ``posterior.start`` is the Gaussian to draw from, or a position at which the
        search for the mode starts. The diagnostic k-hat is NaN for fewer than 100
        draws.
        """
        n_draws, n_chains = counts(n_draws, n_chains)
        target, data, start = posterior
        total = n_draws * n_chains
        with jax.enable_x64(is_double(dtype)):
            data, start = cast(data, dtype), cast(start, dtype)
            if not isinstance(start, Gaussian):
                start = laplace_fit(target, data, start, max_steps=self.max_steps)
            values, weight = _draw(target, start, np.int64(seed), total, data)
            values = jax.tree.map(lambda a: np.asarray(a)[None], values)
        attributes: dict[str, Any] = {"method": "laplace", "seed": seed}
        if self.khat:
            few = total < 100
            attributes["khat"] = np.nan if few else pareto_khat(np.asarray(weight))
        return as_draws(values, {}, attributes)


def pareto_khat(log_weight: np.ndarray) -> float:
    """Return the Pareto shape of importance weights, given their logs (n,).

    The result is infinite if a weight is infinite or NaN, because the approximation
    misses part of the target. The result is 0 if all weights are equal up to rounding.
    """
    # ArviZ's statistics take a second to import and only approximations need them.
    from arviz_stats.base.array import array_stats

    log_weight = np.asarray(log_weight, float)
    if np.isnan(log_weight).any() or np.isposinf(log_weight).any():
        return float("inf")
    finite = np.where(np.isneginf(log_weight), -1e300, log_weight)
    if np.ptp(finite) <= 1e-12:
        return 0.0
    # psislw is written for leave-one-out and takes the negative log weight.
    return float(array_stats.psislw(finite.max() - finite)[1])
