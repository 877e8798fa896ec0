"""The checks of triplet comparisons.

``problems``   simulated triplets, triplets of labelled points, changes of a problem.
``density``    log joint density, gradient, Hessian and mode against NumPyro's density.
``sampling``   draws against NUTS on the NumPyro model; calibration by simulation.
``embedding``  problems and checks of objects without features, a learner of its own.
"""

from probmetric.checks.triplet_comparisons import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
