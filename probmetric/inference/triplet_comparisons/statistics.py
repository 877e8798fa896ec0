"""The rows of the triplets in the likelihood: differences, signs and weights."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.data.padding import bucket, pad_rows
from probmetric.typing import Array


class Differences(NamedTuple):
    """U, V, signs s and weights ηw, padded by rows of weight 0."""

    u: Float[Array, "N d"]
    v: Float[Array, "N d"]
    sign: Float[Array, "N"]
    w: Float[Array, "N"]


def differences(triplets: Triplets, learning_rate: float = 1.0) -> Differences:
    """Compute the differences of triplets with responses, padded to a bucket."""
    if triplets.y is None:
        raise ValueError("triplets.y must be responses 0 or 1, got None.")
    triplets = checked_rows(triplets)
    X, size = np.asarray(triplets.X), bucket(len(triplets.anchor))
    a, near, far = (np.asarray(k) for k in triplets[1:4])
    beside = np.asarray(triplets.beside)
    sign = np.where(np.asarray(triplets.y) == 1, 1.0, -1.0).astype(X.dtype)
    w = (learning_rate * np.asarray(weights(triplets))).astype(X.dtype)
    rows = (X[beside] - X[far], X[a] - X[near], sign, w)
    return Differences(*(pad_rows(column, size) for column in rows))
