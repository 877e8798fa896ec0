"""The metric of mean dissimilarity over draws of a metric: E[M] where there is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

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
    maps_of,
    measured,
    said,
    two_points,
)
from probmetric.typing import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class MeanDissimilarity:
    """The mean dissimilarity over draws of a metric, as one metric.

    It ranks; it is not a distance, also where its draws are. For votes use the draws:
    averaged probabilities are better calibrated than votes under any one metric.

    Parameters
    ----------
    draws : tuple of metrics of one kind

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = tuple(pm.Mahalanobis(np.array([[s]])) for s in (1.0, 3.0))
    >>> mean = MeanDissimilarity(draws)
    >>> np.asarray(mean.pairwise(np.zeros((1, 1)), np.ones((1, 1)))).tolist()
    [[5.0]]
    """

    draws: tuple[Any, ...]
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    __repr__ = said

    @property
    def n_features(self) -> int:
        """Number of features d of the points it takes."""
        return self.draws[0].n_features

    def maps(self) -> list[Array]:
        """Return the maps before the squares of all draws."""
        return [L for draw in self.draws for L in maps_of(draw)]

    def refuse_far(self, X: Float[np.ndarray, "m d"], name: str) -> None:
        """Refuse queries that one of the draws cannot take."""
        for draw in self.draws:
            if isinstance(draw, Bounded):
                draw.refuse_far(X, name)

    @measured
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return the mean dissimilarities of the rows of Y from one query."""
        return self.pairwise(jnp.asarray(q)[None], jnp.asarray(Y))[0]

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return the mean dissimilarities, shape (m, n), one draw at a time."""
        every = [jax.tree.leaves(draw) for draw in self.draws]
        leaves = tuple(jnp.stack(leaf) for leaf in zip(*every, strict=True))
        structure = jax.tree.structure(self.draws[0])
        return _mean(structure, leaves, jnp.asarray(Q), jnp.asarray(P))

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return the mean dissimilarity of v from the query u."""
        u, v = two_points(self, u, v)
        return float(self.dissimilarity(u, v[None])[0])


@partial(jax.jit, static_argnames="structure")
def _mean(
    structure: Any,
    leaves: tuple[Any, ...],
    Q: Float[Array, "m d"],
    P: Float[Array, "n d"],
) -> Float[Array, "m n"]:
    """Add up draw by draw; outside of ``jit`` the loop would compile at every call."""

    def add(total: Any, draw: Any) -> Any:
        return total + jax.tree.unflatten(structure, draw).pairwise(Q, P), None

    zero = jnp.zeros((len(Q), len(P)), jnp.result_type(Q, P, *leaves))
    return jax.lax.scan(add, zero, leaves)[0] / len(leaves[0])


def mean_metric(metrics: Sequence[Dissimilarity]) -> Metric:
    """Return the metric of mean dissimilarity: E[M] for Mahalanobis kinds.

    The mean of squared distances is the squared distance under E[M], which is a
    Mahalanobis metric again (of full rank as a rule). It carries no link: the P(same)
    of the mean distance is not the mean of P(same).

    Examples
    --------
    Lengths of 1 and of 3 for one step: squares are averaged, (1² + 3²) / 2.

    >>> import numpy as np
    >>> from probmetric.metric import Mahalanobis, mean_metric
    >>> mean = mean_metric([Mahalanobis(np.array([[s]])) for s in (1.0, 3.0)])
    >>> round(mean.pairwise(np.zeros((1, 1)), np.ones((1, 1))).item(), 6)
    5.0
    """
    factors = [check_factor(m.factor) for m in metrics if isinstance(m, Mahalanobis)]
    if not factors:
        return MeanDissimilarity(tuple(metrics))
    L = np.stack([np.asarray(factor, np.float64) for factor in factors])
    power = int(np.frexp(np.abs(L).max())[1])
    L = np.ldexp(L, -power)  # Squares of 1e200 are no numbers.
    with jax.enable_x64(True):
        M = np.einsum("spd,spe->de", L, L) / len(L)
        return Mahalanobis(np.ldexp(np.asarray(psd_factor(M)), power))
