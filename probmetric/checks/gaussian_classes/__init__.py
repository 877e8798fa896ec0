"""Claims about Gaussian classes and GLML, cheapest first.

``problems``   simulated problems, and problems made from labeled data.
``density``    bias matrix, local metric and error expansion compared with autodiff.
``posterior``  evidence, modes and class probabilities for each covariance.
``sampling``   calibration of closed-form draws.
"""

from probmetric.checks.gaussian_classes import density, posterior, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *posterior.CHECKS, *sampling.CHECKS)
