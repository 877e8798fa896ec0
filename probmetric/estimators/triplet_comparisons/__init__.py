"""The estimators ``TripletMetric`` and ``TripletEmbedding``.

``estimator``   a metric of features, from triplets of points or from labels.
``embedding``   places of objects that have no features, from triplets of their numbers.
"""
