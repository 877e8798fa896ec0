"""The checks of the two-stage mixture, cheapest first.

``problems``     simulated problems, and problems made from labelled data.
``quadrature``   EQ-2 and the representative's posterior against the trapezoid rule.
``density``      EM against NumPyro's density: value, stationarity, ascent.
``similarity``   scores, enrolment, α from pairs and names, by stacked densities.
``starts``       prior, starts, choices and the samplers' target, by direct sums.
``sampling``     the marginal against the explicit form; calibration by simulation.
"""

from probmetric.checks.solvers import ROOTS
from probmetric.checks.two_stage import (
    density,
    quadrature,
    sampling,
    similarity,
    starts,
)

__all__ = ["CHECKS"]

CHECKS = (
    *quadrature.CHECKS,
    *similarity.CHECKS,
    *density.CHECKS,
    *starts.CHECKS,
    ROOTS,
    *sampling.CHECKS,
)
