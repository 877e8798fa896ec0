"""Uncertainty of a metric: intervals, probabilities, and the next pairs to judge.

``metric``      ``PosteriorMetric``: draws of a metric, the only class with a draw
                axis. Its methods raise an error if the draws are not valid for them.
``bands``       simultaneous bands of binned shares.
``curves``      curves of a spline metric, with limits.
``draws``       conversion of draws of ``sample`` to a ``PosteriorMetric``.
``intervals``   functions of one draw, and intervals of their values.
``interval_metric``  ``IntervalMetric``: intervals from jackknife refits, without draws.
``importance``  shares of the deviance, by permutations or refits with some curves.
``jackknife``   choice of the points that refits leave out, and limits from the refits.
``next_pairs``  choice of the next pairs to judge, by information or disagreement.
``stack``       stacking draws for ``vmap``, and unstacking them.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
