"""GLML's local Mahalanobis metric: its matrix differs from query to query.

With z = F(x - centre) the coordinates of the *frame*, the distance of y from query x is

    (z_y - z_x)ᵀ A(z_x) (z_y - z_x),                                              (1)

taken under the query's matrix: it is neither symmetric nor a distance. A(z) follows
from the class densities by one of the rules of ``metric.glml``; |A(z)| = 1 on its
range for all of them, so that distances of different queries compare; not those of
"fisher", whose range, at most c - 1 directions, may lose one far from a boundary. In
input units the matrix is
FᵀA F.

All pairs are one matrix product. With A_x the matrix of query x and φ(t) = (t_it_j for
i ≤ j, t) the features of a point, f = D(D+1)/2 + D of them,

    (t - x)ᵀA_x(t - x) = φ(t)·ψ_x + xᵀA_x x,  ψ_x = (A_ij (1 + [i<j]), -2A_x x),   (2)

2mnf flops, half of those of transforming every point for every query. Points are taken
``TILE`` at a time: memory is m f + TILE (f + m) numbers beside the m n answers. The
product cancels for close pairs, absolute error about eps ‖A‖ (|x|² + |t|²): ``refine``
evaluates (1) itself for the few candidates that matter. Where rounding makes a square
negative it is set to zero.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

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
from probmetric.metric.glml import expected_bias
from probmetric.metric.protocol import measured, said, two_points
from probmetric.precision import in_native_order, one_program, store_native, traced
from probmetric.typing import Array

TILE = 1024
"""Points taken at a time: 4.5 MB of features at D = 32, float64."""


class QueryForms(NamedTuple):
    """The matrices of m queries, and ψ and xᵀAx of Eq. (2) that follow from them."""

    matrices: Float[Array, "m d d"]
    psi: Float[Array, "m f"]
    constant: Float[Array, "m"]


def _forms(xp: Any, A: Any, Q: Any) -> QueryForms:
    """Return ``query_forms`` by NumPy or by JAX."""
    i, j = np.triu_indices(Q.shape[1])
    Ax = xp.einsum("mij,mj->mi", A, Q)
    psi = xp.concatenate([A[:, i, j] * (2 - (i == j)).astype(A.dtype), -2 * Ax], 1)
    return QueryForms(A, psi, xp.sum(Ax * Q, 1))


@jax.jit
def query_forms(A: Float[Array, "m d d"], Q: Float[Array, "m d"]) -> QueryForms:
    """Return the side of Eq. (2) that depends on the queries alone."""
    return _forms(jnp, A, Q)


@jax.jit
def from_forms(forms: QueryForms, P: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """Return (t - x)ᵀA_x(t - x) for all queries x and all t in P, by Eq. (2)."""
    (n, d), m = P.shape, len(forms.constant)
    i, j = np.triu_indices(d)

    def columns(T: Any) -> Any:
        # Features are rows: the layout in which the product is fastest.
        T = T.T
        phi = jnp.concatenate([T[i] * T[j], T], 0)
        # A squared distance is ≥ 0: projecting there only ever lessens the error.
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


type Rule = Literal["min_norm", "zero_bias", "regularised", "expected_bias", "fisher"]

FAR = 2.0**250
"""About 1.8e75: fourth powers of smaller numbers, and their sums, are finite."""

CHUNK = 64
"""Queries whose matrices are computed at a time: c · CHUNK · D² numbers are live."""

SIDES = (1, CHUNK)
"""Numbers of queries for which there is a program outside a caller's own.

Of 2 queries 64 matrices are computed: 1 ms in 4 dimensions, 7 in 30, where one more
program takes a second to compile. Chunks of 128 are no faster.
"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LocalMahalanobis:
    """Squared distance under a matrix that depends on the query (Eq. 1).

    Parameters
    ----------
    classes : ClassDensities
        In the coordinates of the frame. For ``rule="expected_bias"`` every field has
        a leading axis of draws, over which the one metric takes its expectation.
    frame : array of shape (d, d)
        F, invertible: the coordinates in which "near the identity" is meant. Pooled
        whitening by default; the identity gives the paper's metric.
    centre : array of shape (d,)
        Subtracted first; keeps the products of Eq. (2) small.
    gamma : array of shape (), default 0
        Share of the base metric FᵀF: γI + D·A/tr A. ∞ is the base metric alone.
    epsilon : array of shape (), default 0.05
        Ridge of the rules "regularised" and "expected_bias", relative to B², > 0.
    rule : str
        "min_norm" (default), "zero_bias" (Eq. (10) of the paper), "regularised",
        "expected_bias" or "fisher" (information of the class posterior).

    Notes
    -----
    Valid to second order in the distance to the neighbour, for densities that are
    the true ones; a *negative* bias, where neighbours err less than they do in the
    limit, is removed as well (maths 2.3, caveats).

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
    __post_init__ = store_native
    __repr__ = said

    @property
    def n_features(self) -> int:
        """Number of features d of the points it takes."""
        return self.frame.shape[-1]

    def rescaled(
        self, scale: Float[Array, "d"], offset: Float[Array, "d"]
    ) -> "LocalMahalanobis":
        """Return the same metric for inputs x = offset + scale · (own input)."""
        centre = offset + scale * self.centre
        return replace(self, frame=self.frame / scale, centre=centre)

    def refuse_far(self, X: Float[np.ndarray, "n d"], name: str) -> None:
        """Refuse queries at which A(z) is not to be computed in float64.

        Raises
        ------
        ValueError
            For coordinates in the frame beyond 1e75: fourth powers of them are taken.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - np.asarray(self.centre)) @ np.asarray(self.frame).T
        if not np.all(np.abs(Z) < FAR):
            raise ValueError(
                f"{name}: expected queries within 1e75 of the centre in coordinates of "
                f"the frame, got a largest entry of {np.abs(X).max():.3g}"
            )

    @measured
    def frame_matrix_at(self, X: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """Return A(z) of each row (determinant 1), in frame coordinates, (n, d, d)."""
        if isinstance(X, np.ndarray) and X.dtype == np.float64:
            self.refuse_far(X, "X")
        given, X = X, jnp.asarray(X)
        if traced(X) and not traced(given) and given.dtype != X.dtype:
            raise ValueError(
                f"X: expected queries that are arguments of the traced program, or "
                f"jax.enable_x64, got a constant of it of {given.dtype}"
            )
        if traced(self, X):  # Constants of a caller's own program are so by now.
            return _matrices(self, X)
        return jnp.asarray(_by_chunks(self, np.asarray(X)))

    @measured
    def matrix_at(self, X: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """Return the matrix of each row in input units, FᵀA(z)F; shape (n, d, d)."""
        return _in_input_units(self.frame, self.frame_matrix_at(X))

    @measured
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return squared distances of one query to the rows of Y (Eq. 1)."""
        return _from_one(self.frame, self.frame_matrix_at(q[None])[0], q, Y)

    @measured
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return all squared distances as one product, shape (m, n).

        They are never negative: where rounding would make them so they are zero. For
        several sets of points take ``prepare(Q)`` once, and ``from_prepared``.
        """
        return _from_all(self.frame, self.centre, self.frame_matrix_at(Q), Q, P)

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return the squared distance of v from the query u (Eq. 1)."""
        u, v = two_points(self, u, v)
        return float(self.dissimilarity(u, v[None])[0])

    def maps(self) -> list[Array]:
        """Return [F], the map before the squares."""
        return [self.frame]

    def prepare(self, Q: Float[Array, "m d"]) -> QueryForms:
        """Return what the distances from the rows of Q to any points share."""
        return query_forms(self.frame_matrix_at(Q), (Q - self.centre) @ self.frame.T)

    def prepare_alone(self, Q: Float[np.ndarray, "m d"]) -> QueryForms:
        """Return ``prepare(Q)`` as NumPy arrays, whose size compiles nothing."""
        Z = (Q - np.asarray(self.centre)) @ np.asarray(self.frame).T
        return _forms(np, _by_chunks(self, Q), Z)

    def from_prepared(
        self, prepared: QueryForms, P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)`` given ``prepare(Q)``."""
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
        """Return squared distances to the points P[idx] by differences (Eq. 1)."""
        A = self.frame_matrix_at(Q) if prepared is None else prepared.matrices
        return _from_each(self.frame, A, Q, P, idx)


@one_program
def _in_input_units(frame: Any, A: Any) -> Any:
    return jnp.einsum("ai,nab,bj->nij", frame, A, frame)


@one_program
def _from_one(frame: Any, A: Any, q: Any, Y: Any) -> Any:
    delta = (jnp.asarray(Y) - q) @ frame.T
    return jnp.maximum(jnp.einsum("ni,ij,nj->n", delta, A, delta), 0.0)


@one_program
def _from_all(frame: Any, centre: Any, A: Any, Q: Any, P: Any) -> Any:
    Q, P = (jnp.asarray(X) - centre for X in (Q, P))
    return local_pairwise(A, Q @ frame.T, P @ frame.T)


@one_program
def _from_each(frame: Any, A: Any, Q: Any, P: Any, idx: Any) -> Any:
    Q, P = jnp.asarray(Q), jnp.asarray(P)
    delta = (P[idx] - Q[:, None]) @ frame.T
    return jnp.maximum(jnp.einsum("mki,mij,mkj->mk", delta, A, delta), 0.0)


def _spectrum(metric: LocalMahalanobis, z: Float[Array, "d"]) -> glml.Spectrum:
    if metric.rule == "expected_bias":
        B, _ = jax.vmap(_bias, (0, None))(metric.classes, z)
        scale = jnp.sqrt(jnp.mean(jnp.sum(B**2, (-2, -1))) / len(z))
        return expected_bias(B / jnp.where(scale > 0, scale, 1.0), metric.epsilon)
    if metric.rule == "fisher":
        log_rho = log_posterior(metric.classes, z)
        scores = class_scores(metric.classes, z)
        F = glml.fisher_matrix(log_rho, scores, relative=True)
        a, U = jnp.linalg.eigh(F)
        # Rank at most c - 1: an eigenvalue of pure rounding is no direction.
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
    def one(z: Any) -> Any:
        return glml.compose(glml.with_base(_spectrum(metric, z), metric.gamma))

    Z = (X - metric.centre) @ metric.frame.T
    n, d = Z.shape
    if n <= CHUNK:
        return jax.vmap(one)(Z)
    # Whole chunks: lax.map's own remainder would compile the body a second time.
    chunks = jnp.pad(Z, ((0, -n % CHUNK), (0, 0)), mode="edge").reshape(-1, CHUNK, d)
    return jax.lax.map(jax.vmap(one), chunks).reshape(-1, d, d)[:n]


_frame_matrices = jax.jit(_matrices, compiler_options=COMPILED_SOON)


def _by_chunks(
    metric: LocalMahalanobis, X: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d d"]:
    """Return A(z) of each row, by programs of two sizes whatever n.

    Tiles of a search end in copies of their last row, which is computed once.
    """
    (n, d), side = X.shape, next((s for s in SIDES if len(X) <= s), CHUNK)
    if n == 0:
        return np.zeros((0, d, d), X.dtype)
    other = np.flatnonzero((X[:-1] != X[-1]).any(1))
    last = int(other[-1]) + 1 if len(other) else 0
    rows = np.pad(X[: last + 1], ((0, -(last + 1) % side), (0, 0)), mode="edge")
    metric = jax.device_put(metric)
    found = [_frame_matrices(metric, chunk) for chunk in rows.reshape(-1, side, d)]
    A = np.concatenate([np.asarray(A) for A in found])
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
    """Return the local metric of class densities given in input coordinates.

    ``frame="pooled"`` whitens by the pooled scale matrix Σ_c π_c Σ_m ω_cm S_cm, which
    has to be positive definite; "identity" leaves the axes as they are. Points are
    centred at the mean of the densities' locations.

    Examples
    --------
    Two normals side by side: between them steps towards the other class are long. The
    matrix has determinant 1, whatever the rule.

    >>> import numpy as np
    >>> from probmetric.densities import ClassDensities
    >>> from probmetric.metric import local_metric
    >>> one, centres = np.ones((2, 1)), np.array([[[-1.0, 0.0]], [[1.0, 0.0]]])
    >>> factors = np.broadcast_to(np.eye(2), (2, 1, 2, 2))
    >>> classes = ClassDensities(np.log([0.5, 0.5]), 0 * one, centres, factors, 0 * one)
    >>> metric = local_metric(classes, rule="fisher", gamma=0.5)
    >>> M = metric.matrix_at(np.zeros((1, 2)))[0]
    >>> long, short = np.diag(M).tolist()
    >>> round(long / short, 4), round(long * short, 4)
    (5.0, 1.0)
    """
    return local_of(jnp, in_native_order(classes), rule, gamma, epsilon, frame)


def local_of(
    xp: Any,
    classes: ClassDensities,
    rule: Rule,
    gamma: Any,
    epsilon: Any = 0.05,
    frame: Literal["pooled", "identity"] = "pooled",
) -> LocalMahalanobis:
    """Return ``local_metric`` by NumPy or by JAX."""
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
