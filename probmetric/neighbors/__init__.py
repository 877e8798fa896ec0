"""Nearest neighbours under any metric: search, votes and a classifier.

``nearest`` finds neighbours exactly under any metric (on request a shortlist's only,
which ``shortlist_recall`` judges); ``KNeighborsClassifier`` votes with them, under one
metric or averaged over the draws of a posterior.

``search``       ``nearest``: the entry, and the order of ties.
``linear``       Mahalanobis kinds by scikit-learn; settled rows (1), rounding (2).
``scan``         every other kind, tile by tile, keeping the k best.
``block``        the k best so far, and a block sorted in by one product (1).
``stream``       the same among points that are read in parts, by several processes.
``range``        dissimilarities that float64 does not hold.
``shortlist``    approximate search for local metrics, and its recall.
``votes``        soft votes (1), their scale (2), the class prior (3), tuning.
``source_votes`` count votes among points that are read in parts.
``strength``     how strong a learner's prior should be, by folds.
``learned``      a metric learned inside ``fit``.
``classifier``   ``KNeighborsClassifier``.
``regressor``    ``KNeighborsRegressor``.
``table``        neighbours as a data frame.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
