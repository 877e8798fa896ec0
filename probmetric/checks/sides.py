"""Sides that many checks share: NumPyro's density and draws."""

from collections.abc import Callable, Mapping
from functools import wraps

import jax
import numpy as np
import numpyro
import xarray as xr
from jaxtyping import Float
from numpyro.infer.util import log_density

from probmetric.checks.check import Problem
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Attribute,
    Call,
    Draws,
    Kwargs,
    Model,
    Posterior,
    model_target,
)
from probmetric.typing import Array, Scalar


def density_of(
    model: Model, args: Args, options: Kwargs
) -> Callable[[Mapping[str, Array]], tuple[Array, Arrays]]:
    """Return NumPyro's log density and gradient (one program for all claims)."""
    call = Call(model, args, options)
    return lambda sites: _value_and_gradient(dict(sites), call)


@jax.jit
def _value_and_gradient(sites: Arrays, call: Call) -> tuple[Array, Arrays]:
    def density(sites: Arrays) -> Scalar:
        return log_density(call.model, call.args, dict(call.kwargs), sites)[0]

    return jax.value_and_grad(density)(sites)


def sampled(
    model: Model,
    args: Args,
    options: Kwargs | None = None,
    *,
    seed: int,
    n_draws: int,
    sampler: NUTS = NUTS(),  # noqa: B008
) -> Draws:
    """Sample with NUTS from the default initialization (no warm start)."""
    with jax.enable_x64(True):
        target, call, shapes = model_target(model, args, options or {})
        origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        posterior = Posterior(target, call, origin)
        return sampler.draw(posterior, seed=seed, n_draws=n_draws, progress=False)


def as_dataset(
    values: Mapping[str, Array], attrs: Mapping[str, Attribute] | None = None
) -> xr.Dataset:
    """Return draws by name, of shape (n_chains, n_draws, ...), as a Dataset."""
    columns = {
        name: (("chain", "draw", *(f"{name} {k}" for k in range(np.ndim(v) - 2))), v)
        for name, v in values.items()
    }
    return xr.Dataset(columns, attrs=attrs)


def stretched[D](
    draws: Callable[[Problem[D]], xr.Dataset],
) -> Callable[..., xr.Dataset]:
    """Return draws of a problem, stretched about their mean by ``wide``, and cached."""
    last: list[tuple[Problem[D], xr.Dataset]] = []

    @wraps(draws)
    def widened(problem: Problem[D], wide: float = 1.0) -> xr.Dataset:
        if not last or last[0][0] is not problem:
            last[:] = [(problem, draws(problem))]
        cached = last[0][1]
        middle = cached.mean(("chain", "draw"))
        return (middle + wide * (cached - middle)).assign_attrs(cached.attrs)

    return widened


def inverse(A: Float[np.ndarray, "*n d d"]) -> Float[np.ndarray, "*n d d"]:
    """Invert small, well-conditioned matrices of a reference."""
    return np.linalg.solve(A, np.broadcast_to(np.eye(A.shape[-1]), A.shape))
