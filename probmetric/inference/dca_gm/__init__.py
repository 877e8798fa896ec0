"""DCA-GM in closed form: symbols, and the file that derives each equation.

Symbols. Point x has class c, A (p, d) is the projection, and y = Ax. Component k of
class c has weight α_c β_ck, mean μ_ck and covariance Σ_ck = L_ck L_ckᵀ. p(k|y,c) is the
posterior probability of component k within class c, and p(c,k|y) is its posterior
probability among the components of all classes. m_c(y) are class scores with mean m̄,
and J is the Fisher matrix. The prior is A ~ N(A0, c²/λ), and η is the learning rate. θ
are all parameters except A.

In reading order:

``likelihood``   gradient of the conditional likelihood in A (1)-(3), gauges (4)-(5).
``start``        LDA, RCA and k-means: the starting projection (1).
``choice``       the strength of the prior in the start and in the metric (1).
``em``           the mixtures at a fixed A: E-step (1), M-step (2)-(4).
``fit``          the posterior mode of A and θ together (1).
``hybrid``       the paper's alternation of EM and conjugate gradients.
``draws``        Laplace, NUTS and guides, for (A, θ) or for A only.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
