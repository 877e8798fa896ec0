"""Scores on held-out data, and model choice.

``evaluate``         scores of a classifier or metric: calibration, retrieval, AUC.
``ranking``          scores shared by arrays and datasets on disk.
``cross_validate``   scores of soft votes of neighbors on held-out points.
``loo``              leave-one-out (PSIS-LOO) for independent observations.
``answers``          scores of probabilities for yes/no responses or counts.
``verification``     costs of log likelihood ratios: Cllr, EER, minDCF.
``sources``          costs of a metric on same-source and different-source pairs.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
