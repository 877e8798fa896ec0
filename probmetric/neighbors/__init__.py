"""Nearest neighbours under anything learned: search, and a classifier.

``nearest`` finds neighbours exactly under any metric (on request a shortlist's only,
which ``shortlist_recall`` judges); ``KNeighborsClassifier`` votes with them, under one
metric or averaged over the draws of a posterior.
"""

from probmetric.neighbors.classifier import KNeighborsClassifier as KNeighborsClassifier
from probmetric.neighbors.search import nearest as nearest
from probmetric.neighbors.shortlist import shortlist_recall as shortlist_recall

__all__ = ["KNeighborsClassifier", "nearest", "shortlist_recall"]
