"""What is claimed of the two-stage mixture, from the cheapest check to the dearest."""

from probmetric.inference import (
    two_stage_checks_em,
    two_stage_checks_integral,
    two_stage_checks_sampling,
)
from probmetric.inference.checks import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *two_stage_checks_integral.CHECKS,
    *two_stage_checks_em.CHECKS,
    *two_stage_checks_sampling.CHECKS,
)
