"""What is claimed of LCA, from the cheapest check to the dearest."""

from probmetric.inference import (
    lca_checks_density,
    lca_checks_marginal,
    lca_checks_posterior,
    lca_checks_sampling,
)
from probmetric.inference.checks import Check

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *lca_checks_posterior.CHECKS,
    *lca_checks_density.CHECKS,
    *lca_checks_sampling.CHECKS,
    *lca_checks_marginal.CHECKS,
)
