"""Claims about the generalized dissimilarity model.

``problems``   simulated sites, pairs of labeled points, changes of a problem.
``density``    log joint density, gradient, Hessian and mode.
``sampling``   draws compared with NUTS; calibration by simulation.
"""

from probmetric.checks.gdm import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
