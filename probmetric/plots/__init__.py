"""Figures of metrics, draws and checks; every function returns its figure.

``fit``      a learned metric: its matrix, how well it separates classes.
``curves``   curves of a generalised dissimilarity model.
``draws``    the matrix with its spread, eigenvalues, ranks and traces.
``space``    points under a metric: embedding, classes, neighbours.
``local``    ellipses of a metric that changes from place to place.
``checks``   agreement, predictive checks, calibration.
``verification``  errors of every threshold.
``story``    the graph of a model; ranks of its calibration.
``style``    palette, blank figures, and how draws are read.
"""

from typing import Any

import lazy_loader

from probmetric.provenance import need

_offered, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        need("plots", "plots", "matplotlib")
    return _offered(name)
