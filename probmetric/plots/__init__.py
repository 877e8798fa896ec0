"""Figures of metrics, draws and checks; every function returns its figure.

``fit``      matrix of a learned metric, and separation of classes.
``curves``   curves of a generalized dissimilarity model.
``draws``    mean and spread of the matrix, eigenvalues, ranks and traces.
``space``    embedding, class probabilities and neighbors of points.
``local``    ellipses of a metric that depends on the point.
``checks``   agreement with sampling, predictive checks, calibration.
``verification``  errors at every threshold.
``story``    graph of a model, and ranks of simulation-based calibration.
``style``    palette, blank figures, reading of draws.
"""

from probmetric._lazy import attach
from probmetric.provenance import need

_getattr, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        need("plots", "plots", "matplotlib")
    return _getattr(name)
