"""Figures of metrics, draws and checks; every function returns its figure.

``fit``      a learned metric: its matrix, how well it separates classes.
``draws``    the matrix with its spread, eigenvalues, ranks and traces.
``space``    points under a metric: embedding, classes, neighbours.
``local``    ellipses of a metric that changes from place to place.
``checks``   agreement, predictive checks, calibration.
``style``    palette, blank figures, and how draws are read.
"""

from probmetric.plots.checks import agreement as agreement
from probmetric.plots.checks import calibration as calibration
from probmetric.plots.checks import predictive_check as predictive_check
from probmetric.plots.draws import eigenvalues as eigenvalues
from probmetric.plots.draws import metric as metric
from probmetric.plots.draws import rank as rank
from probmetric.plots.draws import trace as trace
from probmetric.plots.local import local_ellipses as local_ellipses
from probmetric.plots.space import class_probabilities as class_probabilities
from probmetric.plots.space import embedding as embedding
from probmetric.plots.space import neighbor_probabilities as neighbor_probabilities

__all__ = [
    "agreement",
    "calibration",
    "class_probabilities",
    "eigenvalues",
    "embedding",
    "local_ellipses",
    "metric",
    "neighbor_probabilities",
    "predictive_check",
    "rank",
    "trace",
]
