"""Gaussian classes and GLML in closed form: symbols, and the file of each derivation.

Symbols. Class c has n_c points in D dimensions, mean x̄_c and scatter S_c. Parameters
are π, μ_c and Σ_c. The prior is NIW(m₀, κ₀, ν₀, Ψ₀) and the posterior NIW(m, κ, ν, Ψ),
where ν are the degrees of freedom. The predictive Student-t t_df has df = ν - D + 1.
x_o are the observed entries of x, and J is the inverse of Σ_oo and zero elsewhere.
GLML: ρ_c = P(c | x), s = Σρ², H̄_c = ∇∇p_c/p_c, bias matrix B, local metric A with |A| =
1, share γ of the base metric.

In reading order:

``posterior``      posterior (1), predictive (2), evidence (3), exact draws (4).
``prior``          prior of highest evidence (1).
``choice``         prior chosen in folds (1), held-out probabilities for all κ₀ (2).
``predict``        class probabilities, with missing entries (1); ``fit``.
``missing``        observed-data likelihood (1), EM for the mode (2)-(4).
``completions``    posterior given missing entries, by data augmentation (1)-(2).
``draws``          draws as a DataTree, and one local metric per draw.
``local_metric``   metrics of the posterior (1)-(2), distance to the nearest neighbor
                   (3), choice of γ (4), in folds (5). The matrices at a point are in
                   ``metric.glml``, densities with derivatives in
                   ``densities.classes``.
"""

from probmetric._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
