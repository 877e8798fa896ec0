"""Eig-DML: symbols, and where each step is derived. Numbers go on from file to file.

Symbols. Far differences x_τ (n_F of them), H = Σ w_c x_c x_cᵀ + δI of the close ones,
budget κ; H = R Rᵀ, z_τ = R⁻¹x_τ, S = RᵀMR (trace κ); a_τ = z_τᵀSz_τ; dual weights u in
the simplex, G(u) = Σ u_τ z_τz_τᵀ; optimum f*.

In reading order:

``fit``           the problem (1), the matrix game (2)-(3), M from S (4), the
                  certificate (5).
``certificate``   both sides of (5) at unit scale.
``frank_wolfe``   smoothing (6)-(7), step (8), gap (9): for a gap of a per cent.
``pdhg``          primal-dual steps (10): for a gap of 1e-6 and below.
``choice``        M mixed with the Euclidean metric (11), and how much of that.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
