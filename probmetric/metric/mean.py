"""The mean dissimilarity over draws of a metric: E[M] for Mahalanobis metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.linalg import psd_factor
from probmetric.metric.mahalanobis import Mahalanobis, check_factor
from probmetric.metric.protocol import (
    Bounded,
    Dissimilarity,
    Metric,
    MetricBase,
    maps_of,
    measured,
)
from probmetric.typing import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class MeanDissimilarity(MetricBase):
    """The mean dissimilarity over draws of a metric, as one metric.

    Use this metric to rank points. The mean is not a distance, even if the draws are
    distances. For votes use the draws instead, because averaged probabilities are
    better calibrated than votes under a single metric.

    Parameters
    ----------
    draws : tuple of metrics of the same class and shape

    Examples
    --------
    >>> draws = tuple(Mahalanobis(np.array([[s]])) for s in (1.0, 3.0))
    >>> mean = MeanDissimilarity(draws)
    >>> mean.pairwise(np.zeros((1, 1)), np.ones((1, 1))).tolist()
    [[5.0]]
    """

    draws: tuple[Dissimilarity, ...]
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return cast("Metric", self.draws[0]).n_features

    def maps(self) -> list[Array]:
        """Return the linear maps of all draws."""
        return [L for draw in self.draws for L in maps_of(draw)]

    def refuse_far(self, X: Float[np.ndarray, "m d"], name: str) -> None:
        """Raise ValueError for queries that one of the draws does not support."""
        for draw in self.draws:
            if isinstance(draw, Bounded):
                draw.refuse_far(X, name)

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute the mean dissimilarities, shape (m, n), adding one draw at a time."""
        by_draw = [jax.tree.leaves(draw) for draw in self.draws]
        leaves = tuple(jnp.stack(leaf) for leaf in zip(*by_draw, strict=True))
        structure = jax.tree.structure(self.draws[0])
        return _mean(structure, leaves, jnp.asarray(Q), jnp.asarray(P))


@partial(jax.jit, static_argnames="structure")
def _mean(
    structure: Any,
    leaves: tuple[Array, ...],
    Q: Float[Array, "m d"],
    P: Float[Array, "n d"],
) -> Float[Array, "m n"]:
    """Average over draws. Without ``jit`` the loop would compile at every call."""

    def add(total: Array, draw: tuple[Array, ...]) -> tuple[Array, None]:
        return total + jax.tree.unflatten(structure, draw).pairwise(Q, P), None

    zero = jnp.zeros((len(Q), len(P)), jnp.result_type(Q, P, *leaves))
    return jax.lax.scan(add, zero, leaves)[0] / len(leaves[0])


def mean_metric(metrics: Sequence[Dissimilarity]) -> Metric:
    """Return the metric of mean dissimilarity: E[M] for Mahalanobis metrics.

    The mean of squared distances is the squared distance under E[M], a Mahalanobis
    metric (usually with full rank). The mean metric has no link, because P(same) at the
    mean distance is not the mean of P(same).
    """
    factors = [check_factor(m.factor) for m in metrics if isinstance(m, Mahalanobis)]
    if not factors:
        return MeanDissimilarity(tuple(metrics))
    L = np.stack([np.asarray(factor, np.float64) for factor in factors])
    power = int(np.frexp(np.abs(L).max())[1])
    L = np.ldexp(L, -power)  # Squares of 1e200 overflow.
    with jax.enable_x64(True):
        M = np.einsum("spd,spe->de", L, L) / len(L)
        return Mahalanobis(np.ldexp(np.asarray(psd_factor(M)), power))
