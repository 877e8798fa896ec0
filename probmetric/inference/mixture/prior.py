"""The prior of the normal mixture: log density, and a weak default prior.

The prior is c ~ Dirichlet(a, …, a), S_k ~ IW(df, Ψ) and μ_k | S_k ~ N(m₀, S_k/κ₀). In
the two-stage model B_k or Σ_k replaces S_k, and α has a Beta prior. Log densities
include all constants. EM therefore maximizes the log joint density of the NumPyro
model.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import betaln, gammaln, multigammaln
from jaxtyping import Float

from probmetric.data.scaling import columns_at_a_time
from probmetric.densities.gaussian import log_normal
from probmetric.linalg import logdet_chol
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar


def log_inverse_wishart(
    S: Float[Array, "d d"], df: Scalar | int, scale: Float[Array, "d d"]
) -> Float[Array, ""]:
    """Compute log IW(S; df, scale) ∝ |S|^{-(df+d+1)/2} exp(-½ tr(scale S⁻¹))."""
    d = S.shape[0]
    L, root = jnp.linalg.cholesky(S), jnp.linalg.cholesky(scale)
    trace = jnp.sum(solve_triangular(L, root, lower=True) ** 2)
    constant = 0.5 * df * (logdet_chol(root) - d * jnp.log(2.0)) - multigammaln(
        df / 2, d
    )
    return constant - 0.5 * (df + d + 1) * logdet_chol(L) - 0.5 * trace


@numpy_in_numpy_out
@jax.jit
def log_prior(
    weights: Float[Array, "k"],
    means: Float[Array, "k d"],
    spread: Float[Array, "k d d"],
    prior: TwoStagePrior,
) -> Float[Array, ""]:
    """Compute the log prior density of (c, μ, B), or of (c, μ, Σ)."""
    k = len(means)
    a = jnp.asarray(prior.concentration, weights.dtype)
    # (a - 1) log c is zero at a = 1, also for an empty component.
    power = jnp.where(a == 1, 0.0, (a - 1) * jnp.log(jnp.where(a == 1, 1.0, weights)))
    dirichlet = gammaln(k * a) - k * gammaln(a) + jnp.sum(power)

    def component(mean: Array, S: Array) -> Array:
        L = jnp.linalg.cholesky(S) / jnp.sqrt(prior.strength)
        normal = log_normal(L, mean - prior.mean)
        return normal + log_inverse_wishart(S, prior.df, prior.scale)

    return dirichlet + jnp.sum(jax.vmap(component)(means, spread))


def log_beta(alpha: Array, prior: TwoStagePrior) -> Array:
    """Compute log Beta(alpha; a, b)."""
    a, b = prior.alpha_a, prior.alpha_b
    powers = (a - 1) * jnp.log(alpha) + (b - 1) * jnp.log1p(-alpha)
    return powers - betaln(*(jnp.asarray(t, powers.dtype) for t in (a, b)))


def default_prior(
    X: Float[Array, "n d"],
    n_components: int,
    *,
    strength: float = 0.01,
    floor: float = 1.0,
    alpha: tuple[float, float] = (2.0, 2.0),
) -> TwoStagePrior:
    """Make the weak, data-dependent default prior of Fraley and Raftery.

    The prior of c is uniform, m₀ is the vector of column means, and κ₀ is 0.01 points.
    S has d + 2 degrees of freedom and the scale diag(column variances) / k^{2/d}, the
    covariance of each of k equal components that tile the data. In the free form of the
    two-stage model, B and W each get half of the scale.

    Parameters
    ----------
    X : array of shape (n, d)
        NaN entries are ignored. A constant column is treated as having variance 1.
    n_components : int
    strength : float, default=0.01
        Strength κ₀ > 0 of the mean, in points.
    floor : float, default=1.0
        Factor of the scale matrix. The scale keeps components from collapsing.
    alpha : tuple of two floats, default=(2, 2)
        Parameters (a, b) of the Beta prior of α, with mean a/(a + b).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import mixture
    >>> X = np.array([[0.0, 5.0], [2.0, 5.0]])  # Column variances 1 and (a constant) 1
    >>> prior = mixture.default_prior(X, n_components=2)
    >>> prior.mean.tolist(), prior.scale.tolist()
    ([1.0, 5.0], [[0.5, 0.0], [0.0, 0.5]])
    """
    rows = np.asarray(X)
    dtype = np.result_type(rows.dtype, np.float32)  # At least float32, also for ints.
    centre, variances = np.empty((2, rows.shape[1]), dtype)
    for some in columns_at_a_time(*rows.shape):
        centre[some] = np.nanmean(rows[:, some], axis=0)
        variances[some] = np.nanvar(rows[:, some], axis=0)
    return prior_of_columns(
        centre, variances, n_components, strength=strength, floor=floor, alpha=alpha
    )


def prior_of_columns(
    centre: Float[Array, "d"],
    variances: Float[Array, "d"],
    n_components: int,
    *,
    strength: float = 0.01,
    floor: float = 1.0,
    alpha: tuple[float, float] = (2.0, 2.0),
) -> TwoStagePrior:
    """Make ``default_prior`` from the means and variances of the columns."""
    d = len(centre)
    variances = np.where(np.asarray(variances) > 0, variances, 1.0)
    scale = np.diag(variances) * floor / n_components ** (2 / d)
    half = scale / 2
    return TwoStagePrior(1.0, centre, strength, d + 2.0, scale, d + 2.0, half, *alpha)
