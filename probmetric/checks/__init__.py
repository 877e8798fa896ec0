"""Checks of every learner's closed forms, and the comparisons that judge them.

A ``Check`` has an independent reference, the package's estimate, and wrong claims
(negative controls) that it must reject.

``check``        ``Check``, ``Problem`` and ``judge``, which selects the comparison.
``values``       values compared with values; a distance compared with its bound.
``compare``      values or draws compared with draws: z, detectable shift, Holm.
``summary``      mean, sd, Monte Carlo error, R-hat and effective size of draws.
``validation``   ``validate``: checks of a model, and their verdicts.
``uniformity``   tests of SBC ranks: mean, shape, detectable shift.
``criticism``    ``check_model``: prior, predictive check and calibration, in words.
``ranks``        simulation-based calibration with NUTS.
``claims``       builders of claims: density, Hessian, mode, NUTS, Laplace, SBC.
``effects``      claims that LCA with groups and with point effects share.
``problems``     functions for all problems: standardize, fit, change the data.
``sides``        shared sides of checks: NumPyro density and draws.
``lca``, ``two_stage``, ``gaussian_classes``, ``dca_gm``, ``gdm``,
``triplet_comparisons``
                 a folder per learner: ``problems`` (data sets), ``density``,
                 ``quadrature`` or ``posterior``, and ``sampling``.
``own``          ``sbc`` and ``check_model`` for your own NumPyro model.
``eig_dml``, ``hierarchical_lca``, ``lda``, ``mds``, ``pair_lda``, ``point_effects``
                 a file per learner.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
