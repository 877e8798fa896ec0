"""The checks of Gaussian classes and GLML, cheapest first.

``problems``   simulated problems, and problems made from labelled data.
``density``    evidence, bias matrix and error expansion against quadrature and
               automatic derivatives.
``sampling``   moments against NUTS; calibration of exact draws.
"""

from probmetric.checks.gaussian_classes import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
