"""Incremental EM for the two-stage mixture, from chunks of single instances.

A state stores the expected sums over all chunks, Eq. (2) of ``mixture.em``, about the
origin. The sums of a chunk are computed once, under the parameters before the chunk is
added. One M-step from all sums gives the next parameters.

References
----------
Neal and Hinton, "A view of the EM algorithm that justifies incremental, sparse, and
other variants", 1998.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from probmetric.inference.mixture.em import e_step, m_step, recentre
from probmetric.inference.mixture.start import mixture_data
from probmetric.inference.mixture.statistics import MixtureParams, MixtureStats
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out

_e_step = numpy_in_numpy_out(jax.jit(e_step))


class State(NamedTuple):
    """Mixture parameters, sums over all chunks, and prior."""

    params: MixtureParams
    sums: MixtureStats
    prior: TwoStagePrior | None


def _sums(params: MixtureParams, X: Float[np.ndarray, "n d"]) -> MixtureStats:
    stats = _e_step(params, mixture_data(X))
    return recentre(stats, params.means, np.zeros_like(params.means))


def start(
    params: MixtureParams, X: Float[np.ndarray, "n d"], prior: TwoStagePrior | None
) -> State:
    """Make the state after the first chunk, from parameters fitted to this chunk."""
    return State(params, _sums(params, X), prior)


def add(state: State, X: Float[np.ndarray, "n d"]) -> State:
    """Add the sums of a chunk, and run one M-step; a repeated chunk counts again."""
    sums = jax.tree.map(np.add, state.sums, _sums(state.params, X))
    params = m_step(sums, np.zeros_like(state.params.means), state.prior)
    return state._replace(params=params, sums=sums)
