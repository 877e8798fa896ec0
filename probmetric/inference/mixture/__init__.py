"""The normal mixture: symbols, and the file that derives each equation.

Symbols. Rows x_n have data weights w_n. Component k has weight c_k, mean μ_k and
covariance S_k. r_nk = P(k | x_n) are responsibilities with sums R_k, f_k and F_k. The
prior is Dirichlet a; mean m₀ with strength κ₀; inverse Wishart with df degrees of
freedom and scale Ψ. ``two_stage`` has S_k = B_k + W_k, and ``gaussian_classes`` fits
one mixture per class.

In reading order:

``prior``        the log density of the prior, and Fraley and Raftery's default.
``statistics``   parameters and additive sums, of points and of groups.
``em``           E-step (1), sums (2), M-step (3)-(5).
``missing``      E-step with NaN integrated out: density (1), mean (2), covariance (3).
``start``        k-means++ starts, and the best of several fits.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
