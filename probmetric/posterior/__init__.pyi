from .curves import Curves as Curves, curves as curves
from .draws import draws_to_metric as draws_to_metric
from .interval_metric import (
    IntervalMetric as IntervalMetric,
    with_intervals as with_intervals,
)
from .intervals import Interval as Interval, spread as spread
from .jackknife import aligned as aligned, groups_of as groups_of
from .metric import PosteriorMetric as PosteriorMetric
from .next_pairs import NextPairs as NextPairs, next_pairs as next_pairs
