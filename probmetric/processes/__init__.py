"""Passes over data on disk that several processes share, and their checkpoints.

``distributed``  join processes, gather their results, exit if a process is lost.
``bins``         the ordered sum over bins that several processes store.
``checkpoint``   results of passes stored on disk, to resume a fit.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
