"""Figures of metrics, draws and checks; every function returns its figure.

Common arguments: ``learned`` is a fitted learner or a metric, ``X`` are points (n, d)
without NaN, ``y`` are classes (n,). Names of features and classes are optional.
``ax`` or ``axes`` are Matplotlib axes to draw in. By default a new figure is created.

``fit``      matrix of a learned metric, and separation of classes.
``curves``   curves of a generalized dissimilarity model.
``draws``    mean and spread of the matrix, eigenvalues.
``space``    embedding and neighbors of points.
``local``    ellipses of a metric that depends on the point.
``checks``   predictive checks, calibration, simulation-based calibration (SBC).
``verification``  errors of "same source" decisions at every threshold.
``style``    palette, empty figures, and reading of draws.
"""

from probmetric._lazy import attach
from probmetric.provenance import need

_getattr, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        need("plots", "plots", "matplotlib")
    return _getattr(name)
