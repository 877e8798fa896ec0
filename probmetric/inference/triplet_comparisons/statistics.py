"""The rows of the triplets in the likelihood: differences, responses and weights."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.data.padding import bucket, pad_rows
from probmetric.typing import Array


class Differences(NamedTuple):
    """δ of the K alternatives, responses y and weights ηw; padding has weight 0."""

    delta: Float[Array, "N K d"]
    y: Int[Array, "N"]
    w: Float[Array, "N"]


def differences(triplets: Triplets, learning_rate: float = 1.0) -> Differences:
    """Compute the differences of triplets with responses, padded to a bucket."""
    if triplets.y is None:
        raise ValueError("triplets.y must be responses 0 or 1, got None.")
    triplets = checked_rows(triplets)
    X, size = np.asarray(triplets.X), bucket(len(triplets.anchor))
    delta = np.stack([X[i] - X[j] for i, j in triplets.alternatives], 1)
    w = (learning_rate * np.asarray(weights(triplets))).astype(X.dtype)
    rows = (delta, np.asarray(triplets.y).astype(int), w)
    return Differences(*(pad_rows(column, size) for column in rows))
