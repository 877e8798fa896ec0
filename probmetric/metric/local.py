"""GLML's local Mahalanobis metric: its matrix depends on the query.

With z = F(x - centre) the transformed coordinates, F the matrix ``frame``, the
dissimilarity of y from query x is

    (z_y - z_x)ᵀ A(z_x) (z_y - z_x),                                              (1)

which is neither symmetric nor a distance. A(z) is computed from the class densities by
one of the rules of ``metric.glml``. A(z) has determinant 1 on its range, so
dissimilarities from different queries are comparable. With ``rule="fisher"`` they may
not be comparable, because the range of A(z) (at most c - 1 directions) may be smaller
far from a boundary. In input units the matrix is FᵀA F.

The dissimilarities of all pairs are computed by one matrix product. Let A_x be the
matrix of query x, and φ(t) = (t_it_j for i ≤ j, t) the f = D(D+1)/2 + D features of a
point t. Then

    (t - x)ᵀA_x(t - x) = φ(t)·ψ_x + xᵀA_x x,  ψ_x = (A_ij (1 + [i<j]), -2A_x x),   (2)

in 2mnf flops, half as many as transforming every point for every query. ``TILE`` points
are processed at a time, with m f + TILE (f + m) numbers in memory besides the m n
results. For close pairs the terms of (2) cancel, and the absolute error is about
eps ‖A‖ (|x|² + |t|²). ``refine`` evaluates (1) directly for a few candidates. Squared
distances that are negative by rounding are set to 0.
"""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_choice
from probmetric.compilation import COMPILED_SOON
from probmetric.densities.classes import (
    ClassDensities,
    class_scores,
    log_posterior,
    mapped,
    posterior_and_hessians,
)
from probmetric.linalg import cholesky_of, solve_lower
from probmetric.metric import glml
from probmetric.metric.protocol import MetricBase, measured
from probmetric.precision import in_native_order, one_program, traced
from probmetric.typing import Array

TILE = 1024
"""Number of points processed at a time."""


class QueryForms(NamedTuple):
    """The matrices of m queries, with ψ and xᵀAx of Eq. (2)."""

    matrices: Float[Array, "m d d"]
    psi: Float[Array, "m f"]
    constant: Float[Array, "m"]


def _forms(xp: ModuleType, A: Array, Q: Array) -> QueryForms:
    i, j = np.triu_indices(Q.shape[1])
    Ax = xp.einsum("mij,mj->mi", A, Q)
    psi = xp.concatenate([A[:, i, j] * (2 - (i == j)).astype(A.dtype), -2 * Ax], 1)
    return QueryForms(A, psi, xp.sum(Ax * Q, 1))


@jax.jit
def query_forms(A: Float[Array, "m d d"], Q: Float[Array, "m d"]) -> QueryForms:
    """Return the terms of Eq. (2) that depend only on the queries."""
    return _forms(jnp, A, Q)


@jax.jit
def from_forms(forms: QueryForms, P: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """Return (t - x)ᵀA_x(t - x) for all queries x and all t in P, by Eq. (2)."""
    (n, d), m = P.shape, len(forms.constant)
    i, j = np.triu_indices(d)

    def columns(T: Array) -> Array:
        # Features are rows, the fastest layout for the product.
        T = T.T
        phi = jnp.concatenate([T[i] * T[j], T], 0)
        # A squared distance is ≥ 0: the projection can only reduce the error.
        return jnp.maximum(forms.psi @ phi + forms.constant[:, None], 0.0)

    if n <= TILE:
        return columns(P)
    tiles = jnp.pad(P, ((0, -n % TILE), (0, 0))).reshape(-1, TILE, d)
    by_tile = jnp.moveaxis(jax.lax.map(columns, tiles), 0, 1)
    return by_tile.reshape(m, -1)[:, :n]


def local_pairwise(
    A: Float[Array, "m d d"], Q: Float[Array, "m d"], P: Float[Array, "n d"]
) -> Float[Array, "m n"]:
    """Return (t - x)ᵀA_x(t - x) for all x in Q, t in P, as matrix products (Eq. 2)."""
    return from_forms(query_forms(A, Q), P)


type Rule = Literal["min_norm", "zero_bias", "regularised", "fisher"]

FAR = 2.0**250
"""Bound of coordinates (about 1.8e75) that keeps sums of fourth powers finite."""

CHUNK = 64
"""Number of queries in a batch. A batch needs c · CHUNK · D² numbers in memory."""

SIDES = (1, CHUNK)
"""Compiled batch sizes. Two or more queries are padded to a multiple of CHUNK."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LocalMahalanobis(MetricBase):
    """Squared distance under a matrix that depends on the query (see ``GLML``).

    The squared distance of y from a query x is (y - x)ᵀ M(x) (y - x). It is not
    symmetric, because M(x) depends on the query. Nearest-neighbor classification is
    biased, because class probabilities at the neighbor differ from those at the query.
    If the class densities are correct, the default M(x) removes this bias to second
    order in the distance to the neighbor. It does so even if the bias makes the error
    smaller. The theory page *Gaussian classes and local metrics* has the derivation.

    Parameters
    ----------
    classes : ClassDensities
        Class densities in the transformed coordinates z = F(x - ``centre``).
    frame : array of shape (d, d)
        Invertible linear map F. Usually F whitens the pooled covariance. F = I gives
        the metric of Noh, Zhang and Lee (2010). F matters, because the rules prefer
        matrices near the identity in the transformed coordinates.
    centre : array of shape (d,)
        Point that is subtracted before F is applied, to reduce rounding errors.
    gamma : array of shape (), default 0
        Weight γ ≥ 0 of a base metric, the Euclidean metric of the transformed
        coordinates. If A is the local matrix in these coordinates, the metric uses
        γI + d·A/tr A, scaled to determinant 1. γ = ∞ uses only the base metric.
    epsilon : array of shape (), default 0.05
        Ridge penalty ε > 0, used only by the rule "regularised". Before the penalty is
        added, the matrix of the bias is divided by the root mean square of its
        eigenvalues.
    rule : {"min_norm", "zero_bias", "regularised", "fisher"}, default="min_norm"
        Rule that computes the local matrix A, as the parameter ``rule`` of ``GLML``.
        "fisher" does not remove the bias.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> metric = pm.GLML(gamma=1.0, n_draws=0).fit(X, y).get_metric()
    >>> isinstance(metric, LocalMahalanobis), metric.matrix_at(X[:3]).shape
    (True, (3, 4, 4))
    """

    classes: ClassDensities
    frame: Float[Array, "d d"]
    centre: Float[Array, "d"]
    gamma: Float[Array, ""] | float = 0.0
    epsilon: Float[Array, ""] | float = 0.05
    rule: Rule = field(default="min_norm", metadata={"static": True})
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.frame.shape[-1]

    def rescaled(
        self, scale: Float[Array, "d"], offset: Float[Array, "d"]
    ) -> "LocalMahalanobis":
        """Return the same metric for inputs offset + scale · x instead of x."""
        centre = offset + scale * self.centre
        return replace(self, frame=self.frame / scale, centre=centre)

    def refuse_far(self, X: Float[np.ndarray, "n d"], name: str) -> None:
        """Raise ValueError for points whose transformed coordinates reach 1e75.

        The matrix at a point uses the fourth powers of ``frame`` (x - ``centre``).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - np.asarray(self.centre)) @ np.asarray(self.frame).T
        if not np.all(np.abs(Z) < FAR):
            raise ValueError(
                f"{name}: coordinates must be below 1e75 after centering and scaling, "
                "because their fourth powers are used, got a largest entry of "
                f"{np.abs(X).max():.3g}. Rescale the points."
            )

    @measured
    def frame_matrix_at(self, X: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """Compute the matrix at each row, in coordinates ``frame`` (x - ``centre``)."""
        if isinstance(X, np.ndarray) and X.dtype == np.float64:
            self.refuse_far(X, "X")
        queries = jnp.asarray(X)
        if traced(queries) and not traced(X) and X.dtype != queries.dtype:
            raise ValueError(
                "X must be an argument of the function inside jax.jit, got an array "
                f"of dtype {X.dtype} from outside. JAX would convert this array to "
                "float32. Pass X as an argument, or use jax.enable_x64."
            )
        if traced(self, queries):  # Also for constants of a traced function.
            return _matrices(self, queries)
        return jnp.asarray(_by_chunks(self, np.asarray(queries)))

    @measured
    def matrix_at(self, X: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """Compute the matrix of the metric at each row, in input units."""
        return _in_input_units(self.frame, self.frame_matrix_at(X))

    @measured
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Compute squared distances from a query q to the rows of Y."""
        return _from_one(self.frame, self.frame_matrix_at(q[None])[0], q, Y)

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute squared distances from rows of Q to rows of P, shape (m, n)."""
        return _from_all(self.frame, self.centre, self.frame_matrix_at(Q), Q, P)

    def maps(self) -> list[Array]:
        """Return the linear maps of the metric, [``frame``]."""
        return [self.frame]

    def prepare(self, Q: Float[Array, "m d"]) -> QueryForms:
        """Compute the terms of ``pairwise(Q, P)`` that depend only on Q."""
        return query_forms(self.frame_matrix_at(Q), (Q - self.centre) @ self.frame.T)

    def prepare_alone(self, Q: Float[np.ndarray, "m d"]) -> QueryForms:
        """Return ``prepare(Q)`` as NumPy arrays, without compiling for its shape."""
        Z = (Q - np.asarray(self.centre)) @ np.asarray(self.frame).T
        return _forms(np, _by_chunks(self, Q), Z)

    def from_prepared(
        self, prepared: QueryForms, P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)``, given the result of ``prepare(Q)``."""
        return from_forms(prepared, (P - self.centre) @ self.frame.T)

    @measured
    def refine(
        self,
        Q: Float[Array, "m d"],
        P: Float[Array, "n d"],
        idx: Int[Array, "m k"],
        *,
        prepared: QueryForms | None = None,
    ) -> Float[Array, "m k"]:
        """Compute the squared distances from query i to the points P[idx[i]].

        They have smaller rounding errors than ``pairwise``. ``prepared`` is the result
        of ``prepare(Q)``, if it is available.
        """
        A = self.frame_matrix_at(Q) if prepared is None else prepared.matrices
        return _from_each(self.frame, A, Q, P, idx)


@one_program
def _in_input_units(frame: Array, A: Array) -> Array:
    return jnp.einsum("ai,nab,bj->nij", frame, A, frame)


@one_program
def _from_one(frame: Array, A: Array, q: Array, Y: Array) -> Array:
    delta = (jnp.asarray(Y) - q) @ frame.T
    return jnp.maximum(jnp.einsum("ni,ij,nj->n", delta, A, delta), 0.0)


@one_program
def _from_all(frame: Array, centre: Array, A: Array, Q: Array, P: Array) -> Array:
    Q, P = (jnp.asarray(X) - centre for X in (Q, P))
    return local_pairwise(A, Q @ frame.T, P @ frame.T)


@one_program
def _from_each(frame: Array, A: Array, Q: Array, P: Array, idx: Array) -> Array:
    Q, P = jnp.asarray(Q), jnp.asarray(P)
    delta = (P[idx] - Q[:, None]) @ frame.T
    return jnp.maximum(jnp.einsum("mki,mij,mkj->mk", delta, A, delta), 0.0)


def _spectrum(metric: LocalMahalanobis, z: Float[Array, "d"]) -> glml.Spectrum:
    check_choice("rule", metric.rule, get_args(Rule.__value__))
    if metric.rule == "fisher":
        log_rho = log_posterior(metric.classes, z)
        scores = class_scores(metric.classes, z)
        F = glml.fisher_matrix(log_rho, scores, relative=True)
        a, U = jnp.linalg.eigh(F)
        # Rank at most c - 1: eigenvalues at the level of rounding are set to 0.
        rounding = len(a) * jnp.finfo(F.dtype).eps * jnp.max(a)
        return glml.Spectrum(jnp.where(a > rounding, a, 0.0), U)
    B, size = _bias(metric.classes, z)
    if metric.rule == "zero_bias":
        return glml.zero_bias(B, size=size)
    if metric.rule == "regularised":
        scale = jnp.sqrt(jnp.sum(B**2) / len(z))
        return glml.regularised(B / jnp.where(scale > 0, scale, 1.0), metric.epsilon)
    return glml.min_norm(B, size=size)


def _matrices(
    metric: LocalMahalanobis, X: Float[Array, "n d"]
) -> Float[Array, "n d d"]:
    def matrix(z: Array) -> Array:
        return glml.compose(glml.with_base(_spectrum(metric, z), metric.gamma))

    Z = (X - metric.centre) @ metric.frame.T
    n, d = Z.shape
    if n <= CHUNK:
        return jax.vmap(matrix)(Z)
    # Whole chunks: lax.map would compile its body a second time for a remainder.
    chunks = jnp.pad(Z, ((0, -n % CHUNK), (0, 0)), mode="edge").reshape(-1, CHUNK, d)
    return jax.lax.map(jax.vmap(matrix), chunks).reshape(-1, d, d)[:n]


_frame_matrices = jax.jit(_matrices, compiler_options=COMPILED_SOON)


def _by_chunks(
    metric: LocalMahalanobis, X: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d d"]:
    """Return A(z) of each row in batches, computing a repeated last row only once."""
    (n, d), side = X.shape, next((s for s in SIDES if len(X) <= s), CHUNK)
    if n == 0:
        return np.zeros((0, d, d), X.dtype)
    other = np.flatnonzero((X[:-1] != X[-1]).any(1))
    last = int(other[-1]) + 1 if len(other) else 0
    rows = np.pad(X[: last + 1], ((0, -(last + 1) % side), (0, 0)), mode="edge")
    metric = jax.device_put(metric)
    chunks = rows.reshape(-1, side, d)
    A = np.concatenate([np.asarray(_frame_matrices(metric, X)) for X in chunks])
    return A[np.minimum(np.arange(n), last)]


def _bias(
    classes: ClassDensities, z: Float[Array, "d"]
) -> tuple[Float[Array, "d d"], Float[Array, ""]]:
    return glml.bias_matrix(*posterior_and_hessians(classes, z))


def local_metric(
    classes: ClassDensities,
    *,
    rule: Rule = "min_norm",
    gamma: Float[Array, ""] | float | int = 0.0,
    epsilon: Float[Array, ""] | float | int = 0.05,
    frame: Literal["pooled", "identity"] = "pooled",
) -> LocalMahalanobis:
    """Return the local metric of class densities in input coordinates.

    ``frame="pooled"`` whitens by the pooled scale matrix, the mean of the components'
    scale matrices. The pooled matrix must be positive definite. ``frame="identity"``
    does not change the axes. Points are centered at the mean location of the densities.
    """
    return local_of(jnp, in_native_order(classes), rule, gamma, epsilon, frame)


def local_of(
    xp: ModuleType,
    classes: ClassDensities,
    rule: Rule,
    gamma: Array | float,
    epsilon: Array | float = 0.05,
    frame: Literal["pooled", "identity"] = "pooled",
) -> LocalMahalanobis:
    """Compute ``local_metric`` with NumPy or JAX (``xp``)."""
    share = xp.exp(classes.log_prior[:, None] + classes.log_mix)
    share = share / xp.sum(share)
    centre = xp.einsum("ck,ckd->d", share, classes.loc)
    d = len(centre)
    F = xp.eye(d, dtype=centre.dtype)
    if frame == "pooled":
        halves = xp.sqrt(share)[..., None, None] * classes.factor
        half = cholesky_of(xp, xp.einsum("ckij,cklj->il", halves, halves))
        F = solve_lower(xp, half, F)
    return LocalMahalanobis(
        mapped(xp, classes, F, centre),
        F,
        centre,
        xp.asarray(gamma, centre.dtype),
        xp.asarray(epsilon, centre.dtype),
        rule,
    )
