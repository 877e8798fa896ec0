"""DCA-GM in closed form: symbols, and where each step is derived.

Symbols. Point x with class c, projection A (p, d), y = Ax; components k of class c with
weights α_c β_ck, means μ_ck, covariances Σ_ck = L_ck L_ckᵀ; p(k|y,c) the share of a
component in its class, p(c,k|y) in all; class scores m_c(y), their mean m̄; Fisher
matrix J; prior A ~ N(A0, c²/λ), learning rate η. θ are all parameters but A.

In reading order:

``likelihood``   gradient of the conditional likelihood in A (1)-(3), gauges (4)-(5).
``start``        LDA, RCA and k-means: the starting projection (1).
``choice``       the strength of the prior in it and in the metric (1).
``em``           the mixtures at a fixed A: E-step (1), M-step (2)-(4).
``fit``          the posterior mode of A and θ together (1).
``hybrid``       the paper's alternation of EM and conjugate gradients.
``draws``        Laplace, NUTS and guides, of (A, θ) or of A alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
