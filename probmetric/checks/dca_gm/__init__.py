"""The checks of DCA-GM, cheapest first.

``problems``   simulated problems, and problems made from labelled data.
``density``    gradients, Fisher matrices and densities by automatic derivatives.
``em``         the EM step against one taken component by component.
``sampling``   Laplace's approximation against NUTS, on what is identified.
"""

from probmetric.checks.dca_gm import density, em, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *em.CHECKS, *sampling.CHECKS)
