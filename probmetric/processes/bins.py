"""The total of bins that lie on several processes, added in their order.

Bins are numbered, their number is the same whatever the number of processes, and each
process has a run of them: of ``size`` processes, number r has bins b with b · size //
bins = r (``data.source.share``). All are gathered at once, and every process folds them
from the left in the order of the bins: the total has the same bits on 1, 2 or 4
processes. A process without bins takes part too. What is sent is bins × state.
"""

from collections.abc import Callable, Iterable
from functools import reduce as fold
from typing import Any

import jax
import numpy as np

from probmetric.data.source import BINS
from probmetric.processes.distributed import gather, together


def over_processes[S](
    combine: Callable[[S, S], S],
    sums: Iterable[tuple[int, S]],
    none: Callable[[], S],
    agree: Any = None,
) -> S:
    """Return the total over the bins of all processes, in order: one gather.

    Parameters
    ----------
    combine : callable
        ``combine(a, b)``, the statistics of two sets of rows as one.
    sums : iterable of (int, pytree of arrays)
        This process's bins in order, each with its number, of those that have rows.
    none : callable
        Returns the statistics of no rows; asked only of a process without bins.
    agree : pytree of arrays, optional
        Parameters of the pass, which must be the same bits on every process.

    Returns
    -------
    pytree of NumPy arrays

    Raises
    ------
    RuntimeError
        As ``gather``.
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
