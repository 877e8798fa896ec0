"""Make pairs of sites from counts of species.

Let n_is be the abundance (or presence, 0 or 1) of species s at site i. Sites i and j
have m = Σ_s (n_is + n_js) units, of which y = 2 Σ_s min(n_is, n_js) are shared. The
dissimilarity D = 1 - y/m is Bray-Curtis for abundances and Sørensen for presence.

Cover is not a number of units. A pair of sites with cover counts as one unit with the
shared part 1 - D, as in R's gdm. The pair is stored as m = 10⁶ units of weight 10⁻⁶.
"""

import numpy as np

from probmetric.arguments import check_choice
from probmetric.data.containers import Pairs
from probmetric.data.inputs import points, real
from probmetric.typing import ArrayLike

BLOCK_ENTRIES = 1 << 21
"""Largest number of entries in memory at a time (16 MiB)."""


PARTS = 10**6
"""Number of units of a pair of sites with cover. Each unit has weight 1 / PARTS."""


def site_pairs(X: ArrayLike, species: ArrayLike, *, measure: str = "counts") -> Pairs:
    """Make all pairs of sites, with counts of shared individuals or species.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Covariates of the sites.
    species : array-like of shape (n, S)
        Amount of each species at each site, ≥ 0. Every site must have at least one
        species, because the dissimilarity of a site without species is undefined.
    measure : {"counts", "presence", "cover"}, default="counts"
        Meaning of ``species``. Use "counts" for integers: abundances, or presence as 0
        and 1 or booleans. "presence" replaces each number above 0 by 1. Use "cover" for
        amounts that are not counts.

    Returns
    -------
    Pairs
        Pairs of sites (rows of X). ``trials`` is the sum of both sites' individuals (or
        species). y is the part that is shared, counted at both sites. 1 - y/trials is
        the dissimilarity of Bray-Curtis for counts, and of Sørensen for presence. For
        cover, ``trials`` is 10⁶ and the weight of each pair 10⁻⁶, so a pair counts
        as one unit.

    Examples
    --------
    >>> from probmetric.data import site_pairs
    >>> pairs = site_pairs([[0.0], [1.0], [2.0]], [[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> pairs.y.tolist(), pairs.trials.tolist()  # Sørensen: 1/2, 1, 1/3
    ([2, 0, 2], [4, 3, 3])
    """
    check_choice("measure", measure, ("counts", "presence", "cover"))
    rows = points(X)
    table = real(species, "species", "numbers")
    n = len(rows)
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise ValueError(
            f"species must have shape ({n}, number of species), got {table.shape}"
        )
    if n < 2:
        raise ValueError("X must have at least two sites, got one")
    labels = getattr(species, "index", range(n))
    columns = getattr(species, "columns", range(table.shape[1]))
    valid = np.isfinite(table) & (table >= 0)
    if measure == "counts":
        valid &= table == np.round(table)
    if not valid.all():
        row, column = np.argwhere(~valid)[0]
        value = table[row, column]
        whole = "whole " * (measure == "counts")
        remedy = ""
        if measure == "counts" and value > 0:
            remedy = (
                ". For cover or biomass use measure='cover' (each pair has weight 1), "
                "for occurrence measure='presence'; or round to whole numbers"
            )
        elif np.isnan(value):
            remedy = ". Enter 0 for an absent species"
        raise ValueError(
            f"species must be {whole}numbers of at least 0, got {value:g} for species "
            f"{columns[column]!r} at site {labels[row]!r}{remedy}"
        )
    table = (table > 0).astype(float) if measure == "presence" else table
    total = table.sum(1)
    if not (total < 2**30).all():
        raise ValueError(
            f"species: the sum at a site must be at most 2³⁰, got {total.max():.3g}. "
            "Use presences (0 or 1) instead of counts."
        )
    empty = np.flatnonzero(total == 0)
    if len(empty):
        raise ValueError(
            "species: every site must have at least one species, got none at site "
            f"{', '.join(repr(labels[k]) for k in empty[:5])}. Remove these sites"
        )
    i, j = np.triu_indices(n, 1)
    shared = np.empty(len(i))
    size = max(1, BLOCK_ENTRIES // table.shape[1])
    for begin in range(0, len(i), size):
        at = slice(begin, begin + size)
        shared[at] = 2 * np.minimum(table[i[at]], table[j[at]]).sum(1)
    units = total[i] + total[j]
    if measure == "cover":
        y, trials = np.round(PARTS * shared / units), np.full(len(i), PARTS)
        return Pairs(
            rows, i, j, y.astype(int), np.full(len(i), 1 / PARTS), None, trials
        )
    return Pairs(rows, i, j, shared.astype(int), trials=units.astype(int))
