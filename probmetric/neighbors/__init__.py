"""Nearest neighbors under any metric: search, votes, a classifier and a regressor.

``nearest`` finds exact neighbors under any metric, or approximate neighbors with its
option ``shortlist``. ``KNeighborsClassifier`` and ``KNeighborsRegressor`` predict from
neighbors, under one metric or averaged over the draws of a posterior.

``search``       ``nearest``: the entry point, and ties.
``linear``       exact search under Mahalanobis metrics with scikit-learn.
``scan``         search under other metrics, tile by tile; shortlists.
``block``        merges a block of points into the k best candidates.
``range``        errors for values whose squares float64 cannot represent.
``votes``        soft votes, their scale, the class prior, and tuning.
``strength``     choice of a prior's strength by cross-validation.
``learned``      learning a metric inside ``fit``.
``classifier``, ``regressor``, ``table``  the public objects.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
