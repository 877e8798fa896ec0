"""Draws of one kind of metric, stacked for computation and taken apart again.

A metric holds no draw axis, so a stack is kept as its leaves (each with a leading draw
axis) and the structure of a single draw; a metric exists only inside ``vmap``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from probmetric.metric import Dissimilarity
from probmetric.neighbors.votes import stack
from probmetric.precision import in_native_order
from probmetric.typing import Array

DRAW_TILE = 16
"""Draws computed at a time."""


def unstack(draws: Any) -> tuple[Dissimilarity, ...]:
    """Return draws as a tuple of NumPy metrics of one structure.

    Parameters
    ----------
    draws : sequence of Metric, or Metric
        Either one metric a draw, or one pytree whose every array has a leading axis
        of draws.

    Raises
    ------
    ValueError
        When there is none, or they differ in kind or shape, or hold NaN or no numbers.
    """
    if isinstance(draws, Sequence):
        if len(draws) == 0:
            raise ValueError("draws: expected at least one metric, got none")
        if jax.tree_util.all_leaves([draws[0]]):
            raise ValueError(
                "draws: expected metrics that JAX knows as pytrees, got "
                f"{type(draws[0]).__name__}: decorate its dataclass with "
                "jax.tree_util.register_dataclass"
            )
        every = [[np.asarray(a) for a in jax.tree.leaves(draw)] for draw in draws]
        structures = {jax.tree.structure(draw) for draw in draws}
        shapes = {tuple(a.shape for a in leaves) for leaves in every}
        if len(structures) > 1 or len(shapes) > 1:
            raise ValueError(
                "draws: expected metrics of one kind and shape, got "
                f"{len(structures)} structures and {len(shapes)} sets of shapes"
            )
        structure = structures.pop()
    else:
        stacked = [np.asarray(a) for a in jax.tree.leaves(draws)]
        structure = jax.tree.structure(draws)
        sizes = {a.shape[0] if a.ndim else 0 for a in stacked}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(
                "draws: expected arrays with one leading axis of draws, got leading "
                f"sizes {sorted(sizes)}"
            )
        every = [[a[s] for a in stacked] for s in range(sizes.pop())]
    odd = {str(a.dtype) for leaves in every for a in leaves if a.dtype.kind in "OSUcmM"}
    if odd:
        raise ValueError(
            f"draws: expected real numbers in every draw, got {', '.join(sorted(odd))}"
        )
    if any(np.isnan(a).any() for leaves in every for a in leaves):
        raise ValueError("draws: expected numbers in every draw, got NaN")
    return tuple(jax.tree.unflatten(structure, leaves) for leaves in every)


def over_draws(
    function: Callable[..., Any], metrics: Sequence[Dissimilarity], *arrays: Array
) -> np.ndarray:
    """Return ``function(metric, *arrays)`` of every draw, stacked, in float64.

    ``function`` is a module-level function (it is compiled once for each structure
    and shape); ``DRAW_TILE`` draws are computed at a time.
    """
    leaves, structure = stack(metrics)
    arrays = in_native_order(arrays)
    with jax.enable_x64(True):
        return np.asarray(_over_draws(function, structure, leaves, arrays))


@partial(jax.jit, static_argnames=("function", "structure"))
def _over_draws(
    function: Callable[..., Any], structure: Any, leaves: Any, arrays: Any
) -> Any:
    def one(draw: Any) -> Any:
        return function(jax.tree.unflatten(structure, draw), *arrays)

    return jax.lax.map(one, leaves, batch_size=DRAW_TILE)
