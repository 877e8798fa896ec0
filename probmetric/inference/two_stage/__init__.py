"""The two-stage mixture in closed form: symbols, and the file of each derivation.

Symbols. Source i has n_i instances X_ij with mean x̄_i and residuals e_ij. Component k
has weight c_k and mean μ_k. The representative (latent mean of a source) is x ~ N(μ_k,
B_k) ("between"), instances are N(x, W_k) ("within"), and S_k = B_k + W_k. Proportional
form: W_k = αΣ_k, B_k = (1 - α)Σ_k. h and V are the mean and covariance of x given its
instances. R, N, f, B̃ and W̃ are the sums of the E-step. Pairs have a query Q and a
database element Y. ``inference.mixture`` fits single instances, and ``densities.pair``
has the densities of one and of two observations.

In reading order:

``groups``           density of a group (1), posterior of x (2), sums (3), M-step (4).
``groups_missing``   groups with NaN integrated out: (1)-(2), noise (3), sums (4).
``proportional``     M-step for Σ (5) and α (6); numbers continue those of ``groups``.
``fit``              starts and EM, for points, pairs and groups.
``few``              the default prior of W and B with few sources (1).
``strength``         the prior of W and B chosen by votes of neighbors (1)-(3).
``pairs``            EQ-3 (1), representative (2), α from pairs (3).
``online``           EM in chunks.
``choice``           flattening, blending (1), number of components.
``target``           the log joint density for samplers (1).
``draws``            draws by every method; relabeling for display (1).
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
