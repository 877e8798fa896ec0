"""Data on disk: read in blocks, fit in passes over the rows, search and evaluate.

Reading
    ``source``     ``Source``: rows in parts, which are read in blocks.
    ``files``      ``open``: Parquet files, ``.npy`` files or arrays.
    ``remote``     files at a URL, by fsspec.
    ``choose``     rows by number, or a sample.
    ``resampled``  other weights of the rows, and ``with_intervals``.
    ``rows``       rows that commands read, and a sample of them.
    ``overlap``    test rows that were also used for training.
Passes
    ``engine``     ``run``: tasks in this process, or on a Dask cluster.
    ``reduce``     ``Reduction``: sums over rows, the interface of learners and engine.
    ``passes``     checkpoints of passes, to resume a fit.
Computations
    ``moments``    moments of columns and classes, in one pass.
    ``begin``      checks and settings of a fit.
    ``learners``   the learners that read data on disk, and their settings.
    ``lda``        ``LDA``, ``RCA`` and ``PairLDA``.
    ``gaussian_classes``  ``GaussianClasses`` and ``GLML``.
    ``anchors``    ``LCA`` from a sample of points (anchors) and their neighbors.
    ``mixture``    EM of the normal mixture, one pass per step.
    ``groups``     EM of grouped instances, collected in one pass.
    ``two_stage``  ``TwoStageMixture``.
    ``neighbors``  nearest rows.
    ``votes``      ``KNeighborsClassifier(votes="count")``.
    ``evaluate``   scores of ``evaluate``.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
