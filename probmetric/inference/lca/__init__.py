"""Latent Coincidence Analysis in closed form: symbols and derivations.

Symbols. A pair (x, x'), δ = x - x', label y (1 = coincide), weight w; W (p, d), g = Wδ,
D = ‖g‖²; noise σ², ρ = log σ², scale κ² (1 when common), τ² = κ² + 2σ², s = σ²/τ²;
b = (p/2) log(1 + 2σ²/κ²), t = b + D/(2τ²) = -log P(y=1); odds ν = P1/P0; learning rate
η; n₁ and T₁ = Σ w δδᵀ of the y = 1 pairs; prior W ~ N(W₀, c²/λ). M = WᵀW/τ² and b are
identified.

In reading order:

``statistics``   the sums n₁, T₁ and the rows of the likelihood.
``likelihood``   marginal (1), log likelihood (2), log joint density (3).
``latent``       posterior of (z, z'): means (1), covariances (2)-(3).
``em``           E-step (1)-(5), M-steps: full (6)-(7), reduced (8)-(9).
``mode``         L-BFGS in the eigenvectors of T₁ (1)-(3).
``fit``          starts, solvers and the mode.
``anchors``      the fit from a sample of anchors, with a standard error (a folder).
``recipe``       the default fit from labeled points: pairs, prior, refresh.
``curvature``    score (1), Hessian (2), certificate.
``laplace``      draws without the rotations (1).
``target``       the log joint density for samplers.
``link``         the log-logistic link of labeled pairs (1).
``draws``        draws by every method, and the pointwise log likelihood.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
