"""The ordered sum of statistics over bins that several processes store.

The number of bins does not depend on the number of processes. Each process has
consecutive bins: process r of ``size`` has the bins b with b · size // bins = r
(``large.source.share``). One gather sends the statistics of all bins to every process.
Every process then adds them from the left in the order of the bins. The total
therefore has the same bits on 1, 2 or 4 processes. A process without bins must take
part too. The traffic is bins × the size of the statistics.
"""

from collections.abc import Callable, Iterable
from functools import reduce as fold
from typing import Any

import jax
import numpy as np

from probmetric.large.processes import gather, together
from probmetric.large.source import BINS


def over_processes[S](
    combine: Callable[[S, S], S],
    sums: Iterable[tuple[int, S]],
    none: Callable[[], S],
    agree: Any = None,
) -> S:
    """Compute the total over the bins of all processes, in order, with one gather.

    Parameters
    ----------
    combine : callable
        ``combine(a, b)`` returns the statistics of two sets of rows together.
    sums : iterable of (int, pytree of arrays)
        Number and statistics of each bin of this process that has rows, in order.
    none : callable
        Returns the statistics of no rows. It is called only on a process without bins.
    agree : pytree of arrays, optional
        Parameters of the pass, which must have the same bits on every process.

    Returns
    -------
    pytree of NumPy arrays

    Raises
    ------
    RuntimeError
        If processes disagree; see ``gather``.
    """
    rank, size = together()
    if size == 1:
        values = (value for _, value in sums)
        first = next(values, None)
        return none() if first is None else fold(combine, values, first)
    own = dict(sums)
    start, slots = -(-rank * BINS // size), -(-BINS // size)
    like = none() if not own else next(iter(own.values()))
    there = np.zeros(slots, bool)
    there[[b - start for b in own]] = True

    def stacked(*leaves: Any) -> np.ndarray:
        arrays = [np.asarray(leaf) for leaf in leaves]
        whole = np.zeros((slots, *arrays[0].shape), arrays[0].dtype)
        for b, leaf in zip(own, arrays, strict=False):
            whole[b - start] = leaf
        return whole

    mine = jax.tree.map(stacked, *(own.values() or [like]))
    seen, whole = gather((there, mine), agree)
    places = [(r, s) for r in range(size) for s in range(slots) if seen[r, s]]
    if not places:
        return like
    bins = (jax.tree.map(lambda a, at=at: a[at], whole) for at in places)
    return fold(combine, bins)
