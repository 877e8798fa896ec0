"""Hashes of data: the SHA-256 of named arrays, and a hash of each row."""

import hashlib

import jax
import numpy as np
from jaxtyping import Float


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


def row_hashes(X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Hash each row to 64 bits (uint64): the BLAKE2b of its numbers in float64.

    Equal rows have equal hashes on every machine; 0.0 and -0.0 are equal.
    """
    rows = np.asarray(X, "<f8") + 0.0
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
