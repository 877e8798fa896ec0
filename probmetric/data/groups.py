"""Stack groups by size for the two-stage mixture."""

from typing import NamedTuple

import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float

from probmetric.data.containers import (
    Groups,
    Pairs,
    Points,
    checked_rows,
    refuse_trials,
)
from probmetric.typing import Array


class Stacks(NamedTuple):
    """Groups stacked by size: ``X[b]`` (G_b, n_b, d) has the G_b groups of size n_b.

    ``w[b]`` (G_b,) are the weights of these groups. ``seen[b]`` has the shape of
    ``X[b]`` and is False for NaN. ``seen`` is None if no entry is missing.
    """

    X: tuple[Float[Array, "_ _ d"], ...]
    w: tuple[Float[Array, "_"], ...]
    seen: tuple[Bool[Array, "_ _ d"], ...] | None = None


def as_groups(data: Points | Pairs | Groups) -> Groups:
    """Convert points or pairs to groups with a common source.

    A point is a group of one. A pair with y = 1 is a group of two. A pair with y = 0 is
    two groups of one.
    """
    if isinstance(data, Groups):
        return data
    if isinstance(data, Points):
        return Groups(data.X, np.arange(len(data.X)), data.w)
    refuse_trials(data, "groups")
    data = checked_rows(data)
    if data.y is None:
        raise ValueError(
            "y must be 1 for pairs from one source and 0 for other pairs, got None. "
            "Pass y."
        )
    same = np.asarray(data.y) == 1
    first = np.cumsum(np.r_[0, np.where(same, 1, 2)])[:-1]
    group = np.stack([first, np.where(same, first, first + 1)], 1).ravel()
    rows = np.stack([np.asarray(data.i), np.asarray(data.j)], 1).ravel()
    w = None if data.w is None else data.w[np.repeat(np.arange(len(same)), 2)]
    return Groups(data.X[rows], group, w)


def stack(data: Points | Pairs | Groups | Stacks) -> Stacks:
    """Stack groups by size. The weight of a group is the mean weight of its points."""
    if isinstance(data, Stacks):
        return data
    names = ("group", "i", "j", "y")
    traced = [n for n in names if isinstance(getattr(data, n, None), Tracer)]
    if traced:
        raise ValueError(
            "data must be prepared before jax.jit, because its "
            f"{', '.join(traced)} determine array shapes, got {type(data).__name__}. "
            "Call two_stage.prepare(data) outside jit, and pass the result."
        )
    groups = as_groups(data)
    codes = np.asarray(groups.group)
    order = np.argsort(codes, kind="stable")
    _, start, size = np.unique(codes[order], return_index=True, return_counts=True)
    X = groups.X
    w = np.ones(len(X), X.dtype) if groups.w is None else groups.w
    rows = [
        order[start[size == n][:, None] + np.arange(n)]
        for n in sorted(set(size.tolist()))
    ]
    stacks = Stacks(tuple(X[r] for r in rows), tuple(w[r].mean(1) for r in rows))
    if isinstance(X, Tracer) or not np.isnan(np.asarray(X)).any():
        return stacks
    return stacks._replace(seen=tuple(~np.isnan(np.asarray(s)) for s in stacks.X))
