"""Sums over data on disk: the interface between learners and the engine.

A ``Reduction`` defines what a learner computes from a block of rows, how to combine two
results, and how to finish. This module reads and combines the blocks for every learner:

    total = combine over bins b of [ combine over blocks of b of step(block) ]       (1)

Both sums combine from the left in the order of the rows, with the bins of
``large.source``. The total therefore has the same bits for any number of workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from functools import reduce as fold
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.compilation import give_back
from probmetric.data.scaling import Scaler
from probmetric.large.engine import run
from probmetric.large.passes import Pass, hash_of, kept
from probmetric.large.source import (
    Part,
    Source,
    ahead,
    bins,
    block_rows,
    filled,
    n_features,
)
from probmetric.precision import to_numpy
from probmetric.typing import Array

wait = jax.block_until_ready
"""Wait for a step. Otherwise blocks are read faster than used, and fill the memory."""


def added[S](total: S, more: S) -> S:
    """Add two trees of arrays leaf by leaf."""
    return jax.tree.map(jnp.add, total, more)


def zeros[S](shapes: S) -> S:
    """Make a tree of zeros with these shapes, the sum of no rows."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


@dataclass(frozen=True)
class Reduction[P, S, R]:
    """The computation of a learner on rows, one block at a time.

    All functions must be at module level. A worker of a Dask cluster then compiles
    ``step`` once.

    Parameters
    ----------
    step : callable
        ``step(params, X, y, w) -> statistics`` computes the statistics of a block. This
        must be a pure ``jax.numpy`` function, which ``jit`` compiles. y are class codes
        and w data weights. Rows of weight 0 must not change the result.
    finish : callable
        ``finish(params, statistics) -> result`` computes the result from the statistics
        of all rows, on the host.
    combine : callable
        ``combine(statistics, statistics)`` combines two sets of rows. The default is
        the sum.
    empty : callable
        ``empty(shapes) -> statistics`` makes the statistics of no rows from a tree of
        shapes and dtypes. The default is zeros.
    labeled : bool
        Whether rows must have labels.
    """

    step: Callable[[P, Array, Array, Array], S]
    finish: Callable[[P, S], R]
    combine: Callable[[S, S], S] = added
    empty: Callable[[S], S] = zeros
    labeled: bool = False


@lru_cache(maxsize=64)
def _compiled(reduction: Reduction[Any, Any, Any]) -> tuple[Any, Any, Any]:
    def step(params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        Z = X if scaler is None else (X - scaler.mean) / scaler.scale
        return reduction.step(params, Z, y, w)

    def add(total: Any, *args: Any) -> Any:
        return reduction.combine(total, step(*args))

    def start(*args: Any) -> Any:
        return reduction.empty(jax.eval_shape(step, *args))

    combine = jax.jit(reduction.combine)
    return jax.jit(add, donate_argnums=0), jax.jit(start), combine


def local_sum[P, S, R](
    reduction: Reduction[P, S, R],
    params: P,
    source: Source,
    parts: Sequence[Part],
    *,
    rows: int,
    scaler: Scaler | None = None,
    classes: np.ndarray | None = None,
) -> S:
    """Compute the statistics of consecutive parts of a dataset: one bin of Eq. (1).

    ``rows`` is the number of rows of a block. A scale of infinity makes a column 0.
    Labels are indices into the sorted ``classes``.
    """
    add, start, _ = _compiled(reduction)
    blocks = ahead(filled(source, parts, rows, classes=classes))
    total: Any = None
    for X, y, w, *_ in blocks:
        if total is None:
            total = start(params, scaler, X, y, w)
        # A device_put of params in each bin takes longer than these conversions.
        total = wait(add(total, params, scaler, X, y, w))
    if total is None:
        d = n_features(source)
        none = np.zeros((rows, d)), np.zeros(rows, np.int32), np.zeros(rows)
        total = start(params, scaler, *none)
    return total


def total[P, S, R](
    reduction: Reduction[P, S, R],
    params: P,
    source: Source,
    *,
    scaler: Scaler | None = None,
    classes: np.ndarray | None = None,
) -> S:
    """Compute the statistics of all rows of a dataset, Eq. (1), in one pass.

    ``scaler`` and ``classes`` are described in ``local_sum``. Raises ValueError if
    labels are required and missing, and as ``large.source.filled``.
    """
    if reduction.labeled and classes is None:
        raise ValueError("label is required, got none. Use pm.open(..., label=).")
    given = reduction, params, source, block_rows(source), scaler, classes

    def compute() -> S:
        combine = _compiled(reduction)[2]
        sums = run(_bin, [some for some in bins(source.parts) if some], *given)
        return to_numpy(fold(combine, sums))

    name = getattr(reduction.step, "__qualname__", type(reduction.step).__name__)
    which = Pass(name, hash_of(source), (params, scaler))
    misses = _compiled.cache_info().misses
    with jax.enable_x64(True):
        result = kept(which, lambda: _bin([], *given), compute)
    if _compiled.cache_info().misses > misses:
        give_back()  # Compiling took tens of MB; calling this in each pass is slow.
    return result


def _bin(
    parts: Sequence[Part],
    reduction: Reduction[Any, Any, Any],
    params: Any,
    source: Source,
    rows: int,
    scaler: Scaler | None,
    classes: np.ndarray | None,
) -> Any:
    with jax.enable_x64(True):
        return to_numpy(
            local_sum(
                reduction,
                params,
                source,
                parts,
                rows=rows,
                scaler=scaler,
                classes=classes,
            )
        )
