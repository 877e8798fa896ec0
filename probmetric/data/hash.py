"""A data set as named arrays, and the SHA-256 of these."""

import hashlib

import jax
import numpy as np


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
    """Return a SHA-256 of names, types, shapes and bytes of the data's arrays."""
    digest = hashlib.sha256()
    for name, array in data_variables(data).items():
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
