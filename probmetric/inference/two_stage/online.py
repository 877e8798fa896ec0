"""The two-stage mixture learned in chunks of single instances (incremental EM).

A state has the expected sums, Eq. (2) of ``mixture.em``, about the origin, over all
chunks, each under the parameters of its time. One M-step of these sums gives the next
parameters. Sums of chunks under the same parameters add up exactly, in any order. So do
states that started from the same chunk (``merge``).

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
    """The mixture, the sums over all chunks and over the first, and the prior."""

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
    """Make the state after the first chunk, to which ``params`` were fitted.

    Parameters
    ----------
    params : MixtureParams
    X : array of shape (n, d)
        The first chunk, without missing entries.
    prior : TwoStagePrior or None
        Used in every further M-step.
    """
    sums = _sums(params, X)
    return State(params, sums, sums, prior)


def add(state: State, X: Float[np.ndarray, "n d"]) -> State:
    """Add the sums of a chunk under the current parameters, and maximize once.

    A chunk that is added twice counts twice.
    """
    return _maximized(state, _sums(state.params, X))


def merge(state: State, other: State) -> State:
    """Add what another state has learned since both started from one chunk.

    Raises
    ------
    ValueError
        If the states did not start from the same chunk.
    """
    if not np.array_equal(state.first.first, other.first.first):
        raise ValueError(
            "other must be a copy of this model after its first chunk, got another "
            "start. Copy the model after the first chunk, and continue both."
        )
    return _maximized(state, jax.tree.map(np.subtract, other.sums, other.first))


def _maximized(state: State, more: MixtureStats) -> State:
    sums = jax.tree.map(np.add, state.sums, more)
    params = m_step(sums, np.zeros_like(state.params.means), state.prior)
    return state._replace(params=params, sums=sums)
