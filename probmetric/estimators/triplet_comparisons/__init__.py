"""The estimators ``TripletMetric`` and ``TripletEmbedding``.

``estimator``   a metric of features, from triplets of points or from labels.
``embedding``   places of objects that have no features, from triplets of their numbers.
``shared``      what both do: scores, a warning, draws as distances.
"""

# Pickles of the time when this folder was a file name the classes here.
from probmetric.estimators.triplet_comparisons.embedding import (
    TripletEmbedding as TripletEmbedding,
)
from probmetric.estimators.triplet_comparisons.estimator import (
    TripletMetric as TripletMetric,
)
