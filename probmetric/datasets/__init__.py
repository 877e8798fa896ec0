"""Load data sets by name, by file or from a generator.

``loading``     ``load`` and ``load_points``: built-in sets, generators, files, OpenML.
``tables``      text, NPZ and Parquet files to points, labels and groups.
``columns``     warnings about row counters and codes for missing values.
``generators``  waveform, twonorm and ringnorm, with their Bayes errors.
``sites``       ``biocrust``: covariates of sites and counts of species.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
