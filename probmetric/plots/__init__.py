"""Figures of metrics, draws and checks; every function returns its figure.

``fit``      a learned metric: its matrix, class separation.
``curves``   curves of a generalized dissimilarity model.
``draws``    the matrix with its spread, eigenvalues, ranks and traces.
``space``    points under a metric: embedding, classes, neighbors.
``local``    ellipses of a metric that changes from place to place.
``checks``   agreement, predictive checks, calibration.
``verification``  errors at every threshold.
``story``    graph of a model; ranks of simulation-based calibration.
``style``    palette, blank figures, reading of draws.
"""

import lazy_loader

from probmetric.provenance import need

_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        need("plots", "plots", "matplotlib")
    return _getattr(name)
