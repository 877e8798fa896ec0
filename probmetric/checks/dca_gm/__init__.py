"""Claims about DCA-GM, cheapest first.

``problems``   simulated problems, and problems made from labeled data.
``density``    densities, mode and Fisher matrices compared with autodiff.
``sampling``   Laplace's and a variational approximation compared with NUTS.
"""

from probmetric.checks.dca_gm import density, sampling

__all__ = ["CHECKS"]

CHECKS = (*density.CHECKS, *sampling.CHECKS)
