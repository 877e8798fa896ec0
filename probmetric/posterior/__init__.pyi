from .curves import curves as curves
from .interval_metric import IntervalMetric as IntervalMetric
from .intervals import Interval as Interval
from .metric import PosteriorMetric as PosteriorMetric
from .next_pairs import next_pairs as next_pairs
