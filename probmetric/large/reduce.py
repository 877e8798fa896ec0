"""Sums over data on disk: the interface between learners and the engine.

A ``Reduction`` defines what a learner computes from a block of rows, how to combine two
results, and how to finish. A ``Reduction`` does not depend on how blocks are read, on
the number of processes, or on the order in which bins are added. This module reads and
combines the blocks for every learner:

    total = combine over bins b of [ combine over blocks of b of step(block) ]       (1)

Both sums combine from the left in the order of the rows, with the bins of
``large.source``. The total therefore has the same bits for any number of processes.

Blocks of float32 (``pm.open(..., dtype="float32")``) are standardized in float64.
``step`` then gets the parameters and ``CHUNK`` rows at a time in float32. Its results
are combined in float64, because the error of a float32 sum increases with the number of
rows, and float32 counts are exact only up to 2²⁴.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from probmetric.compilation import give_back
from probmetric.data.padding import chunks
from probmetric.data.scaling import Scaler
from probmetric.large.bins import over_processes
from probmetric.large.passes import Pass, hash_of, kept
from probmetric.large.processes import together
from probmetric.large.source import (
    CHUNK,
    Part,
    Source,
    ahead,
    block_rows,
    class_counts,
    filled,
    n_features,
    reader,
    share,
)
from probmetric.precision import to_numpy
from probmetric.typing import Array, ArrayLike

wait = jax.block_until_ready
"""Wait for a step. Without it the reader outruns the steps and fills the memory."""


def added[S](total: S, more: S) -> S:
    """Add two trees of arrays leaf by leaf."""
    return jax.tree.map(jnp.add, total, more)


def zeros[S](shapes: S) -> S:
    """Make a tree of zeros with these shapes, the sum of no rows."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


@dataclass(frozen=True)
class Reduction[P, S, R]:
    """The computation of a learner on rows, one block at a time.

    Parameters
    ----------
    step : callable
        ``step(params, X, y, w) -> statistics`` computes the statistics of a block. It
        must be a pure ``jax.numpy`` function and is compiled by ``jit``. y are class
        codes and w data weights. Rows of weight 0 must not change the result.
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


def as_type[S](tree: S, dtype: DTypeLike) -> S:
    """Convert the floating-point arrays of a tree to one dtype."""

    def convert(a: ArrayLike) -> Array:
        a = jnp.asarray(a)
        return a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(convert, tree)


@lru_cache(maxsize=64)
def _compiled(reduction: Reduction[Any, Any, Any]) -> tuple[Any, Any]:
    """Compile the step that adds a block, and ``combine``."""

    def standardized(scaler: Scaler | None, X: Array) -> Array:
        return X if scaler is None else (X - scaler.mean) / scaler.scale

    def step(params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        return reduction.step(params, standardized(scaler, X), y, w)

    def add(total: Any, params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        if X.dtype != jnp.float32:
            return reduction.combine(total, step(params, scaler, X, y, w))
        params = as_type(params, jnp.float32)
        rows = as_type((standardized(scaler, X), y, w), jnp.float32)

        def piece(total: Any, rows: Any) -> tuple[Any, None]:
            more = as_type(reduction.step(params, *rows), jnp.result_type(float))
            return reduction.combine(total, more), None

        return jax.lax.scan(piece, total, tuple(chunks(a, CHUNK) for a in rows))[0]

    def start(params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        args = params, scaler, X.astype(jnp.result_type(float)), y, w
        return reduction.empty(jax.eval_shape(step, *args))

    return (jax.jit(add, donate_argnums=0), jax.jit(start)), jax.jit(reduction.combine)


def local_sum[P, S, R](
    reduction: Reduction[P, S, R],
    params: P,
    source: Source,
    parts: list[Part],
    *,
    rows: int,
    scaler: Scaler | None = None,
    classes: np.ndarray | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> S:
    """Compute the statistics of consecutive parts of a dataset: one bin of Eq. (1).

    Parameters
    ----------
    reduction : Reduction
    params : pytree of arrays
    source : Source
    parts : list of Part
    rows : int
        Number of rows of a block.
    scaler : Scaler, optional
        Scaler of the rows. A scale of infinity makes a column 0.
    classes : array of shape (c,), optional
        Sorted labels. y are indices into ``classes``.
    pool : ThreadPoolExecutor, optional
        Reader thread, from ``large.source.reader``. The default is a new thread.
    """
    (add, start), _ = _compiled(reduction)
    blocks = ahead(filled(source, parts, rows, classes=classes), pool)
    total: Any = None
    for X, y, w, *_ in blocks:
        if total is None:
            total = start(params, scaler, X, y, w)
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

    Parameters
    ----------
    reduction : Reduction
    params : pytree of arrays
    source : Source
    scaler, classes
        See ``local_sum``.

    Returns
    -------
    pytree of NumPy arrays
        Statistics in float64, also for data in float32.

    Raises
    ------
    ValueError
        If labels are required and the rows have no labels. See also
        ``large.source.filled``.
    """
    if reduction.labeled and classes is None:
        raise ValueError(
            "label must be given for all rows, got none. Open the data with label=."
        )
    rows = block_rows(source)

    def of(parts: list[Part], pool: ThreadPoolExecutor | None = None) -> S:
        return local_sum(
            reduction,
            params,
            source,
            parts,
            rows=rows,
            scaler=scaler,
            classes=classes,
            pool=pool,
        )

    def compute() -> S:
        combine: Any = _compiled(reduction)[1]
        mine = share(source.parts, *together())
        with reader() as pool:
            sums = ((b, of(parts, pool)) for b, parts in mine.items())
            result = over_processes(
                combine, sums, lambda: of([]), agree=(params, scaler)
            )
        return to_numpy(result)

    name = getattr(reduction.step, "__qualname__", type(reduction.step).__name__)
    which = Pass(name, hash_of(source), (params, scaler))
    misses = _compiled.cache_info().misses
    with jax.enable_x64(True):
        result = kept(which, lambda: to_numpy(of([])), compute)
    if _compiled.cache_info().misses > misses:
        give_back()  # Compiling took tens of MB; calling this in each pass is slow.
    return result


def classes_of(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Find the sorted classes of a dataset and the number of rows of each class.

    The pass reads only labels and weights. Rows of weight 0 are ignored.

    Raises
    ------
    ValueError
        If rows have no labels.
    """
    if not source.labeled:
        raise ValueError(
            f"label must be given for {source.name}, got none. Open it with label=."
        )
    parts = [part for bin_ in share(source.parts).values() for part in bin_]
    return class_counts(source, parts)
