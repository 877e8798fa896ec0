"""What is claimed of Gaussian classes and GLML, the cheapest check first."""

from probmetric.inference import (
    gaussian_classes_checks_density,
    gaussian_classes_checks_sampling,
)
from probmetric.inference.checks import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *gaussian_classes_checks_density.CHECKS,
    *gaussian_classes_checks_sampling.CHECKS,
)
