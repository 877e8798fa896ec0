"""Stack draws of metrics of the same class for computation, and unstack them.

A stack consists of arrays with a leading draw axis, and the structure of a single draw.
Metric objects are rebuilt only inside ``vmap``.
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
"""Number of draws computed at a time."""


def unstack(
    draws: Sequence[Dissimilarity] | Dissimilarity,
) -> tuple[Dissimilarity, ...]:
    """Return draws (a list, or one pytree with a draw axis) as NumPy metrics."""
    if isinstance(draws, Sequence):
        if len(draws) == 0:
            raise ValueError("draws must contain at least one metric, got none")
        if jax.tree_util.all_leaves([draws[0]]):
            raise ValueError(
                f"draws must be metrics that are JAX pytrees, got "
                f"{type(draws[0]).__name__}. Decorate its dataclass with "
                "jax.tree_util.register_dataclass."
            )
        every = [[np.asarray(a) for a in jax.tree.leaves(draw)] for draw in draws]
        structures = {jax.tree.structure(draw) for draw in draws}
        shapes = {tuple(a.shape for a in leaves) for leaves in every}
        if len(structures) > 1 or len(shapes) > 1:
            raise ValueError(
                "draws must be metrics of the same kind and shape, got "
                f"{len(structures)} kinds and {len(shapes)} shapes"
            )
        structure = structures.pop()
    else:
        stacked = [np.asarray(a) for a in jax.tree.leaves(draws)]
        structure = jax.tree.structure(draws)
        sizes = {a.shape[0] if a.ndim else 0 for a in stacked}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(
                "draws: the first axis of each array must have one entry per draw, "
                f"got first axes of lengths {sorted(sizes)}"
            )
        every = [[a[s] for a in stacked] for s in range(sizes.pop())]
    if any(np.isnan(a).any() for leaves in every for a in leaves):
        raise ValueError("draws must be numbers, got NaN")
    return tuple(jax.tree.unflatten(structure, leaves) for leaves in every)


def over_draws(
    function: Callable[..., Array], metrics: Sequence[Dissimilarity], *arrays: Array
) -> np.ndarray:
    """Compute ``function(metric, *arrays)`` for every stacked draw, in float64."""
    leaves, structure = stack(metrics)
    arrays = in_native_order(arrays)
    with jax.enable_x64(True):
        return np.asarray(_over_draws(function, structure, leaves, arrays))


@partial(jax.jit, static_argnames=("function", "structure"))
def _over_draws(
    function: Callable[..., Array],
    structure: Any,
    leaves: tuple[Array, ...],
    arrays: tuple[Array, ...],
) -> Array:
    def of_draw(draw: tuple[Array, ...]) -> Array:
        return function(jax.tree.unflatten(structure, draw), *arrays)

    return jax.lax.map(of_draw, leaves, batch_size=DRAW_TILE)
