"""Scores on held-out data, and model choice.

``evaluate``         calibration error (1), retrieval (2), AUC of pairs.
``ranking``          which points and pairs are asked; sums of rankings.
``rows``             the same figures of the rows of a source.
``cross_validate``   votes of neighbours on points held out: ``held_out`` for learners.
``loo``              PSIS-LOO, where units are independent.
``answers``          probabilities by the answers that were given, yes or k of m.
``verification``     costs of log likelihood ratios: Cllr, EER, minDCF, by source.
``sources``          pairs of rows of sources under a metric, judged by these costs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
