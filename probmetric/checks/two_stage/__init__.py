"""The checks of the two-stage mixture, cheapest first.

``problems``     simulated problems, and problems made from labelled data.
``quadrature``   EQ-2 and the representative's posterior against the trapezoid rule.
``density``      EM against NumPyro's density: value, stationarity, ascent.
``sampling``     the marginal against the explicit form; calibration by simulation.
"""

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
