"""Scores on held-out data, and model choice.

``evaluate``         calibration error (1), retrieval (2), AUC of pairs.
``ranking``          figures shared by arrays and datasets on disk.
``rows``             the figures of a dataset on disk.
``cross_validate``   soft votes of neighbors on held-out points; ``held_out``.
``loo``              PSIS-LOO for independent units.
``answers``          probabilities judged by responses, yes or no, or k of m.
``verification``     costs of log likelihood ratios: Cllr, EER, minDCF.
``sources``          costs of a metric on same-source and different-source pairs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
