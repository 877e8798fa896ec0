"""Hashes of data, and an order of its rows that depends only on their set.

``canonical_order`` sorts rows by what they are: shuffled rows, permuted columns, and
columns in other units, come in the same order. Folds that are dealt from it, and ties
that are broken by it, depend only on the set of rows.
"""

import hashlib

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.typing import Array

SAME = 1e-10
"""Entries this close are equal, relative to the range of their column.

Centers and scales are sums: in another order of the rows their last bits change.
"""

ROUNDS = 3
"""Refinements of the row hashes: the third tells rows apart by rows like them."""


def data_variables(data: object) -> dict[str, np.ndarray]:
    """Name the arrays of a data argument; typed keys and None are left out."""
    if data is None:
        return {}
    found = jax.tree_util.tree_flatten_with_path(data)[0]
    names = [jax.tree_util.keystr(at, simple=True, separator="_") for at, _ in found]
    return {
        name or "data": np.asarray(leaf)
        for name, (_, leaf) in zip(names, found, strict=True)
        if not isinstance(leaf, str)
    }


def data_hash(data: object) -> str:
    """Return a SHA-256 of names, types, shapes and bytes of the data's arrays.

    Examples
    --------
    Equal data have one hash, and another type of number is other data:

    >>> import numpy as np
    >>> from probmetric.data import data_hash
    >>> X = np.array([[0.0, 1.0]])
    >>> data_hash(X) == data_hash(X.copy())
    True
    >>> data_hash(X) == data_hash(X.astype(np.float32))
    False
    >>> len(data_hash(X))
    64
    """
    digest = hashlib.sha256()
    for name, array in data_variables(data).items():
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def canonical_order(
    X: Float[Array, "n d"], codes: Int[np.ndarray, "n"] | None = None
) -> Int[np.ndarray, "n"]:
    """Return an order of the rows that shuffling rows or columns does not change.

    The hash of a row is the sum over its entries of a hash of (rank of the entry in its
    column, hash of the column), and the hash of a column the sum over its entries of a
    hash of (rank, hash of the row): color refinement. Equal hashes are ordered by class
    and by the entries from left to right. Columns matter there only for data that
    exchange two rows when columns are exchanged, which no such order can tell apart.

    Parameters
    ----------
    X : array of shape (n, d)
        NaN is a value of its own.
    codes : array of shape (n,), optional
        Classes 0..c-1. Their numbers order only equal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data.hash import canonical_order
    >>> X = np.array([[0.0, 3.0], [1.0, 3.0], [5.0, 2.0]])
    >>> plain, other = canonical_order(X), canonical_order(X[::-1, ::-1])
    >>> np.array_equal(X[plain], X[::-1][other])
    True
    """
    codes = np.zeros(len(X), int) if codes is None else np.asarray(codes)
    ranks = _ranks(np.asarray(X))
    row = np.zeros(len(X), np.uint64)
    for _ in range(ROUNDS):
        of_class = np.zeros(codes.max(initial=0) + 1, np.uint64)
        np.add.at(of_class, codes, _mixed(row))
        total = of_class[codes]
        for rank in ranks:  # One column at a time: no copy of X.
            column = np.sum(_mixed(rank + row), dtype=np.uint64)
            total += _mixed(rank + column)
        row = _mixed(total)
    if len(np.unique(row)) == len(row):
        return np.argsort(row)
    return np.lexsort((codes, *ranks[::-1], row))


def _mixed(z: np.ndarray) -> np.ndarray:
    """Return 64 bits that look random for each 64-bit integer, modulo 2⁶⁴."""
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return (z ^ (z >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)


def _ranks(X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return the place of each entry among the distinct values of its column: (d, n).

    Times an odd number: the sum of a place and a hash is then a hash of both.
    """
    ranks = np.empty(X.shape[::-1], np.uint64)
    for x, rank in zip(X.T, ranks, strict=True):
        order = np.argsort(x)  # NaN comes last.
        ordered = x[order]
        gap = np.diff(ordered)
        apart = gap > SAME * np.nansum(gap)
        apart |= np.isnan(ordered[1:]) & ~np.isnan(ordered[:-1])
        rank[order] = np.append(0, np.cumsum(apart))
    return ranks * np.uint64(0x9E3779B97F4A7C15)


def first_best(scores: Float[np.ndarray, "*g"]) -> int:
    """Return the flat index of the largest score, the first of those that tie.

    Scores that differ by rounding tie: another order of the rows must not choose
    another one. NaN is never the best.
    """
    flat = np.ravel(scores)
    best = np.nanmax(flat, initial=-np.inf)
    return int(np.argmax(flat >= best - SAME * max(1.0, abs(best))))


def row_hashes(X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Hash each row to 64 bits (uint64): the BLAKE2b of its numbers in float64.

    Equal rows have equal hashes on every machine; 0.0 and -0.0 are equal.
    """
    rows = np.asarray(X, "<f8") + 0.0
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
