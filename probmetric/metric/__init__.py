"""The metrics, whatever learned them: how far y is from the query q.

A metric is an immutable pytree that holds one metric, no batch axis. Smaller is
closer. Each kind is final; ``Metric`` is what they have in common, and a call
``metric(u, v)`` is the distance where there is one, else the dissimilarity. The facts
``is_distance`` (a pseudo-metric: symmetric, zero on equal points, triangle
inequality for its ``distance``) and ``symmetric`` are static.

``protocol``             what a metric offers, and how metrics compare.
``feature_names``        what features are called, where that is known.
``mahalanobis``          ‖L(x - y)‖².
``link``                 from it to a probability of *same*: the model's (1), calibrated
                         (2)-(3).
``local``, ``glml``      a matrix a query (1)-(2), and GLML's rules for it (1)-(9).
``class_distribution``   divergences of p(c|x): log joint (1), scores (2).
``fisher``               the Fisher matrix of p(c|x) (1)-(3), as a local metric.
``pair_similarity``, ``pair_tiles``
                         log odds of a common source; all pairs in bounded memory.
``splines``              city blocks of monotone curves (1)-(2).
``mean``                 the metric of mean dissimilarity over draws.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
