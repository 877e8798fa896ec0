"""The normal mixture: symbols, and where each step is derived.

Symbols. Rows x_n, data weights w_n; components k with weights c_k, means μ_k,
covariances S_k; responsibilities r_nk = P(k | x_n), sums R_k, f_k, F_k. Prior:
Dirichlet a; mean m₀ with strength κ₀; inverse Wishart with df degrees of freedom and
scale Ψ. ``two_stage`` has S_k = B_k + W_k, ``gaussian_classes`` fits one mixture a
class.

In reading order:

``prior``        the log density of the prior, and Fraley and Raftery's default.
``statistics``   parameters and additive sums, of points and of groups.
``em``           E-step (1), sums (2), M-step (3)-(5).
``missing``      E-step with NaN integrated out: density (1), mean (2), covariance (3).
``stream``       EM over a source of rows, one pass a step.
``start``        k-means++ starts, and the best of several fits.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
