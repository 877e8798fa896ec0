"""LCA with point effects: symbols, and where each step is.

Symbols as ``models.point_effects``: b_i = b e^{ωz_i} of point i, t = (b_i + b_j)/2 +
D/2; m = pd entries of W, n points, θ = (vec W, log b, z) of q = m + 1 + n entries.

In reading order:

``likelihood``   log joint density given ω (1), gradient and Hessian (2)-(4).
``fit``          the mode given ω, Laplace's density of ω (1), its posterior on a grid.
``recipe``       users' data: which points are the same, prior, learning rate.
``target``       the posterior for samplers (1).
``draws``        Laplace's draws, NUTS's; P(same) of known and new points (1).
``left_out``     leave-one-point-out: the density of all pairs of a point (1)-(2).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
