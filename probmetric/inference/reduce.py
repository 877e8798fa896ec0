"""Sums over a ``Source``: the one seam between learners and what runs them.

A learner says what it takes from a block of rows, how two such results become one and
what the whole means: its ``Reduction``. It never knows how blocks are read, in how many
processes, or how bins are added; this file does, and knows no learner.

    total = combine over bins b of [ combine over blocks of b of step(block) ]       (1)

Both run from the left in the order of the rows, bins being those of ``data.source``,
whatever the number of processes: so are the bits of the total.

Blocks of float32 (``pm.open(..., dtype="float32")``) are standardised in float64; then
``step`` is given parameters and ``CHUNK`` rows at a time in float32, and what it
returns is combined in float64: sums in float32 over all rows would lose more the more
there are, and counts stop at 2²⁴.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.compilation import give_back
from probmetric.data.padding import chunks
from probmetric.data.scaling import Scaler
from probmetric.data.source import (
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
from probmetric.processes.bins import over_processes
from probmetric.processes.checkpoint import Pass, hash_of, kept
from probmetric.processes.distributed import together
from probmetric.typing import Array

wait = jax.block_until_ready
"""Waiting for a step. Without it a reader outruns the steps, and blocks pile up."""


def added[S](total: S, more: S) -> S:
    """Return the sum of two trees of arrays."""
    return jax.tree.map(jnp.add, total, more)


def zeros[S](shapes: S) -> S:
    """Return a tree of zeros, of these shapes: the sum of no rows."""
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


@dataclass(frozen=True)
class Reduction[P, S, R]:
    """What a learner takes from rows, one block at a time.

    Parameters
    ----------
    step : callable
        ``step(params, X, y, w) -> statistics`` of a block: a pure function of
        ``jax.numpy``, under ``jit``; y are class codes, w data weights, and rows of
        weight 0 must change nothing.
    finish : callable
        ``finish(params, statistics) -> result`` of all rows, on the host.
    combine : callable
        ``combine(statistics, statistics)``: those of two sets of rows as one. Default:
        their sum.
    empty : callable
        ``empty(shapes) -> statistics`` of no rows, of a tree of shapes and types.
        Default: zeros.
    labelled : bool
        Whether rows must have labels.
    """

    step: Callable[[P, Array, Array, Array], S]
    finish: Callable[[P, S], R]
    combine: Callable[[S, S], S] = added
    empty: Callable[[S], S] = zeros
    labelled: bool = False


def as_type[S](tree: S, dtype: Any) -> S:
    """Return a tree whose floating numbers are of one type; others stay."""

    def one(a: Any) -> Array:
        a = jnp.asarray(a)
        return a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a

    return jax.tree.map(one, tree)


@lru_cache(maxsize=64)
def _compiled(reduction: Reduction[Any, Any, Any]) -> tuple[Any, Any]:
    """Return the compiled step that adds a block, and ``combine``."""

    def standardised(scaler: Scaler | None, X: Array) -> Array:
        return X if scaler is None else (X - scaler.mean) / scaler.scale

    def step(params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        return reduction.step(params, standardised(scaler, X), y, w)

    def add(total: Any, params: Any, scaler: Any, X: Array, y: Array, w: Array) -> Any:
        if X.dtype != jnp.float32:
            return reduction.combine(total, step(params, scaler, X, y, w))
        params = as_type(params, jnp.float32)
        rows = as_type((standardised(scaler, X), y, w), jnp.float32)

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
    """Return the statistics of consecutive parts: a bin of Eq. (1).

    Parameters
    ----------
    reduction : Reduction
    params : pytree of arrays
    source : Source
    parts : list of Part
    rows : int
        Rows of a block.
    scaler : Scaler, optional
        Rows are standardised by it; a scale of infinity makes a column 0.
    classes : array of shape (c,), optional
        Sorted labels, of which y are the places.
    pool : ThreadPoolExecutor, optional
        Of ``data.source.reader``. Default: a thread of its own.
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
    """Return the statistics of all rows of a source, Eq. (1): one pass.

    Parameters
    ----------
    reduction : Reduction
    params : pytree of arrays
    source : Source
    scaler, classes
        As ``local_sum``.

    Returns
    -------
    pytree of NumPy arrays
        In float64, whatever the type of the numbers.

    Raises
    ------
    ValueError
        Where labels are needed and rows have none; and as ``data.source.filled``.
    """
    if reduction.labelled and classes is None:
        raise ValueError("label: expected the labels of all rows, got none")
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
            found = over_processes(
                combine, sums, lambda: of([]), agree=(params, scaler)
            )
        return to_numpy(found)

    name = getattr(reduction.step, "__qualname__", type(reduction.step).__name__)
    which = Pass(name, hash_of(source), (params, scaler))
    known = _compiled.cache_info().misses
    with jax.enable_x64(True):
        found = kept(which, lambda: to_numpy(of([])), compute)
    if _compiled.cache_info().misses > known:
        give_back()  # What compiling took: tens of MB. Each pass would be dear.
    return found


def classes_of(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of a source and how many rows each has.

    A pass that reads labels and weights alone; rows of weight 0 count for nothing.

    Raises
    ------
    ValueError
        Where rows have no labels.
    """
    if not source.labelled:
        raise ValueError(
            f"label: expected labels of {source.name}, got none; open it with label="
        )
    parts = [part for own in share(source.parts).values() for part in own]
    return class_counts(source, parts)
