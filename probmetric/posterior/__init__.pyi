from .intervals import Interval as Interval, spread as spread
from .metric import PosteriorMetric as PosteriorMetric
