"""Claims about LCA with point effects.

``problems``   simulated judged pairs, pairs of labeled points, changes of a problem.
``density``    density, derivatives, modes and integrals over effects.
``sampling``   draws compared with NUTS; calibration by simulation.
"""

from probmetric.checks.point_effects import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
