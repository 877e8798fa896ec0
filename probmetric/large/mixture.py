"""EM of the normal mixture for data on disk: one pass per step.

The statistics of disjoint blocks, Eq. (2) of ``mixture.em``, are added. The M-step
from their sum equals the M-step of rows in memory. EM starts from k-means++ of the
``SAMPLE`` rows with the smallest hash of (seed, row number), or of all rows if there
are fewer.
"""

from functools import partial
from typing import NamedTuple

import jax

from probmetric.data.scaling import Scaler
from probmetric.inference.mixture.em import MixtureData, e_step, m_step
from probmetric.inference.mixture.prior import log_prior
from probmetric.inference.mixture.start import best_of, start_mixture
from probmetric.inference.mixture.statistics import MixtureParams, MixtureStats
from probmetric.inference.solvers.em import run_em_passes
from probmetric.inference.solvers.result import Fit
from probmetric.large.reduce import Reduction, total
from probmetric.large.source import Source, sample_rows
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar


class Given(NamedTuple):
    """Parameters, prior and scaler of a step of EM."""

    params: MixtureParams
    prior: TwoStagePrior | None = None
    scaler: Scaler | None = None


def _step(state: Given, X: Array, y: Array, w: Array) -> MixtureStats:
    return e_step(state.params, MixtureData(X, w), state.scaler)


@numpy_in_numpy_out
@jax.jit
def _finish(state: Given, stats: MixtureStats) -> tuple[MixtureParams, Scalar]:
    """Compute the next parameters, and the log joint density before the step."""
    params, prior, _ = state
    objective = stats.log_likelihood
    if prior is not None:
        objective = objective + log_prior(*params, prior)
    return m_step(stats, params.means, prior), objective


MIXTURE = Reduction(_step, _finish)
"""One step of EM: statistics about the current means, as in memory."""


def fit_source(
    source: Source,
    scaler: Scaler,
    *,
    n_components: int,
    prior: TwoStagePrior | None,
    n_starts: int = 1,
    seed: int = 0,
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Fit the normal mixture to the standardized rows of a dataset by EM.

    A scale of infinity makes a column 0. The fit takes one pass per step, one pass for
    the objective, and one for the sample of the k-means++ starts. The result is the
    best local optimum of the starts.
    """

    def step(params: MixtureParams) -> tuple[MixtureParams, Scalar]:
        state = Given(params, prior, scaler)
        stats = total(MIXTURE, state, source)
        return MIXTURE.finish(state, stats)

    X, _, w = sample_rows(source, seed=seed)
    X = (X - scaler.mean) / scaler.scale
    starts = [
        start_mixture(X, w, n_components, seed=s, prior=prior)
        for s in range(seed, seed + n_starts)
    ]
    run = partial(run_em_passes, step, max_steps=max_steps, tol=tol)
    return best_of([run(start) for start in starts])
