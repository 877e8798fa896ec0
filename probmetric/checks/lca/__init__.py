"""Claims about LCA, cheapest first.

``problems``    simulated problems, and problems made from labeled data.
``posterior``   integrals over (z, z') compared with quadrature.
``density``     densities, EM and refits compared with NumPyro's density.
``derivatives`` Hessian, Laplace, certificate and link compared with autodiff.
``sampling``    approximations compared with NUTS; calibration by simulation.
``criticism``   the model compared with its data: prior, binned labels, P(same).
"""

from probmetric.checks.lca import density, derivatives, posterior, sampling

__all__ = ["CHECKS"]

CHECKS = (
    *posterior.CHECKS,
    *density.CHECKS,
    *derivatives.CHECKS,
    *sampling.CHECKS,
)
