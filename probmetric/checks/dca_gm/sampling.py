"""DCA-GM's approximations compared with NUTS, on identified quantities.

All methods sample the posterior of the projection A, with the mixtures fixed at their
mode (``dca_gm.draws``). The differences of means (in posterior sd) and of log sd must
stay within a bound.
"""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.claims import near
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.draws import TARGET_A, prepare
from probmetric.inference.dca_gm.fit import Conditioned
from probmetric.inference.sampling.laplace import Laplace, laplace_fit
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior

N_QUERIES = 5


def _posterior(problem: Problem[Labeled]) -> Posterior:
    conditioned = Conditioned(problem.data, problem.prior)
    queries = jnp.asarray(problem.data.X[:N_QUERIES])
    position, args = prepare(problem.params, conditioned, queries=queries)
    return Posterior(TARGET_A, args, laplace_fit(TARGET_A, args, position.A))


def _summaries(draws: Draws) -> xr.Dataset:
    upper = np.triu_indices(draws.values["J"].shape[-1])
    logs = np.log(draws.values["class_probability"])
    values = {
        "J": draws.values["J"][..., upper[0], upper[1]],
        # Probabilities near 0 or 1 are too skewed for distances in posterior sd.
        "log ratio of p(c|x)": logs - logs.mean(-1, keepdims=True),
    }
    return as_dataset(values, draws.attributes)


def _nuts(problem: Problem[Labeled]) -> xr.Dataset:
    with jax.enable_x64(True):
        return _summaries(NUTS().draw(_posterior(problem), seed=1, progress=False))


def _laplace(problem: Problem[Labeled]) -> xr.Dataset:
    with jax.enable_x64(True):
        return _summaries(Laplace().draw(_posterior(problem), seed=2))


def _svi(problem: Problem[Labeled]) -> xr.Dataset:
    with jax.enable_x64(True):
        return _summaries(SVI().draw(_posterior(problem), seed=3, progress=False))


CHECKS = (
    near(
        "Laplace is near NUTS on J and p(c|x), mixtures fixed",
        _nuts,
        _laplace,
        bound=0.5,
        slow=True,
    ),
    near(
        "SVI is near NUTS on J and p(c|x), mixtures fixed",
        _nuts,
        _svi,
        wide=2.0,
        bound=0.3,
        slow=True,
    ),
)
