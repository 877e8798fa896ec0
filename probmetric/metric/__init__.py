"""The metrics, whatever learned them: how far y is from the query q.

A metric is an immutable pytree that holds one metric, no batch axis. Smaller is
closer. Each kind is final; ``Metric`` is what they have in common. The facts
``is_distance`` (a pseudo-metric: symmetric, zero on equal points, triangle
inequality for its ``distance``) and ``symmetric`` are static.

``mahalanobis``          ‖L(x - y)‖², and the link to a probability of *same*.
``local``, ``glml``      a matrix a query (1)-(2), and GLML's rules for it (1)-(9).
``class_distribution``   divergences of p(c|x): log joint (1), scores (2).
``fisher``               the Fisher matrix of p(c|x) (1)-(3), as a local metric.
``pair_similarity``, ``pair_tiles``
                         log odds of a common source; all pairs in bounded memory.
``mean``                 the metric of mean dissimilarity over draws.
"""

from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float

from probmetric.metric.class_distribution import ClassDistribution as ClassDistribution
from probmetric.metric.fisher import LocalFisher as LocalFisher
from probmetric.metric.local import LocalMahalanobis as LocalMahalanobis
from probmetric.metric.mahalanobis import Link as Link
from probmetric.metric.mahalanobis import Mahalanobis as Mahalanobis
from probmetric.metric.pair_similarity import PairSimilarity as PairSimilarity
from probmetric.typing import Array

__all__ = [
    "ClassDistribution",
    "Link",
    "LocalFisher",
    "LocalMahalanobis",
    "Mahalanobis",
    "Metric",
    "PairSimilarity",
]


@runtime_checkable
class Metric(Protocol):
    """The interface that drives nearest neighbours under anything learned."""

    is_distance: ClassVar[bool]
    symmetric: ClassVar[bool]

    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return how far the rows of Y are from one query; smaller is closer."""
        ...

    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return how far each row of P is from each query, shape (m, n)."""
        ...
