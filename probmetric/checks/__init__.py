"""Checks of every learner's closed forms, and the comparisons that judge them.

A ``Check`` has an independent reference, the package's estimate, and wrong claims
(negative controls) that it must reject. In docstrings of estimates, "wrong: ..."
describes the negative control.

``check``        ``Check``, ``Problem`` and ``judge``, which selects the comparison.
``values``       values compared with values, and a distance with its bound.
``compare``      values or draws compared with draws: z, detectable shift, Holm.
``summary``      mean, sd, Monte Carlo error, R-hat and effective size of draws.
``validation``   ``validate``: checks of a model, and their verdicts.
``uniformity``   tests of SBC ranks: mean, shape, detectable shift.
``criticism``    ``check_model``: prior, predictive check and calibration.
``ranks``        simulation-based calibration with NUTS.
``claims``       builders of claims: density, Hessian, mode, NUTS, Laplace, SBC.
``effects``      claims that LCA with groups and with point effects share.
``problems``     functions for all problems: standardize, fit, change the data.
``sides``        references that many checks share: NumPyro density and draws.
``own``          ``sbc`` and ``check_model`` for your own NumPyro model.

Each learner has a folder or a file: ``problems`` (data sets), ``density``,
``quadrature`` or ``posterior``, and ``sampling``.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
