"""Draws of a metric: intervals, probabilities, and what they cannot answer."""

from probmetric.posterior.intervals import Interval as Interval
from probmetric.posterior.metric import PosteriorMetric as PosteriorMetric

__all__ = ["Interval", "PosteriorMetric"]
