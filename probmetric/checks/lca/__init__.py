"""What is claimed of LCA, from the cheapest check to the dearest."""

from probmetric.checks.check import Check
from probmetric.checks.lca import (
    density as lca_checks_density,
)
from probmetric.checks.lca import (
    marginal as lca_checks_marginal,
)
from probmetric.checks.lca import (
    posterior as lca_checks_posterior,
)
from probmetric.checks.lca import (
    sampling as lca_checks_sampling,
)

__all__ = ["CHECKS"]

CHECKS: tuple[Check, ...] = (
    *lca_checks_posterior.CHECKS,
    *lca_checks_density.CHECKS,
    *lca_checks_sampling.CHECKS,
    *lca_checks_marginal.CHECKS,
)
