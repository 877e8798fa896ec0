"""Claims about the two-stage mixture, cheapest first.

``problems``     simulated problems, and problems made from labeled data.
``quadrature``   EQ-2 and the representative compared with the trapezoid rule.
``similarity``   scores of pairs compared with stacked densities.
``density``      EM and the samplers' density compared with NumPyro's density.
``sampling``     new points, SVI compared with NUTS, calibration by simulation.
"""

from probmetric.checks.two_stage import density, quadrature, sampling, similarity

__all__ = ["CHECKS"]

CHECKS = (
    *quadrature.CHECKS,
    *similarity.CHECKS,
    *density.CHECKS,
    *sampling.CHECKS,
)
