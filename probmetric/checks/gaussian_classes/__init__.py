"""The checks of Gaussian classes and GLML, cheapest first.

``problems``   simulated problems, and problems made from labelled data.
``density``    evidence, bias matrix and error expansion against quadrature and
               automatic derivatives.
``posterior``  evidence, modes and class probabilities for each covariance.
``rules``      GLML's matrices and distances from the problems that they solve.
``sampling``   moments against NUTS; calibration of exact draws.
"""

from probmetric.checks.gaussian_classes import density, posterior, rules, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *posterior.CHECKS, *rules.CHECKS, *sampling.CHECKS)
