"""Labelled data sets, loaded by name, from a file or from a generator.

``loading``     ``load`` and ``load_points``: built-in sets, generators, files and
                OpenML, all as one ``Dataset``.
``tables``      CSV, NPZ and Parquet files to points, labels and groups, checked.
``generators``  waveform, twonorm and ringnorm, with their Bayes errors.
"""

from probmetric.datasets.loading import Dataset as Dataset
from probmetric.datasets.loading import Unlabelled as Unlabelled
from probmetric.datasets.loading import load as load
from probmetric.datasets.loading import load_points as load_points
from probmetric.datasets.loading import names as names

__all__ = ["Dataset", "Unlabelled", "load", "load_points", "names"]
