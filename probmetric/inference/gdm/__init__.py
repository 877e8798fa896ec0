"""The generalized dissimilarity model: symbols and derivations.

The symbols are defined in ``models.gdm``: β = (b, θ) of q = 1 + dk entries, Z with a
row z per pair, t = Zβ.

In reading order:

``likelihood``   log joint density (1), gradient (2), Hessian (3): concave.
``fit``          knots, the mode by projected Newton steps, its certificate (1).
``bootstrap``    refits under weights on sites: Bayesian bootstrap, jackknife (1).
``target``       the posterior of (log b, log θ) for samplers (1).
``draws``        NUTS, Laplace or the bootstrap; a metric for each draw.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
