"""A metric of one's own goes to a file and back; only classes handed in are made."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

import probmetric as pm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class City:
    """Sum of absolute differences, with a weight for each feature."""

    weights: jax.Array
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def dissimilarity(self, q, Y):
        return (self.weights * jnp.abs(Y - q)).sum(-1)

    def pairwise(self, Q, P):
        return jax.vmap(self.dissimilarity, (0, None))(Q, P)

    def distance(self, A, B):
        return (self.weights * jnp.abs(A - B)).sum(-1)

    def to_arrays(self):
        return {"array": self.weights}

    @classmethod
    def from_arrays(cls, arrays):
        return cls(arrays["array"])


def test_a_metric_and_draws_of_it_come_back_bit_for_bit(tmp_path):
    weights = np.random.default_rng(0).gamma(1.0, size=(5, 3))
    pm.save_metric(City(weights[0]), tmp_path / "one.npz")
    one = pm.load_metric(tmp_path / "one.npz", kinds=[City])
    assert isinstance(one, City)
    np.testing.assert_array_equal(one.weights, weights[0])
    draws = pm.posterior.PosteriorMetric([City(w) for w in weights], "prediction")
    pm.save_metric(draws, tmp_path / "draws.npz")
    again = pm.load_metric(tmp_path / "draws.npz", kinds=(City, pm.Mahalanobis))
    assert again.purpose == "prediction"
    np.testing.assert_array_equal([draw.weights for draw in again.draws], weights)
