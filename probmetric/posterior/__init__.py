"""Uncertainty of a metric: intervals, probabilities, and the next pairs to judge.

``metric``      ``PosteriorMetric``: draws of a metric, the only class with a draw
                axis. Its methods raise an error if the draws are not valid for them.
``bands``       simultaneous bands of binned shares.
``curves``      curves of a spline metric, with limits.
``draws``       conversion of draws of ``sample`` to a ``PosteriorMetric``.
``intervals``   functions of one draw, and intervals of their values.
``interval_metric``  ``IntervalMetric``: intervals from jackknife refits, without draws.
``jackknife``   groups of points, and limits from refits without each group.
``next_pairs``  choice of the next pairs to judge, by information or disagreement.
``noncentral``  limits for the length of a vector that is estimated with noise.
``stack``       stacking draws for ``vmap``, and unstacking them.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
