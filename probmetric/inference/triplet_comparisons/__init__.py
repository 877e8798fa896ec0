"""Triplet comparisons: symbols and derivations.

The symbols are defined in ``models.triplet_comparisons``: differences δ_ik of the K
alternatives of triplet i, squared distances D_ik and probabilities P of its Eqs. (1)
and (2), responses y_i, data weights w_i, learning rate η, lapse rate ε, and the prior W
~ N(W₀, c²/λ) by entry.

In reading order:

``statistics``   the rows δ_ik, y_i and ηw_i.
``likelihood``   log joint density (1), gradient (2), lapses (3), (4).
``start``        a prior around the Euclidean map, without the responses.
``embedding``    objects without features: rows (1), prior (2), start (3).
``fit``          the mode.
``curvature``    Hessian (1, 2, 4), certificate (3).
``target``       the log joint density for samplers; Laplace's Gaussian.
``draws``        draws by every method.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
