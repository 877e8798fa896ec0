"""Draws of a metric: intervals and probabilities, and which of them are valid.

``metric``      ``PosteriorMetric``: the only class with a draw axis; it raises for
                questions that its draws do not answer.
``draws``       draws of ``sample`` as one.
``intervals``   functions of one draw, and intervals of their values.
``stack``       draws stacked for ``vmap``, and taken apart again.
"""

from probmetric.posterior.intervals import Interval as Interval
from probmetric.posterior.metric import PosteriorMetric as PosteriorMetric

__all__ = ["Interval", "PosteriorMetric"]
