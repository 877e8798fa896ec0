"""Entries of draws, and chains that are copies.

A quantity of shape (d, d) is d² *entries*, named by its coordinates:
``M[alcohol, ash]``.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import xarray as xr

SAMPLE_DIMS = ("chain", "draw")

MOVES = 20
"""Changes required to compare two chains; 20 tosses agree by chance once in 2²⁰."""


def equal_chains(table: xr.Dataset) -> list[tuple[int, int]]:
    """Return the pairs of chains that are equal in every draw of every variable.

    Equal chains give an R-hat of 1 and inflate effective sample sizes. Chains that
    change fewer than ``MOVES`` times are not compared. Two constant chains, or two
    indicators of a rare event, can be equal by chance.
    """
    columns = [
        draws.to_numpy().reshape(*draws.shape[:2], -1)
        for draws in table.data_vars.values()
    ]
    first: dict[tuple[bytes, ...], int] = {}
    copies: list[tuple[int, int]] = []
    for chain in range(table.sizes["chain"]):
        arrays = [column[chain] for column in columns]
        moved = [np.any(a[1:] != a[:-1], axis=1) for a in arrays]
        if np.any(moved, axis=0).sum() < MOVES:
            continue
        earlier = first.setdefault(tuple(a.tobytes() for a in arrays), chain)
        if earlier != chain:
            copies.append((earlier, chain))
    return copies


def listed(copies: Sequence[tuple[int, int]]) -> str:
    """List the first five pairs of equal chains."""
    words = ", ".join(f"chains {a} and {b}" for a, b in copies[:5])
    more = len(copies) - 5
    return f"{words} and {more} more" if more > 0 else words


def entry_names(table: xr.Dataset) -> list[str]:
    """Name every entry by its coordinates if it has any, otherwise by its indices."""
    names: list[str] = []
    for name, draws in table.data_vars.items():
        labels = [
            [str(label) for label in draws.coords[dim].to_numpy()]
            if dim in draws.coords
            else [str(i) for i in range(draws.sizes[dim])]
            for dim in draws.dims[2:]
        ]
        names += [
            f"{name}[{', '.join(entry)}]" if entry else str(name)
            for entry in product(*labels)
        ]
    return names


def stacked(table: xr.Dataset) -> np.ndarray:
    """Return all entries as (n_chains, n_draws, m), in the order of ``entry_names``."""
    shape = (table.sizes["chain"], table.sizes["draw"], -1)
    columns = [draws.to_numpy().reshape(shape) for draws in table.data_vars.values()]
    return np.concatenate([a.astype(float) for a in columns], 2)
