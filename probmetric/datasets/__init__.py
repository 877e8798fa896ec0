"""Data sets by name, file or generator."""

from probmetric.datasets.loading import Dataset as Dataset
from probmetric.datasets.loading import Unlabelled as Unlabelled
from probmetric.datasets.loading import load as load
from probmetric.datasets.loading import load_points as load_points
from probmetric.datasets.loading import names as names

__all__ = ["Dataset", "Unlabelled", "load", "load_points", "names"]
