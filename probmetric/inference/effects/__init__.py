"""LCA with a random effect: a linear map per group, or an intercept per point.

Both models are LCA with standard normal effects, multiplied by their *spread* ω with
prior HalfNormal(s). The symbols are defined in ``inference.lca``. A map has m = pd
entries.

* Groups g = 1..G (``models.hierarchical_lca``): maps W_g = W + ωcE_g, and
  θ = (vec W, log b, E) of m + 1 + Gm entries.
* Points i = 1..n (``models.point_effects``): b_i = b e^{ωz_i}, t = (b_i + b_j)/2 + D/2,
  and θ = (vec W, log b, z) of m + 1 + n entries.

In reading order:

``groups``    statistics stacked by group, log joint density given ω (1).
``points``    log joint density given ω (1), gradient and Hessian (2)-(4).
``arrow``     Hessian of the groups (1), its determinant (2) and root (3).
``profile``   the density of ω: its maximum, its values on a grid, draws from it.
``fit``       the mode given ω, Laplace's density of ω (1), fits of both models.
``recipe``    users' data: pairs inside groups, distinct points, prior, learning rate.
``target``    the posterior for samplers (1).
``draws``     draws by Laplace and NUTS (1), new groups (2), P(same) of points (3).
``left_out``  leave-one-point-out: the density of all pairs of a point (1)-(2).
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
