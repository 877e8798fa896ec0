"""The two-stage mixture learned in parts, from single instances (incremental EM).

A state holds the expected sums, Eq. (2) of ``mixture.em``, about the origin, over all
parts seen, each taken under the parameters of its time; one M-step of these sums gives
the next parameters. Sums of parts taken under the same parameters add up exactly, in
any order: so do states that began as one (``merge``).

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
    """The mixture, the sums over all parts and over the first alone, and the prior."""

    params: MixtureParams
    sums: MixtureStats
    first: MixtureStats
    prior: TwoStagePrior | None


def _sums(params: MixtureParams, X: Float[np.ndarray, "n d"]) -> MixtureStats:
    """Return the expected sums of rows about the origin."""
    stats = _e_step(params, mixture_data(X))
    return recentre(stats, params.means, np.zeros_like(params.means))


def start(
    params: MixtureParams, X: Float[np.ndarray, "n d"], prior: TwoStagePrior | None
) -> State:
    """Return the state after a first part, to which ``params`` were fitted.

    Parameters
    ----------
    params : MixtureParams
        Kept as they are.
    X : array of shape (n, d)
        The first part; complete rows.
    prior : TwoStagePrior or None
        Of every further M-step.
    """
    sums = _sums(params, X)
    return State(params, sums, sums, prior)


def add(state: State, X: Float[np.ndarray, "n d"]) -> State:
    """Add a part's sums under the present parameters, and maximise once.

    A part that is passed again counts again.
    """
    return _maximised(state, _sums(state.params, X))


def merge(state: State, other: State) -> State:
    """Add what another state has learned since both began from one part.

    Raises
    ------
    ValueError
        When they did not begin alike.
    """
    if not np.array_equal(state.first.first, other.first.first):
        raise ValueError(
            "other: expected what began as a copy of this one after its first part, "
            "got what began otherwise"
        )
    return _maximised(state, jax.tree.map(np.subtract, other.sums, other.first))


def _maximised(state: State, more: MixtureStats) -> State:
    sums = jax.tree.map(np.add, state.sums, more)
    params = m_step(sums, np.zeros_like(state.params.means), state.prior)
    return state._replace(params=params, sums=sums)
