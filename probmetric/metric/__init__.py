"""Metrics: the dissimilarity of a point y from a query q; smaller is closer.

A metric is an immutable pytree with one metric and no batch axis. ``Metric`` is the
common interface. ``metric(u, v)`` is the distance if ``is_distance``, and the
dissimilarity otherwise. ``is_distance`` (a pseudo-metric: symmetric, zero for equal
points, with the triangle inequality) and ``symmetric`` are static.

``protocol``             interfaces of metrics, and the checks of their arguments.
``feature_names``        names of a metric's features.
``mahalanobis``          ‖L(x - y)‖².
``link``                 from a distance to P(same): the model's link (1), calibrated
                         links (2)-(3).
``local``, ``glml``      a matrix per query (1)-(2), and GLML's rules for it (1)-(9).
``class_distribution``   divergences of p(c|x): log joint (1), scores (2).
``fisher``               the Fisher matrix of p(c|x) (1)-(3), as a local metric.
``pair_similarity``, ``pair_tiles``
                         log odds of a common source; all pairs in bounded memory.
``splines``              city-block distance of monotone curves (1)-(2).
``mean``                 mean dissimilarity over draws.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
