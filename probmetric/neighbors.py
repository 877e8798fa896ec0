"""Nearest neighbours under anything learned: search, and a classifier.

``nearest`` finds neighbours exactly under any metric; ``KNeighborsClassifier`` votes
with them, under one metric or averaged over the draws of a posterior.
"""

from probmetric.neighbors_classifier import KNeighborsClassifier as KNeighborsClassifier
from probmetric.neighbors_search import nearest as nearest

__all__ = ["KNeighborsClassifier", "nearest"]
