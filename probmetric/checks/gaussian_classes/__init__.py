"""The checks of Gaussian classes and GLML, cheapest first.

``problems``   simulated problems, and problems made from labelled data.
``density``    evidence, bias matrix and error expansion against quadrature and
               automatic derivatives.
``sampling``   moments against NUTS; calibration of exact draws.
"""

from probmetric.checks.check import Check
from probmetric.checks.gaussian_classes import (
    density as gaussian_classes_checks_density,
)
from probmetric.checks.gaussian_classes import (
    sampling as gaussian_classes_checks_sampling,
)

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *gaussian_classes_checks_density.CHECKS,
    *gaussian_classes_checks_sampling.CHECKS,
)
