"""Closed forms of Gaussian classes: posterior, evidence, predictive, exact draws.

The prior is NIW(m₀, κ₀, ν₀, Ψ₀) per class and Dirichlet(α) for the weights
(``models.gaussian_classes``). A class with n points (a sum of data weights), mean x̄
and scatter S has the posterior NIW(m, κ, ν, Ψ),

    κ = κ₀ + n,  ν = ν₀ + n,  m = (κ₀m₀ + n x̄)/κ,
    Ψ = Ψ₀ + S + (κ₀n/κ)(x̄ - m₀)(x̄ - m₀)ᵀ,                                        (1)

and, with df = ν - D + 1,

    predictive   t_df(m, Ψ (κ + 1)/(κ df)),                                        (2)
    evidence     -(nD/2) log π + log Γ_D(ν/2) - log Γ_D(ν₀/2)
                 + (ν₀/2) log|Ψ₀| - (ν/2) log|Ψ| + (D/2) log(κ₀/κ),                 (3)
    draws        Σ = (L T⁻¹)(L T⁻¹)ᵀ, LLᵀ = Ψ, T lower triangular,
                 T_ii² ~ χ²(ν - D + i), T_ij ~ N(0, 1);  μ ~ N(m, Σ/κ).             (4)

With a "tied" covariance all classes share Ψ = Ψ₀ + Σ_c(...) and ν = ν₀ + Σ n_c. With a
"diagonal" covariance Eqs. (1)-(4) apply to every feature with D = 1, and the predictive
density is a product of Student-t densities. The posterior of the class weights is
Dirichlet(α + n_c), and their evidence is Dirichlet-multinomial. The mode in (weights,
μ, Σ), which ``fit`` returns, has Σ = Ψ/(ν + D + 2) (tied: Ψ/(ν + D + 1 + C)).

All results depend on the data only through (n, x̄, S) of each class.

References
----------
Gelman et al., "Bayesian Data Analysis", 3rd ed., §3.6.
"""

import math
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln
from jaxtyping import Float, Int

from probmetric.data.containers import Labeled, weights
from probmetric.linalg import cholesky_of
from probmetric.models.gaussian_classes import (
    Covariance,
    GaussianClassesParams,
    NIWPrior,
)
from probmetric.precision import host_or_program, numpy_in_numpy_out
from probmetric.typing import Array


class ClassStatistics(NamedTuple):
    """Count n, mean and scatter about the mean of every class."""

    n: Float[Array, "c"]
    mean: Float[Array, "c d"]
    scatter: Float[Array, "c d d"]


class ClassPosterior(NamedTuple):
    """Posterior: alpha (c,), mean (c, d), kappa (c,), nu (q,), Psi (q, d, d).

    The fields are parameters of the NIW posterior, Eq. (1), and of the Dirichlet
    posterior. q is c, or 1 if the covariance is tied. Psi has the shape (c, d) if the
    covariance is diagonal. With missing entries every array has a leading axis of
    completions, and the posterior is the average over completions
    (``gaussian_classes.completions``).
    """

    alpha: Float[Array, "*s c"]
    mean: Float[Array, "*s c d"]
    kappa: Float[Array, "*s c"]
    nu: Float[Array, "*s _q"]
    Psi: Float[Array, "..."]


def is_diagonal(post: ClassPosterior) -> bool:
    """Check whether the covariance is diagonal."""
    return post.Psi.ndim == post.mean.ndim


def is_mean(post: ClassPosterior) -> bool:
    """Check whether a posterior averages over completions of missing entries."""
    return post.mean.ndim == 3


@numpy_in_numpy_out
@jax.jit(static_argnames="n_classes")
def statistics(data: Labeled, n_classes: int) -> ClassStatistics:
    """Compute the count, mean and scatter of every class; all zero for an empty class.

    The cost is O(n d²). Rows are read class by class in tiles, and one tile is copied
    at a time.

    Parameters
    ----------
    data : Labeled
        Complete points with y in 0..C-1.
    n_classes : int
        Number C of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import gaussian_classes
    >>> X, y = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> n, mean, scatter = gaussian_classes.statistics(Labeled(X, y), 2)
    >>> n.tolist(), mean.ravel().tolist(), scatter.ravel().tolist()
    ([2.0, 2.0], [1.0, 7.0], [2.0, 8.0])
    """
    if data.y is None:
        raise ValueError("data.y must be class codes, got None.")
    X, w = data.X, weights(data)
    (rows, d), c = X.shape, n_classes
    order, owner, first, last = _tiles(data.y, c, tile := tile_rows(rows, c))
    places = jnp.arange(tile)

    def of(t: Array) -> tuple[Array, Array]:
        """Select the rows of a tile and their weights (0 outside the class)."""
        place = first[t] + places
        row = order[jnp.minimum(place, rows - 1)]
        return X[row], jnp.where(place < last[t], w[row], 0.0)

    def add(
        total: tuple[jax.Array, jax.Array], t: Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        tile_X, w = of(t)
        n, sums = total
        return (n.at[owner[t]].add(jnp.sum(w)), sums.at[owner[t]].add(w @ tile_X)), None

    zeros, every = jnp.zeros((c, d), X.dtype), jnp.arange(len(owner))
    (n, sums), _ = jax.lax.scan(add, (zeros[:, 0], zeros), every)
    mean = sums / jnp.where(n > 0, n, 1.0)[:, None]
    # Round the mean before subtracting it; otherwise equal points would have scatter.
    mean = jax.lax.optimization_barrier(mean)

    def spread(scatter: jax.Array, t: Array) -> tuple[jax.Array, None]:
        tile_X, w = of(t)
        delta = tile_X - mean[owner[t]]
        return scatter.at[owner[t]].add((delta * w[:, None]).T @ delta), None

    scatter, _ = jax.lax.scan(spread, jnp.zeros((c, d, d), X.dtype), every)
    return ClassStatistics(n, mean, scatter)


def tile_rows(n: int, c: int) -> int:
    """Compute the rows in a tile, 16 to 1024; the padding is at most n rows."""
    return min(max(1 << max(n // c, 1).bit_length() - 1, 16), 1024)


def _tiles(
    y: Int[Array, "n"], c: int, tile: int
) -> tuple[Int[Array, "n"], Int[Array, "t"], Int[Array, "t"], Int[Array, "t"]]:
    """Compute the order of rows by class, and class, first row and end of each tile."""
    size = jnp.zeros(c, int).at[y].add(1)
    end, tiles = jnp.cumsum(size), -(-size // tile)
    until, each = jnp.cumsum(tiles), jnp.arange(len(y) // tile + c)
    owner = jnp.cumsum(jnp.zeros(len(each), int).at[until[:-1]].add(1, mode="drop"))
    first = (end - size)[owner] + (each - (until - tiles)[owner]) * tile
    return jnp.argsort(y), owner, first, end[owner]


@numpy_in_numpy_out
def posterior(
    stats: ClassStatistics, prior: NIWPrior, *, covariance: Covariance = "full"
) -> ClassPosterior:
    """Compute the exact NIW posterior, Eq. (1)."""
    return _posterior(stats, prior, covariance=covariance)


def posterior_of(
    xp: ModuleType, stats: ClassStatistics, prior: NIWPrior, *, covariance: Covariance
) -> ClassPosterior:
    """Compute ``posterior`` by NumPy or by JAX."""
    kappa = prior.kappa + stats.n
    gap = stats.mean - prior.mean
    mean = prior.mean + (stats.n / kappa)[:, None] * gap
    shrink = prior.kappa * stats.n / kappa
    if covariance == "diagonal":
        scatter = xp.diagonal(stats.scatter, axis1=1, axis2=2)
        scatter, n = scatter + shrink[:, None] * gap**2, stats.n
        Psi = xp.diagonal(prior.Psi)
    else:
        scatter = stats.scatter + xp.einsum("c,ci,cj->cij", shrink, gap, gap)
        n, Psi = stats.n, prior.Psi
        if covariance == "tied":
            scatter, n = xp.sum(scatter, 0, keepdims=True), xp.sum(n, keepdims=True)
    return ClassPosterior(
        prior.alpha + stats.n, mean, kappa, prior.nu + n, Psi + scatter
    )


_posterior = host_or_program(posterior_of, static=("covariance",))


@numpy_in_numpy_out
def log_evidence(
    stats: ClassStatistics, prior: NIWPrior, *, covariance: Covariance = "full"
) -> Float[Array, ""]:
    """Compute the log evidence log p(X, y), Eq. (3).

    Parameters
    ----------
    stats : ClassStatistics
        See ``statistics``.
    prior : NIWPrior
    covariance : {"full", "tied", "diagonal"}, default="full"

    Examples
    --------
    The label of a first point has probability 1/2, and the density is Cauchy:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> data = Labeled(np.zeros((1, 1)), np.zeros(1, int))
    >>> stats = gaussian_classes.statistics(data, 2)
    >>> prior = NIWPrior(np.zeros(1), np.eye(1), kappa=1.0, nu=1.0)
    >>> evidence = np.exp(gaussian_classes.log_evidence(stats, prior))
    >>> round(float(evidence), 4), round(0.5 / (np.pi * 2**0.5), 4)
    (0.1125, 0.1125)
    """
    return _evidence(stats, prior, covariance=covariance)


def evidence_of(
    xp: ModuleType, stats: ClassStatistics, prior: NIWPrior, *, covariance: Covariance
) -> Array:
    """Compute ``log_evidence`` by NumPy or by JAX."""
    post = posterior_of(xp, stats, prior, covariance=covariance)
    c, d = stats.mean.shape
    log_gamma = gammaln if xp is jnp else scipy.special.gammaln
    log_pi = math.log(math.pi)  # A NumPy number would promote float32 to float64.
    nu0 = xp.asarray(prior.nu, stats.mean.dtype)

    def log_det(S: Array) -> Array:
        half = cholesky_of(xp, S)
        return 2 * xp.sum(xp.log(xp.diagonal(half, axis1=-2, axis2=-1)), -1)

    def log_normalizer(nu: Array, log_det: Array, d: int) -> Array:
        """Compute log Γ_D(ν/2) - (ν/2) log|Ψ|."""
        parts = log_gamma((nu[..., None] - np.arange(d, dtype=nu.dtype)) / 2)
        constant = d * (d - 1) / 4 * log_pi
        return xp.sum(parts, -1) + constant - nu / 2 * log_det

    if covariance == "diagonal":
        before = log_normalizer(nu0, xp.log(xp.diagonal(prior.Psi)), 1)
        after = log_normalizer(post.nu[:, None], xp.log(post.Psi), 1)
    else:
        before = log_normalizer(nu0, log_det(prior.Psi), d)
        after = log_normalizer(post.nu, log_det(post.Psi), d)
    total = xp.sum(after - before)
    total = total + 0.5 * d * xp.sum(xp.log(prior.kappa / post.kappa))
    total = total - 0.5 * d * log_pi * xp.sum(stats.n)
    alpha = xp.full(c, prior.alpha, stats.mean.dtype)
    labels = log_gamma(xp.sum(alpha)) - log_gamma(xp.sum(post.alpha))
    labels = labels + xp.sum(log_gamma(post.alpha) - log_gamma(alpha))
    return xp.asarray(total + labels)


_evidence = host_or_program(evidence_of, static=("covariance",))


@numpy_in_numpy_out
@jax.jit(static_argnames="n_draws")
def draw(key: jax.Array, post: ClassPosterior, n_draws: int) -> GaussianClassesParams:
    """Draw parameters from the posterior exactly and independently, Eq. (4).

    Parameters
    ----------
    key : typed PRNG key
    post : ClassPosterior
        After a fit with missing entries, the draws are divided evenly among the
        completed data sets.
    n_draws : int

    Returns
    -------
    GaussianClassesParams
        Every array has a leading axis of draws.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> from probmetric.inference import gaussian_classes
    >>> mean, Psi = np.array([[-1.0], [1.0]]), np.full((2, 1, 1), 16.0)
    >>> alpha, kappa, nu = np.full(2, 2.0), np.full(2, 4.0), np.full(2, 6.0)
    >>> post = gaussian_classes.ClassPosterior(alpha, mean, kappa, nu, Psi)
    >>> drawn = gaussian_classes.draw(jax.random.key(0), post, 4000)
    >>> bool(np.allclose(drawn.weights.sum(1), 1)), drawn.mean.mean(0).round(1).tolist()
    (True, [[-1.0], [1.0]])
    >>> classes = gaussian_classes.predictive(post)
    >>> (classes.factor**2).ravel().round(3).tolist()  # Ψ (κ + 1)/(κ df), df = 6
    [3.333, 3.333]
    """
    if is_mean(post):
        turn = jnp.arange(n_draws) * len(post.mean) // n_draws
        in_turn = jax.tree.map(lambda a: jnp.asarray(a)[turn], post)
        keys = jax.random.split(key, n_draws)
        draws = jax.vmap(lambda k, p: draw(k, p, 1))(keys, in_turn)
        return jax.tree.map(lambda a: a[:, 0], draws)
    key_w, key_d, key_o, key_m = jax.random.split(key, 4)
    dtype, (c, d) = post.mean.dtype, post.mean.shape
    pi = jax.random.dirichlet(key_w, post.alpha, (n_draws,), dtype)
    if is_diagonal(post):
        chi2 = jax.random.chisquare(key_d, post.nu[:, None], (n_draws, c, d), dtype)
        chol = jnp.sqrt(post.Psi / chi2)[..., None] * jnp.eye(d, dtype=dtype)
    else:
        shape = (n_draws, len(post.nu), d)
        df = post.nu[:, None] - d + 1 + jnp.arange(d, dtype=dtype)
        T = jnp.tril(jax.random.normal(key_o, (*shape, d), dtype), -1)
        T = T + jnp.sqrt(jax.random.chisquare(key_d, df, shape, dtype))[..., None] * (
            jnp.eye(d, dtype=dtype)
        )
        eye = jnp.broadcast_to(jnp.eye(d, dtype=dtype), T.shape)
        chol = jnp.linalg.cholesky(post.Psi) @ solve_triangular(T, eye, lower=True)
    noise = jax.random.normal(key_m, (n_draws, c, d), dtype)
    shift = jnp.einsum(
        "scij,scj->sci", jnp.broadcast_to(chol, (*noise.shape, d)), noise
    )
    mean = post.mean + shift / jnp.sqrt(post.kappa)[:, None]
    return GaussianClassesParams(pi, mean, chol)


def _with_covariance(xp: ModuleType, post: ClassPosterior, divisor: Array) -> Array:
    """Compute the Cholesky factors of Ψ / divisor, divisor (q,)."""
    if is_diagonal(post):
        scale = xp.sqrt(post.Psi / divisor[..., None])
        return scale[..., None] * xp.eye(post.mean.shape[-1], dtype=scale.dtype)
    return cholesky_of(xp, post.Psi) / xp.sqrt(divisor)[..., None, None]


@numpy_in_numpy_out
def posterior_mean(post: ClassPosterior) -> GaussianClassesParams:
    """Compute the posterior means of weights, μ and Σ; E Σ = Ψ/(ν - D - 1)."""
    return _mean(post)


def mean_of(xp: ModuleType, post: ClassPosterior) -> GaussianClassesParams:
    """Compute ``posterior_mean`` by NumPy or by JAX."""
    d = 1 if is_diagonal(post) else post.mean.shape[-1]
    pi = post.alpha / xp.sum(post.alpha, -1, keepdims=True)
    chol = _with_covariance(xp, post, post.nu - d - 1)
    if not is_mean(post):
        return GaussianClassesParams(pi, post.mean, chol)
    Sigma = xp.mean(chol @ xp.swapaxes(chol, -1, -2), 0)
    pi, mean = xp.mean(pi, 0), xp.mean(post.mean, 0)
    return GaussianClassesParams(pi, mean, cholesky_of(xp, Sigma))


_mean = host_or_program(mean_of)


@numpy_in_numpy_out
@jax.jit
def mode(post: ClassPosterior) -> GaussianClassesParams:
    """Compute the mode of the posterior density in (weights, μ, Σ), for α + n > 1."""
    c, d = post.mean.shape
    d = 1 if is_diagonal(post) else d
    # Each mean adds a factor |Σ|^(-1/2) to the density of its covariance.
    sharing = c if len(post.nu) == 1 else 1
    divisor = post.nu + d + 1 + sharing
    pi = (post.alpha - 1) / jnp.sum(post.alpha - 1)
    return GaussianClassesParams(pi, post.mean, _with_covariance(jnp, post, divisor))


@numpy_in_numpy_out
@jax.jit
def plug_in(
    stats: ClassStatistics, *, shrinkage: Float[Array, ""] | float | int = 0.0
) -> GaussianClassesParams:
    """Compute maximum likelihood, with Σ̂ shrunk to (1 - a)Σ̂ + a tr(Σ̂)/D · I.

    ``shrinkage`` is a. Unlike α in the paper's Σ̂ + αI, it does not depend on the scale
    of X. With a = 0 and n ≤ D the Cholesky factor is NaN.
    """
    d = stats.mean.shape[1]
    S = stats.scatter / stats.n[:, None, None]
    ridge = (
        jnp.trace(S, axis1=1, axis2=2)[:, None, None] / d * jnp.eye(d, dtype=S.dtype)
    )
    chol = jnp.linalg.cholesky((1 - shrinkage) * S + shrinkage * ridge)
    return GaussianClassesParams(stats.n / jnp.sum(stats.n), stats.mean, chol)
