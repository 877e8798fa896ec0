"""Learned metrics and draws on disk.

``metric_file``   metrics and draws of metrics, as NPZ arrays with a JSON header.
``draws_file``    draws of ``sample`` as NetCDF, and their conversion to metrics.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
