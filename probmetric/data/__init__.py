"""The data that models are fitted to.

``containers``   ``Labelled``, ``Points``, ``Pairs``, ``Triplets``, ``Groups`` and
                 ``Distances``: the one data argument of every model, fit and sampler.
``inputs``       points, labels and pairs from users, checked once.
``unlabeled``    rows without a label: left out, or warned about.
``pairs``        pairs made from class labels: nearest, impostors, all.
``sites``        pairs of sites from a table of species.
``triplets``     triplets made from class labels.
``groups``       sources with their instances, stacked by size.
``scaling``      centre and scale of each feature, also with missing entries.
``padding``      few sizes, so that data sets share compilations.
``source``       rows that need not fit in memory: parts, bins, blocks of one shape.
``choose``       some rows of a source: of given numbers, or a sample by hash.
``files``        ``open``: Parquet and ``.npy`` files, or arrays, as a source.
``resampled``    a source under other weights: without a group of rows, bootstrapped.
``truth``        predictions beside true labels: the score of classifiers.
``hash``         a data set as named arrays, its SHA-256, and a canonical row order.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
