"""Class densities with the derivatives that a local metric needs.

Each class c is a mixture of k normal or Student-t components of dimension D,

    p_c(x) = Σ_m ω_cm f_cm(x),   f = N(μ, S)  or  t_df(μ, S),                     (1)

with u = S⁻¹(x - μ), q = (x - μ)ᵀu and v = 1/df (v = 0 for the normal). Let

    a = (1 + Dv)/(1 + qv),   b = (1 + (D + 2)v)/(1 + qv).

For the normal, a = b = 1. The score, and the Hessian divided by the density, are

    ∇ log f = -a u,                                                              (2)
    H̄_f = ∇∇f / f = a (b u uᵀ - S⁻¹).                                            (3)

For a mixture, the score and H̄ are averages over the components with the
responsibilities r_m = ω_m f_m / p (4). All densities are computed as logs, because f
underflows a few dozen standard deviations from μ, but H̄ does not.

References
----------
Noh, Zhang and Lee, "Generative Local Metric Learning for Nearest Neighbor
Classification", NIPS 2010: Eq. (14) of the paper is (3) for the normal. (3) for
df < ∞ is not in the paper.
"""

from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Float, Int

from probmetric.densities.gaussian import LOG_2PI
from probmetric.linalg import log1p_squares, logdet_chol
from probmetric.typing import Array


class ClassDensities(NamedTuple):
    """Mixtures of k normal or Student-t components for each of c classes.

    ``log_prior`` has the log class probabilities and ``log_mix`` the log weights ω
    within each class (-inf for a missing component). ``loc`` is μ. ``factor`` is the
    lower Cholesky factor of S, the covariance of a normal or the scale matrix of a
    Student-t component. ``inv_df`` is v = 1/df, and 0 for a normal component.
    """

    log_prior: Float[Array, "c"]
    log_mix: Float[Array, "c k"]
    loc: Float[Array, "c k d"]
    factor: Float[Array, "c k d d"]
    inv_df: Float[Array, "c k"]


class _Components(NamedTuple):
    """log ω f (c, k), u (c, k, d), a (c, k) and b (c, k) at one point."""

    log_f: Float[Array, "c k"]
    u: Float[Array, "c k d"]
    a: Float[Array, "c k"]
    b: Float[Array, "c k"]


def log_student(
    white: Float[Array, "*n d"], df: Float[Array, "*#n"], m: Int[Array, ""] | int
) -> Float[Array, "*n"]:
    """Return log t_df(x; μ, LLᵀ) + log|L| in m dimensions from L⁻¹(x - μ)."""
    # log1p_squares uses finfo of the dtype that JAX computes in.
    white = jnp.asarray(white)
    return (
        gammaln((df + m) / 2)
        - gammaln(df / 2)
        - 0.5 * m * jnp.log(df * jnp.pi)
        - 0.5 * (df + m) * log1p_squares(white, df)
    )


def _components(classes: ClassDensities, x: Float[Array, "d"]) -> _Components:
    d, nu = x.shape[-1], classes.inv_df
    delta = (x - classes.loc)[..., None]
    white = solve_triangular(classes.factor, delta, lower=True)
    u = solve_triangular(classes.factor, white, lower=True, trans=1)[..., 0]
    q = jnp.sum(white[..., 0] ** 2, -1)
    half_logdet = 0.5 * logdet_chol(classes.factor)
    # "Double where": the branch not taken must not see df = 1/0.
    student = log_student(white[..., 0], 1 / jnp.where(nu > 0, nu, 1.0), d)
    normal = -0.5 * (d * LOG_2PI + q)
    log_f = classes.log_mix + jnp.where(nu > 0, student, normal) - half_logdet
    a = (1 + d * nu) / (1 + q * nu)
    return _Components(log_f, u, a, (1 + (d + 2) * nu) / (1 + q * nu))


def class_log_densities(
    classes: ClassDensities, x: Float[Array, "d"]
) -> Float[Array, "c"]:
    """Return the log density log p_c(x) of each class at one point x.

    The class probabilities are not included.

    Examples
    --------
    >>> ones, loc = jnp.ones((2, 1)), jnp.array([[[0.0]], [[2.0]]])
    >>> log_half, factor = jnp.log(ones[:, 0] / 2), ones[..., None, None]
    >>> classes = ClassDensities(log_half, 0 * ones, loc, factor, 0 * ones)
    >>> first, second = class_log_densities(classes, jnp.array([0.0])).tolist()
    >>> round(first, 4), round(second - first, 4)  # log N(0; 0, 1), and -½ 2²
    (-0.9189, -2.0)
    """
    return logsumexp(_components(classes, x).log_f, -1)


def log_posterior(classes: ClassDensities, x: Float[Array, "d"]) -> Float[Array, "c"]:
    """Return log P(c | x) for one point."""
    return jax.nn.log_softmax(classes.log_prior + class_log_densities(classes, x))


def class_scores(classes: ClassDensities, x: Float[Array, "d"]) -> Float[Array, "c d"]:
    """Return the scores ∇ log p_c(x) of one point (Eqs. 2 and 4)."""
    at = _components(classes, x)
    share = jax.nn.softmax(at.log_f, -1)
    return -jnp.einsum("ck,ckd->cd", share * at.a, at.u)


def posterior_and_hessians(
    classes: ClassDensities, x: Float[Array, "d"]
) -> tuple[Float[Array, "c"], Float[Array, "c d d"]]:
    """Return ``log_posterior`` and ``class_hessians``, computed together."""
    at = _components(classes, x)
    log_rho = jax.nn.log_softmax(classes.log_prior + logsumexp(at.log_f, -1))
    share = jax.nn.softmax(at.log_f, -1) * at.a
    eye = jnp.eye(x.shape[-1], dtype=jnp.result_type(x))
    eye = jnp.broadcast_to(eye, classes.factor.shape)
    # Eq. (3) needs the inverse itself. It does not depend on x: vmap computes it once.
    precision = cho_solve((classes.factor, True), eye)
    outer = jnp.einsum("ck,cki,ckj->cij", share * at.b, at.u, at.u)
    return log_rho, outer - jnp.einsum("ck,ckij->cij", share, precision)


def class_hessians(
    classes: ClassDensities, x: Float[Array, "d"]
) -> Float[Array, "c d d"]:
    """Return the Hessians ∇∇p_c(x) / p_c(x) of one point (Eqs. 3, 4)."""
    return posterior_and_hessians(classes, x)[1]


def mapped(
    xp: ModuleType, classes: ClassDensities, frame: Array, centre: Array
) -> ClassDensities:
    """Transform the densities to coordinates z = F(x - centre), F invertible."""
    upper = xp.linalg.qr(xp.swapaxes(frame @ classes.factor, -1, -2), mode="r")
    sign = xp.sign(xp.diagonal(upper, axis1=-2, axis2=-1))
    lower = xp.swapaxes(upper * sign[..., None], -1, -2)
    return classes._replace(loc=(classes.loc - centre) @ frame.T, factor=lower)
