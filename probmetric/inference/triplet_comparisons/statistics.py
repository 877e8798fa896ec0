"""The rows of the triplets in the likelihood: differences, responses and weights."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.data.padding import bucket, pad_rows
from probmetric.models.triplet_comparisons import TripletPrior
from probmetric.typing import Array, Numeric


class Differences(NamedTuple):
    """δ of the K alternatives, responses y, weights ηw (0 for padding), lapse rate.

    If raters differ, ``rater`` is the rater of each response and ``z`` the effects.
    """

    delta: Float[Array, "N K d"]
    y: Int[Array, "N"]
    w: Float[Array, "N"]
    lapse: Float[Array, ""]
    rater: Int[Array, "N"] | None = None
    z: Float[Array, "m"] | None = None

    def sharpened(self, prior: TripletPrior) -> Float[Array, "N K d"]:
        """Return √s_r δ for the rater r of each response."""
        if self.rater is None or self.z is None:
            return self.delta
        s = prior.sharpness(self.z)[self.rater]
        return self.delta * jnp.sqrt(s)[:, None, None]


def differences(
    triplets: Triplets,
    learning_rate: float = 1.0,
    lapse_rate: Numeric = 0.0,
    z: Float[Array, "m"] | None = None,
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
    delta, y, w = (pad_rows(a, size) for a in (delta, y, w))
    rater = None if triplets.rater is None else pad_rows(triplets.rater, size)
    return Differences(delta, y, w, lapse, rater, z)
