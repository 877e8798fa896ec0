"""The checks of LCA, cheapest first.

``problems``    simulated problems, and problems made from labelled data.
``posterior``   integrals over (z, z') against quadrature.
``density``     log joint density and EM against NumPyro's density and its gradient.
``sampling``    latent posterior, marginalisation and approximations against NUTS.
``marginal``    marginal against latent form; calibration by simulation.
"""

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
