"""Make pairs of sites from counts of species.

With abundances n_is of species s at site i (or presence, 0 and 1), a pair of sites has
m = Σ_s (n_is + n_js) units, and y = 2 Σ_s min(n_is, n_js) of them are shared. Then
1 - y/m is the Bray-Curtis dissimilarity; for presence, the Sørensen dissimilarity.
"""

import numpy as np

from probmetric.data.containers import Pairs
from probmetric.data.inputs import points, real
from probmetric.typing import ArrayLike

BLOCK_ENTRIES = 1 << 21
"""Largest number of entries in memory at a time (16 MiB)."""


def site_pairs(X: ArrayLike, species: ArrayLike) -> Pairs:
    """Make all pairs of sites, with counts of shared individuals or species.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Covariates of the sites.
    species : array-like of shape (n, S)
        Integers ≥ 0: abundances, or presence as 0 and 1 or booleans. Every site must
        have a species, because otherwise its dissimilarity is undefined.

    Returns
    -------
    Pairs
        Pairs with ``trials`` individuals or species, y of which are shared. Sites are
        the rows of X.

    Examples
    --------
    >>> from probmetric.data import site_pairs
    >>> pairs = site_pairs([[0.0], [1.0], [2.0]], [[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> pairs.y.tolist(), pairs.trials.tolist()  # Sørensen: 1/2, 1, 1/3
    ([2, 0, 2], [4, 3, 3])
    """
    rows = points(X)
    table = real(species, "species", "whole numbers")
    n = len(rows)
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise ValueError(
            f"species must have shape ({n}, number of species), got {table.shape}"
        )
    if n < 2:
        raise ValueError("X must have at least two sites, got one")
    counts = (table >= 0) & (table == np.round(table))
    if not counts.all():
        raise ValueError(
            f"species must be whole numbers of at least 0, got {table[~counts][0]}"
        )
    total = table.sum(1)
    if not (total < 2**30).all():
        raise ValueError(
            "species must have a sum of at most 2³⁰ at each site, got "
            f"{total.max():.3g}. Use presences (0 or 1) instead of counts."
        )
    empty = np.flatnonzero(total == 0)
    if len(empty):
        raise ValueError(
            "species must have at least one species at every site, got none in rows "
            f"{empty[:5].tolist()}. Leave these sites out"
        )
    i, j = np.triu_indices(n, 1)
    shared = np.empty(len(i), int)
    size = max(1, BLOCK_ENTRIES // table.shape[1])
    for begin in range(0, len(i), size):
        at = slice(begin, begin + size)
        shared[at] = 2 * np.minimum(table[i[at]], table[j[at]]).sum(1)
    trials = (total[i] + total[j]).astype(int)
    return Pairs(rows, i, j, shared, trials=trials)
