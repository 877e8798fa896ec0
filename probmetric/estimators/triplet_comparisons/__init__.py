"""The estimators ``TripletMetric`` and ``TripletEmbedding``.

``estimator``   a metric of features, from triplets of points or from labels.
``embedding``   positions of objects without features, from triplets of their numbers.
``shared``      base of both classes: fit, draws, scores.
"""

# Pickles of version 0.1 refer to the classes here.
from probmetric.estimators.triplet_comparisons.embedding import (
    TripletEmbedding as TripletEmbedding,
)
from probmetric.estimators.triplet_comparisons.estimator import (
    TripletMetric as TripletMetric,
)
