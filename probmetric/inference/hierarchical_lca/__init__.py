"""Hierarchical LCA: LCA by group around a common map. Symbols, and where each step is.

Symbols as ``inference.lca``; groups g = 1..G, maps W_g = W + ωcE_g, the spread ω with
prior HalfNormal(s); m = pd entries of a map, q = m + 1; θ = (vec W, log b).

In reading order:

``likelihood``   statistics stacked by group, log joint density given ω (1).
``evidence``     Hessian (1), Laplace's density of ω (2), root of the covariance (3).
``fit``          the mode given ω, the mode of ω, its posterior on a grid.
``recipe``       users' data: pairs inside groups, prior, learning rate.
``target``       the posterior for samplers (1).
``draws``        Laplace's draws without rotations (1), NUTS's, new groups (2).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
