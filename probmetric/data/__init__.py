"""Containers, checks and readers of data.

``containers``   ``Labeled``, ``Points``, ``Pairs``, ``Triplets``, ``OddOneOut``,
                 ``Groups`` and ``Distances``: the data argument of models, fits and
                 samplers.
``inputs``       checks of points, labels and pairs.
``unlabeled``    rows without a label.
``pairs``        pairs from class labels: nearest, impostors, all.
``sites``        pairs of sites from counts of species.
``triplets``     triplets from arrays or class labels.
``groups``       groups of points with a common source, stacked by size.
``scaling``      center and scale of each feature, also with missing entries.
``padding``      padding of arrays to a few sizes, to avoid compiling again.
``truth``        the score of classifiers.
``hash``         hashes of data, and a canonical row order.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
