"""The checks of DCA-GM, cheapest first.

``problems``   simulated problems, and problems made from labelled data.
``density``    gradients, Fisher matrices and densities by automatic derivatives; the
               EM step against one taken component by component.
``fitted``     starts, fits, targets and metrics, from what defines them.
``sampling``   Laplace's approximation against NUTS, on what is identified.
"""

from probmetric.checks.dca_gm import density, fitted, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *fitted.CHECKS, *sampling.CHECKS)
