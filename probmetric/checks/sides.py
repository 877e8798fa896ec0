"""Sides that many checks share: NumPyro's density, its draws, the falls of an EM."""

from collections.abc import Callable, Mapping

import jax
import numpy as np
import xarray as xr
from numpyro.infer.util import log_density

from probmetric.checks.check import Values
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Attribute,
    Draws,
    Kwargs,
    Model,
    Posterior,
    model_target,
)
from probmetric.inference.solvers.em import run_em
from probmetric.typing import Array, Scalar


def density_of(
    model: Model, args: Args, options: Kwargs
) -> Callable[[Mapping[str, Array]], tuple[Array, Arrays]]:
    """Return NumPyro's log density and its gradient, as a function of the sites."""

    def density(sites: Mapping[str, Array]) -> Scalar:
        return log_density(model, args, dict(options), dict(sites))[0]

    return jax.jit(jax.value_and_grad(density))


def sampled(
    model: Model,
    args: Args,
    options: Kwargs | None = None,
    *,
    seed: int,
    n_draws: int,
    sampler: NUTS = NUTS(),  # noqa: B008
) -> Draws:
    """Sample a NumPyro model by NUTS, told nothing of where its posterior lies."""
    with jax.enable_x64(True):
        target, data, shapes = model_target(model, args, dict(options or {}))
        origin = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        posterior = Posterior(target, data, origin)
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


def largest_fall[P, D](
    step: Callable[[P, D], tuple[P, Scalar]], start: P, data: D, *, max_steps: int
) -> Values:
    """Return how far an EM's objective ever falls in a step, relative to its end."""
    found = run_em(step, start, data, max_steps=max_steps, tol=0.0)
    trace = np.asarray(found.trace[: int(found.n_steps)])
    fall = np.max(np.maximum(-np.diff(trace), 0.0))
    return {"largest fall": fall / np.abs(trace[-1])}
