"""Sides that many checks share: NumPyro's density, its draws, the falls of an EM."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro.infer.util import log_density

from probmetric.checks.check import Values
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Draws, Posterior, model_target
from probmetric.inference.solvers.em import run_em


def density_of(
    model: Callable[..., None], args: tuple[Any, ...], options: Mapping[str, Any]
) -> Callable[[dict[str, Any]], tuple[Any, dict[str, Any]]]:
    """Return NumPyro's log density and its gradient, as a function of the sites."""

    def density(sites: dict[str, Any]) -> Any:
        return log_density(model, args, dict(options), sites)[0]

    return jax.jit(jax.value_and_grad(density))


def sampled(
    model: Callable[..., None],
    args: tuple[Any, ...],
    options: Mapping[str, Any] | None = None,
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
    values: Mapping[str, Any], attrs: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Return draws by name, of shape (n_chains, n_draws, ...), as a Dataset."""
    columns = {
        name: (("chain", "draw", *(f"{name} {k}" for k in range(np.ndim(v) - 2))), v)
        for name, v in values.items()
    }
    return xr.Dataset(columns, attrs=attrs)


def largest_fall(step: Any, start: Any, data: Any, *, max_steps: int) -> Values:
    """Return how far an EM's objective ever falls in a step, relative to its end."""
    found = run_em(step, start, data, max_steps=max_steps, tol=0.0)
    trace = np.asarray(found.trace[: int(found.n_steps)])
    fall = np.max(np.maximum(-np.diff(trace), 0.0))
    return {"largest fall": fall / np.abs(trace[-1])}
