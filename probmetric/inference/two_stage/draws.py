"""Draws of the two-stage mixture about its EM solution, all that is latent summed out.

Every method starts from the Laplace approximation found from the EM solution: one of
the k! equal modes. Reported are label-invariant functionals,
``models.two_stage.invariant``; R-hat and intervals belong on these alone, because
components carry no order and chains and draws disagree about their names.

To *look* at components, ``relabel`` permutes each draw to the reference (the EM
solution) by the assignment that minimises the sum over components of the squared
distance of means,

    (μ - μ_ref)ᵀ S_ref⁻¹ (μ - μ_ref),   S = W + B.                                (1)
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from probmetric.inference.sampling.laplace import laplace, laplace_fit
from probmetric.inference.sampling.nuts import nuts
from probmetric.inference.sampling.svi import svi, target_model
from probmetric.inference.sampling.target import (
    Draws,
    Gaussian,
    Target,
    check_arguments,
    gaussian_draw,
)
from probmetric.inference.sampling.warnings import warn_of_trouble
from probmetric.inference.two_stage.target import (
    TARGET,
    Posterior,
    log_units,
    pack,
    position,
)
from probmetric.models.two_stage import TwoStageParams

__all__ = ["METHODS", "draw", "pointwise", "relabel"]


def relabel(draws: TwoStageParams, reference: TwoStageParams) -> TwoStageParams:
    """Permute the components of every draw to those of a reference, by Eq. (1).

    Parameters
    ----------
    draws : TwoStageParams
        Arrays with one leading draw axis: weights (s, k), means (s, k, d), ...
    reference : TwoStageParams
        Without that axis.

    Returns
    -------
    TwoStageParams
        As ``draws``. For display only: where components overlap, names are forced.
    """
    total = np.asarray(reference.within) + np.asarray(reference.between)
    L = np.linalg.cholesky(total)
    off = np.asarray(draws.means)[:, :, None] - np.asarray(reference.means)
    z = np.linalg.solve(L, off[..., None])[..., 0]  # (s, k of draw, k of reference, d)
    cost = np.sum(z**2, -1)
    order = np.stack([linear_sum_assignment(c.T)[1] for c in cost])

    def permute(a: Any) -> np.ndarray:
        values = np.asarray(a)
        index = order.reshape(*order.shape, *([1] * (values.ndim - 2)))
        return np.take_along_axis(values, index, 1)

    return TwoStageParams(*(permute(a) for a in draws))


METHODS = {"nuts": nuts, "laplace": laplace, "svi": svi}
OWN = {
    *("target", "model", "data", "args", "kwargs", "full_kwargs", "start", "seed"),
    *("n_draws", "n_chains", "dtype", "progress", "warn"),
}
"""Arguments that ``draw`` fills in itself."""


def draw(
    posterior: Posterior,
    method: str,
    *,
    seed: int,
    n_draws: int = 1000,
    n_chains: int = 4,
    sampler: dict[str, Any] | None = None,
    progress: bool | None = None,
) -> Draws:
    """Draw c, μ, W, B (relabelled), the invariants and a sampled α.

    Parameters
    ----------
    posterior : Posterior
    method : {"nuts", "laplace", "svi"}
        NUTS starts about the Laplace approximation, with its covariance as inverse
        mass matrix; the variational guide is fitted in coordinates that it whitens.
    seed : int
    n_draws, n_chains : int, defaults 1000 and 4
        The approximations draw ``n_chains * n_draws`` in one chain.
    sampler : dict, optional
        Further arguments of the method's function, such as ``n_warmup``.
    progress : bool, optional

    Raises
    ------
    ValueError
        Where the posterior has no Laplace approximation at the EM solution; unknown
        names in ``sampler``.
    """
    extra: dict[str, Any] = dict(sampler or {})
    check_arguments(METHODS[method], method, extra, OWN)
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, pack(posterior))
        start = laplace_fit(TARGET, data, position(posterior))
        total = n_draws * n_chains
        if method == "laplace":
            draws = laplace(
                TARGET, data, start=start, seed=seed, n_draws=total, **extra
            )
        elif method == "svi":
            extra = {"seed": seed, "n_draws": total, "progress": progress, **extra}
            draws = svi(_whitened(start), (data,), {}, **extra)
        else:
            sizes = {"n_draws": n_draws, "n_chains": n_chains, "progress": progress}
            extra = {"seed": seed, "warn": False, **sizes, **extra}
            draws = nuts(TARGET, data, start=start, **extra)
            names = [n for n in draws.values if n not in TwoStageParams._fields]
            known = {name: draws.values[name] for name in names}
            warn_of_trouble(known, draws.statistics)
    return draws._replace(values={**draws.values, **_relabelled(draws, posterior)})


def _whitened(start: Gaussian) -> Any:
    """Return the target as a model of coordinates in which ``start`` is N(0, I)."""

    def log_density(noise: Any, data: Any) -> Any:
        return TARGET.log_density(gaussian_draw(start, noise), data)

    def functionals(noise: Any, data: Any) -> dict[str, Any]:
        return TARGET.functionals(gaussian_draw(start, noise), data)

    target = Target(log_density, functionals)
    return target_model(target, jnp.zeros(start.factor.shape[0]))


def _relabelled(draws: Draws, posterior: Posterior) -> dict[str, Any]:
    params = [np.asarray(draws.values[name]) for name in TwoStageParams._fields]
    flat = TwoStageParams(*(a.reshape(-1, *a.shape[2:]) for a in params))
    named = relabel(flat, posterior.params)
    pairs = zip(TwoStageParams._fields, named, params, strict=True)
    return {name: a.reshape(like.shape) for name, a, like in pairs}


_units_of_draws = jax.jit(
    lambda params, groups: jax.lax.map(lambda p: log_units(p, groups), params)
)


def pointwise(posterior: Posterior, draws: Draws) -> Float[np.ndarray, "chain draw G"]:
    """Return log p(X_i) of every source under every draw, sources by sorted code."""
    params = [np.asarray(draws.values[name]) for name in TwoStageParams._fields]
    flat = TwoStageParams(*(a.reshape(-1, *a.shape[2:]) for a in params))
    with jax.enable_x64(True):
        log_p = np.asarray(_units_of_draws(flat, pack(posterior)[0]))
    return log_p.reshape(*params[0].shape[:2], -1)
