"""The checks of the two-stage mixture, cheapest first.

``problems``     simulated problems, and problems made from labelled data.
``quadrature``   EQ-2 and the representative's posterior against the trapezoid rule.
``density``      EM against NumPyro's density: value, stationarity, ascent.
``sampling``     the marginal against the explicit form; calibration by simulation.
"""

from probmetric.checks.two_stage import density, quadrature, sampling

__all__ = ["CHECKS"]

CHECKS = (*quadrature.CHECKS, *density.CHECKS, *sampling.CHECKS)
