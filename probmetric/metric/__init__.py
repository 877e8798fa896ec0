"""Metrics, which compute the dissimilarity of a point y from a query q.

A metric is an immutable pytree without a batch axis. ``Metric`` is the common
interface. A call ``metric(u, v)`` returns a distance if ``is_distance`` is True, and a
dissimilarity otherwise. ``is_distance`` is True for pseudo-metrics: symmetric functions
that are zero for equal points and satisfy the triangle inequality. ``is_distance`` and
``symmetric`` are static attributes of the pytree.

``protocol``             interfaces of metrics, and the checks of their arguments.
``feature_names``        names of a metric's features.
``mahalanobis``          ‖L(x - y)‖².
``link``                 P(same) as a function of the distance: model and calibrated
                         links.
``local``, ``glml``      one matrix per query, and GLML's rules for this matrix.
``class_distribution``   divergences between the class probabilities p(c|x).
``fisher``               the Fisher matrix of p(c|x) as a local metric.
``pair_similarity``, ``pair_tiles``
                         log odds of a common source, for all pairs in bounded memory.
``splines``              city-block distance of monotone curves.
``mean``                 mean dissimilarity over draws.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
