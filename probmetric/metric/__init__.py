"""The metrics, whatever learned them: how far y is from the query q.

A metric is an immutable pytree that holds one metric, no batch axis. Smaller is
closer. Each kind is final; ``Metric`` is what they have in common, and a call
``metric(u, v)`` is the distance where there is one, else the dissimilarity. The facts
``is_distance`` (a pseudo-metric: symmetric, zero on equal points, triangle
inequality for its ``distance``) and ``symmetric`` are static.

``protocol``             what a metric offers, and how metrics compare.
``mahalanobis``          ‖L(x - y)‖², and the link to a probability of *same*.
``local``, ``glml``      a matrix a query (1)-(2), and GLML's rules for it (1)-(9).
``class_distribution``   divergences of p(c|x): log joint (1), scores (2).
``fisher``               the Fisher matrix of p(c|x) (1)-(3), as a local metric.
``pair_similarity``, ``pair_tiles``
                         log odds of a common source; all pairs in bounded memory.
``mean``                 the metric of mean dissimilarity over draws.
"""

from probmetric.metric.class_distribution import ClassDistribution as ClassDistribution
from probmetric.metric.fisher import LocalFisher as LocalFisher
from probmetric.metric.local import LocalMahalanobis as LocalMahalanobis
from probmetric.metric.mahalanobis import Link as Link
from probmetric.metric.mahalanobis import Mahalanobis as Mahalanobis
from probmetric.metric.pair_similarity import PairSimilarity as PairSimilarity
from probmetric.metric.protocol import Dissimilarity as Dissimilarity
from probmetric.metric.protocol import Metric as Metric

__all__ = [
    "ClassDistribution",
    "Dissimilarity",
    "Link",
    "LocalFisher",
    "LocalMahalanobis",
    "Mahalanobis",
    "Metric",
    "PairSimilarity",
]
