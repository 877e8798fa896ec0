"""DCA-GM's Laplace approximation against NUTS, on what is identified.

Both of the posterior of A with the mixtures at their mode (``dca_gm.draws``). It is
an approximation and is never called agreement: the distance of its means in posterior
standard deviations, and of its log standard deviations, is held to a bound.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Labelled
from probmetric.inference.dca_gm.draws import TARGET_A, prepare
from probmetric.inference.dca_gm.fit import Conditioned
from probmetric.inference.sampling.laplace import Laplace, laplace_fit
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior

__all__ = ["LAPLACE"]

N_QUERIES = 5


def _prepared(problem: Problem) -> tuple[Any, Any]:
    data: Labelled = problem.data  # pyright: ignore[reportAssignmentType]
    given = Conditioned(data, problem.prior)
    queries = jnp.asarray(data.X[:N_QUERIES])
    position, asked = prepare(problem.params, given, queries=queries)
    return position.A, asked


def _dataset(draws: Any) -> xr.Dataset:
    d = draws.values["J"].shape[-1]
    upper = np.triu_indices(d)
    logs = np.log(draws.values["class_probability"])
    values = {
        "J": draws.values["J"][..., upper[0], upper[1]],
        # Log ratios to their mean: a probability near 0 or 1, or the log of one near 1,
        # is too skewed for a distance in its own standard deviation.
        "log ratio of p(c|x)": logs - logs.mean(-1, keepdims=True),
    }
    table = {
        name: (("chain", "draw", *(f"{name} {i}" for i in range(v.ndim - 2))), v)
        for name, v in values.items()
    }
    return xr.Dataset(table, attrs={"khat": draws.attributes.get("khat", np.nan)})


def _nuts(problem: Problem) -> xr.Dataset:
    with jax.enable_x64(True):
        position, data = _prepared(problem)
        start = laplace_fit(TARGET_A, data, position)
        posterior = Posterior(TARGET_A, data, start)
        return _dataset(NUTS().draw(posterior, seed=1, progress=False))


def _laplace(problem: Problem, *, narrow: float = 1.0) -> xr.Dataset:
    with jax.enable_x64(True):
        position, data = _prepared(problem)
        start = laplace_fit(TARGET_A, data, position)
        start = start._replace(factor=narrow * start.factor)
        return _dataset(Laplace().draw(Posterior(TARGET_A, data, start), seed=2))


LAPLACE = Check(
    name="Laplace is near NUTS on J and p(c|x), mixtures held",
    kind="approximate",
    reference=_nuts,
    estimate=_laplace,
    controls={"a tenth of the width": lambda p: _laplace(p, narrow=0.1)},
    bound=0.5,
    layer="sampling",
    slow=True,
)
"""The bound was set from runs on the toy, where the largest distance is below it."""
