"""The rows of the triplets in the likelihood: differences, responses and weights."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.data.padding import bucket, pad_rows
from probmetric.typing import Array, Numeric


class Differences(NamedTuple):
    """δ of the K alternatives, responses y, weights ηw (padding has 0), lapse rate."""

    delta: Float[Array, "N K d"]
    y: Int[Array, "N"]
    w: Float[Array, "N"]
    lapse: Float[Array, ""]


def differences(
    triplets: Triplets, learning_rate: float = 1.0, lapse_rate: Numeric = 0.0
) -> Differences:
    """Compute the differences of triplets with responses, padded to a bucket."""
    if triplets.y is None:
        raise ValueError("triplets.y must be responses 0 or 1, got None.")
    triplets = checked_rows(triplets)
    X, size = np.asarray(triplets.X), bucket(len(triplets.anchor))
    delta = np.stack([X[i] - X[j] for i, j in triplets.alternatives], 1)
    w = (learning_rate * np.asarray(weights(triplets))).astype(X.dtype)
    y = np.asarray(triplets.y).astype(int)
    lapse = np.asarray(lapse_rate, X.dtype)
    return Differences(*(pad_rows(rows, size) for rows in (delta, y, w)), lapse=lapse)
