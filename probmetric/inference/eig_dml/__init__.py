"""Eig-DML: symbols, and the file that derives each equation.

Equations are numbered across the files of this folder.

Symbols. x_τ are the n_F far differences, H = Σ w_c x_c x_cᵀ + δI is the matrix of the
close differences, and κ is the budget. H = R Rᵀ, z_τ = R⁻¹x_τ, S = RᵀMR with trace κ,
and a_τ = z_τᵀSz_τ. The dual weights u lie in the simplex, G(u) = Σ u_τ z_τz_τᵀ, and f*
is the optimum.

In reading order:

``fit``           the problem (1), the matrix game (2)-(3), M from S (4), the
                  certificate (5).
``certificate``   both sides of (5) at unit scale.
``frank_wolfe``   smoothing (6)-(7), step (8), gap (9): for a gap of one percent.
``pdhg``          primal-dual steps (10): for a gap of 1e-6 and below.
``choice``        M mixed with the Euclidean metric (11), and the choice of the mixture.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
