"""What is claimed of the two-stage mixture, from the cheapest check to the dearest."""

from probmetric.checks.check import Check
from probmetric.checks.two_stage import (
    density as two_stage_checks_em,
)
from probmetric.checks.two_stage import (
    quadrature as two_stage_checks_integral,
)
from probmetric.checks.two_stage import (
    sampling as two_stage_checks_sampling,
)

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *two_stage_checks_integral.CHECKS,
    *two_stage_checks_em.CHECKS,
    *two_stage_checks_sampling.CHECKS,
)
