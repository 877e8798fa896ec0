"""What a model is fitted to: containers, pairs, groups, scaling, padding."""

from probmetric.data.containers import Distances as Distances
from probmetric.data.containers import Groups as Groups
from probmetric.data.containers import Labelled as Labelled
from probmetric.data.containers import Pairs as Pairs
from probmetric.data.containers import Points as Points

__all__ = ["Distances", "Groups", "Labelled", "Pairs", "Points"]
