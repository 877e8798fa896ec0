"""The checks of the generalised dissimilarity model.

``problems``   simulated sites, pairs of labelled points, changes of a problem.
``density``    I-splines, log joint density, gradient, Hessian and mode.
``sampling``   draws against NUTS on the NumPyro model; calibration by simulation.
"""

from probmetric.checks.gdm import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
