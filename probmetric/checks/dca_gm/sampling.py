"""DCA-GM's Laplace approximation against NUTS, on what is identified.

Both of the posterior of A with the mixtures at their mode (``dca_gm.draws``). It is
an approximation and is never called agreement: the distance of its means in posterior
standard deviations, and of its log standard deviations, is held to a bound.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, near_sampling
from probmetric.checks.sides import as_dataset, stretched
from probmetric.data.containers import Labelled
from probmetric.inference.dca_gm.draws import TARGET_A, prepare
from probmetric.inference.dca_gm.fit import Conditioned
from probmetric.inference.sampling.laplace import Laplace, laplace_fit
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior

N_QUERIES = 5


def _posterior(problem: Problem[Labelled]) -> Posterior:
    """Return the posterior of A, with its Laplace approximation as the start."""
    given = Conditioned(problem.data, problem.prior)
    queries = jnp.asarray(problem.data.X[:N_QUERIES])
    position, asked = prepare(problem.params, given, queries=queries)
    return Posterior(TARGET_A, asked, laplace_fit(TARGET_A, asked, position.A))


def _summaries(draws: Draws) -> xr.Dataset:
    upper = np.triu_indices(draws.values["J"].shape[-1])
    logs = np.log(draws.values["class_probability"])
    values = {
        "J": draws.values["J"][..., upper[0], upper[1]],
        # Log ratios to their mean: a probability near 0 or 1, or the log of one near 1,
        # is too skewed for a distance in its own standard deviation.
        "log ratio of p(c|x)": logs - logs.mean(-1, keepdims=True),
    }
    return as_dataset(values, draws.attributes)


def _nuts(problem: Problem[Labelled]) -> xr.Dataset:
    with jax.enable_x64(True):
        return _summaries(NUTS().draw(_posterior(problem), seed=1, progress=False))


def _laplace(problem: Problem[Labelled], narrow: float = 1.0) -> xr.Dataset:
    with jax.enable_x64(True):
        found = _posterior(problem)
        start = found.start._replace(factor=narrow * found.start.factor)
        return _summaries(Laplace().draw(found._replace(start=start), seed=2))


@stretched
def _svi(problem: Problem[Labelled]) -> xr.Dataset:
    """Draw from a full-rank guide of the same."""
    with jax.enable_x64(True):
        return _summaries(SVI().draw(_posterior(problem), seed=3, progress=False))


CHECKS = (
    near_sampling(
        "Laplace is near NUTS on J and p(c|x), mixtures held",
        reference=_nuts,
        estimate=_laplace,
        controls={"a tenth of the width": partial(_laplace, narrow=0.1)},
        # Set from runs on the toy, where the largest distance is below it.
        bound=0.5,
        slow=True,
    ),
    near_sampling(
        "SVI is near NUTS on J and p(c|x), mixtures held",
        reference=_nuts,
        estimate=_svi,
        controls={"twice too wide": partial(_svi, wide=2.0)},
        bound=0.3,
        slow=True,
    ),
)
