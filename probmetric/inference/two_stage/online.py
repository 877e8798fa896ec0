"""Incremental EM for the two-stage mixture, from chunks of single instances.

A state stores the expected sums over all chunks, Eq. (2) of ``mixture.em``, about the
origin. The sums of a chunk are computed under the parameters at the time when the chunk
was added. One M-step of the total gives the next parameters. Sums under the same
parameters add up exactly, in any order. The sums of two states that started from the
same chunk also add up (``merge``).

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
    """Mixture parameters, sums over all chunks and over the first one, and prior."""

    params: MixtureParams
    sums: MixtureStats
    first: MixtureStats
    prior: TwoStagePrior | None


def _sums(params: MixtureParams, X: Float[np.ndarray, "n d"]) -> MixtureStats:
    """Compute the expected sums of rows about the origin."""
    stats = _e_step(params, mixture_data(X))
    return recentre(stats, params.means, np.zeros_like(params.means))


def start(
    params: MixtureParams, X: Float[np.ndarray, "n d"], prior: TwoStagePrior | None
) -> State:
    """Make the state after the first chunk from parameters fitted to that chunk.

    Parameters
    ----------
    params : MixtureParams
    X : array of shape (n, d)
        The first chunk, without missing entries.
    prior : TwoStagePrior or None
        Prior of every later M-step.
    """
    sums = _sums(params, X)
    return State(params, sums, sums, prior)


def add(state: State, X: Float[np.ndarray, "n d"]) -> State:
    """Add the sums of a chunk under the current parameters, and run one M-step.

    A chunk that is added twice counts twice.
    """
    return _maximized(state, _sums(state.params, X))


def merge(state: State, other: State) -> State:
    """Add the chunks of another state that started from the same first chunk.

    Raises
    ------
    ValueError
        If the states did not start from the same chunk.
    """
    if not np.array_equal(state.first.first, other.first.first):
        raise ValueError(
            "other must be a copy of this model after its first chunk, got a model "
            "with another first chunk. Copy the model after the first chunk, and "
            "continue both."
        )
    return _maximized(state, jax.tree.map(np.subtract, other.sums, other.first))


def _maximized(state: State, more: MixtureStats) -> State:
    sums = jax.tree.map(np.add, state.sums, more)
    params = m_step(sums, np.zeros_like(state.params.means), state.prior)
    return state._replace(params=params, sums=sums)
