"""Claims about triplet comparisons.

``problems``   simulated triplets, triplets of labeled points, changes of a problem.
``density``    log joint density, gradient, Hessian and mode: NumPyro's density.
``sampling``   draws compared with NUTS; calibration by simulation.
``embedding``  problems and claims of a second learner: objects without features.
"""

from probmetric.checks.triplet_comparisons import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
