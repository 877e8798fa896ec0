"""Generative models: each file has a NumPyro model, its parameters and its priors.

Every file defines ``Params`` and ``Prior`` tuples, the NumPyro model, ``simulate`` and
``to_metric``. The derivations are in ``inference``, with equal file names. In all
models, data weights multiply the log density, and ``learning_rate`` is the power η of
the likelihood. If the data have no labels (y is None), the model simulates labels.
Numbers in parentheses are the equations in the docstring of each file.

``lca``                pairs that coincide: marginal form (1).
``hierarchical_lca``   a map for each group around a common map (1)-(2).
``point_effects``      pairs that share points: an intercept for each point (1)-(3).
``gdm``                dissimilarity of sites by monotone curves (1)-(3).
``triplet_comparisons``  log odds of "near is nearer" (1).
``two_stage``          component, representative, instances: joint normal (1).
``gaussian_classes``   priors (1)-(2), points (3), mixtures within classes (4).
``lda``                Gaussian classes with one covariance; also the model of RCA.
``dca_gm``             classes of a projected point (1)-(2).
``distributions``      NumPyro distributions of observations: weights, learning rate,
                       missing entries.
``_sample``            variables that several models share.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
