"""The checks of LCA, cheapest first.

``problems``    simulated problems, and problems made from labelled data.
``posterior``   integrals over (z, z') against quadrature.
``density``     log joint density and EM against NumPyro's density and its gradient.
``counts``      counts of judgments: pooled density, and the labels that they count.
``derivatives`` Hessian, Laplace, evidence, bootstrap, links: by autodiff and by hand.
``steps``       EM steps, the folded target and the recipe, from what defines them.
``sampling``    latent posterior, marginalisation and approximations against NUTS;
                marginal against latent form; calibration by simulation.
``criticism``   the model against its data: prior, binned labels, P(same) held out.
"""

from probmetric.checks.lca import (
    counts,
    density,
    derivatives,
    posterior,
    sampling,
    steps,
)
from probmetric.checks.solvers import APPROXIMATIONS, DESCENT, LOOPS

__all__ = ["CHECKS"]

CHECKS = (
    *posterior.CHECKS,
    *density.CHECKS,
    *counts.CHECKS,
    *derivatives.CHECKS,
    *steps.CHECKS,
    LOOPS,
    DESCENT,
    APPROXIMATIONS,
    *sampling.CHECKS,
)
