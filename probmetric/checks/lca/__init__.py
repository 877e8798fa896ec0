"""The checks of LCA, cheapest first.

``problems``    simulated problems, and problems made from labelled data.
``posterior``   integrals over (z, z') against quadrature.
``density``     log joint density and EM against NumPyro's density and its gradient.
``sampling``    latent posterior, marginalisation and approximations against NUTS;
                marginal against latent form; calibration by simulation.
"""

from probmetric.checks.lca import density, posterior, sampling

__all__ = ["CHECKS"]

CHECKS = (*posterior.CHECKS, *density.CHECKS, *sampling.CHECKS)
