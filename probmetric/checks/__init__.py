"""Checks of every learner's closed forms, and the comparisons that judge them.

A ``Check`` has an independent reference, the package's estimate, and wrong claims
(negative controls) that it must reject.

``check``        ``Check``, ``Problem`` and ``judge``, which selects the comparison.
``values``       values compared with values; a distance compared with its bound.
``compare``      values or draws compared with draws: z (1), detectable shift (2), Holm.
``uniformity``   ranks of SBC: mean (1), shape (2), detectable shift (3).
``criticism``    ``check_model``: prior, predictive check and calibration, in words.
``sbc``          simulation-based calibration with NUTS.
``claims``       builders of claims: density, Hessian, mode, NUTS, SBC.
``problems``     what all problems share: a fit, and changes of the data.
``sides``        what many checks compare: NumPyro's density, its draws, an EM's falls.
``lca``, ``two_stage``, ``gaussian_classes``, ``dca_gm``, ``gdm``,
``point_effects``, ``triplet_comparisons``
                 a folder per learner: ``problems`` (data sets), ``density``, then
                 ``quadrature`` or ``posterior``, and ``sampling``.
``own``          ``sbc`` and ``check_model`` of a NumPyro model of your own.
``eig_dml``, ``hierarchical_lca``, ``lda``, ``mds``, ``pair_lda``
                 a file per learner.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
