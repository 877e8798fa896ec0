"""What is claimed of Gaussian classes and GLML, the cheapest check first."""

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
