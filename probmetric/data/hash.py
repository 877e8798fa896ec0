"""Hash data, and sort rows in an order that does not depend on their input order.

``canonical_order`` does not change if rows are shuffled, columns are permuted or units
are changed. Folds and tie-breaking use this order.
"""

import hashlib

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.typing import Array

SAME = 1e-10
"""Entries of a column are equal if they differ by less than this share of its range,
because the rounding of centers and scales depends on the order of rows."""

ROUNDS = 3
"""Refinements of the row hashes."""

BLOCK = 1 << 15
"""Number of entries that are hashed at a time: few enough for the cache."""


def data_variables(data: object) -> dict[str, np.ndarray]:
    """Return the arrays of a data argument by name, without strings and None."""
    if data is None:
        return {}
    leaves = jax.tree_util.tree_flatten_with_path(data)[0]
    return {
        jax.tree_util.keystr(at, simple=True, separator="_") or "data": np.asarray(leaf)
        for at, leaf in leaves
        if not isinstance(leaf, str)
    }


def data_hash(data: object) -> str:
    """Return a SHA-256 hash of the names, dtypes, shapes and bytes of the arrays."""
    digest = hashlib.sha256()
    for name, array in data_variables(data).items():
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def canonical_order(
    X: Float[Array, "n d"], codes: Int[np.ndarray, "n"] | None = None
) -> Int[np.ndarray, "n"]:
    """Return an order of the rows that does not depend on the order of rows or columns.

    The algorithm is color refinement. The hash of a row is a sum over its entries of
    hashes of (rank of the entry in its column, hash of the column). Columns are hashed
    in the same way. Rows with equal hashes are ordered by class, then by their entries
    from left to right. The order of columns matters only if a permutation of columns
    exchanges two rows. NaN differs from all numbers.
    """
    codes = np.zeros(len(X), int) if codes is None else np.asarray(codes)
    ranks = _ranks(np.asarray(X))
    row, step = np.zeros(len(X), np.uint64), max(1, BLOCK // max(len(X), 1))
    for _ in range(ROUNDS):
        of_class = np.zeros(codes.max(initial=0) + 1, np.uint64)
        np.add.at(of_class, codes, _mixed(row))
        total = of_class[codes]
        for at in range(0, len(ranks), step):  # A few columns at a time: no copy of X.
            rank = ranks[at : at + step]
            column = np.sum(_mixed(rank + row), 1, dtype=np.uint64, keepdims=True)
            total += np.sum(_mixed(rank + column), 0, dtype=np.uint64)
        row = _mixed(total)
    if len(np.unique(row)) == len(row):
        return np.argsort(row)
    return np.lexsort((codes, *ranks[::-1], row))


def _mixed(z: np.ndarray) -> np.ndarray:
    """Hash 64-bit integers to pseudorandom 64 bits, modulo 2⁶⁴."""
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return (z ^ (z >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)


def _ranks(X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return ranks of entries in their column, times an odd number, (d, n)."""
    ranks = np.zeros(X.shape[::-1], np.uint64)
    step = max(1, BLOCK // max(len(X), 1))
    for at in range(0, X.shape[1], step):
        x = np.ascontiguousarray(X[:, at : at + step].T)
        order = np.argsort(x, 1)  # NaN comes last.
        ordered = np.take_along_axis(x, order, 1)
        gap = np.diff(ordered)
        apart = gap > SAME * np.nansum(gap, 1, keepdims=True)
        apart |= np.isnan(ordered[:, 1:]) & ~np.isnan(ordered[:, :-1])
        count = np.cumsum(apart, 1, dtype=np.uint64)
        np.put_along_axis(ranks[at : at + step], order[:, 1:], count, 1)
    return ranks * np.uint64(0x9E3779B97F4A7C15)


def first_best(scores: Float[np.ndarray, "*g"]) -> int:
    """Return the flat index of the largest score, or the first among ties.

    Scores that differ only by rounding are ties, because rounding depends on the order
    of rows. NaN is never the best.
    """
    flat = np.ravel(scores)
    best = np.nanmax(flat, initial=-np.inf)
    return int(np.argmax(flat >= best - SAME * max(1.0, abs(best))))


def row_hashes(X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Hash each row to 64 bits (BLAKE2b). Hashes are equal on all machines."""
    rows = np.asarray(X, "<f8") + 0.0
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def row_bits(seed: int, row: Int[np.ndarray, "b"]) -> np.ndarray:
    """Return 64 pseudorandom bits for each row number (SplitMix64, with a seed)."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):  # Arithmetic modulo 2⁶⁴ is intended.
        z = np.asarray(row, np.uint64) + np.uint64(seed) * step + step
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = (z ^ (z >> np.uint64(31))) + step
    return z


def sampled_rows(n: int, most: int, *, seed: int = 0) -> Int[np.ndarray, "m"]:
    """Sample ``most`` of n rows, with the smallest ``row_bits``; sort their numbers."""
    if n <= most:
        return np.arange(n)
    rows, bits = np.zeros(0, np.intp), np.zeros(0, np.uint64)
    for first in range(0, n, 1 << 20):
        more = np.arange(first, min(first + (1 << 20), n))
        rows = np.concatenate([rows, more])
        bits = np.concatenate([bits, row_bits(seed, more)])
        if len(rows) > most:
            smallest = np.argpartition(bits, most - 1)[:most]
            rows, bits = rows[smallest], bits[smallest]
    return np.sort(rows)
