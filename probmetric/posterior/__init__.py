"""A metric's uncertainty: intervals and probabilities, and which of them are valid.

``metric``      ``PosteriorMetric``: the only class with a draw axis; it raises for
                questions that its draws do not answer.
``bands``       simultaneous bands of binned shares.
``curves``      curves of a metric of splines, with limits.
``draws``       draws of ``sample`` as one.
``intervals``   functions of one draw, and intervals of their values.
``interval_metric``  ``IntervalMetric``: a fit and its jackknife; intervals, no draws.
``jackknife``   groups of points, and limits from refits without them.
``next_pairs``  which pairs to ask about next, by information or disagreement.
``noncentral``  limits for the length of a vector that is seen with noise.
``stack``       draws stacked for ``vmap``, and taken apart again.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
