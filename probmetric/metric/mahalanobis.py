"""The Mahalanobis metric: the Euclidean distance after a linear map."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.metric.link import NO_LINK, AnyLink, Scalar
from probmetric.metric.protocol import MetricBase, measured, two_points
from probmetric.precision import one_program
from probmetric.provenance import need
from probmetric.typing import Array, ArrayLike


def check_factor(factor: ArrayLike) -> Array:
    """Return a metric's factor; raise ValueError unless it is a real matrix."""
    shape, kind = np.shape(factor), getattr(factor, "dtype", None)
    if len(shape) != 2 or kind is None or kind.kind in "cOUSmM":
        raise ValueError(
            "factor must be an array of real numbers with shape (p, d), got "
            f"{type(factor).__name__ if kind is None else kind} of shape {shape}"
        )
    return cast("Array", factor)


def _image_of_difference(factor: ArrayLike, A: Array, B: Array) -> Array:
    """Return L(a - b) of matching rows in floats (uint8 differences wrap around)."""
    L = check_factor(factor)
    dtype = jnp.result_type(L, A, B)
    return (jnp.asarray(A, dtype) - jnp.asarray(B, dtype)) @ L.T


@one_program
def _squared(factor: ArrayLike, A: Array, B: Array) -> Array:
    return jnp.sum(((jnp.asarray(A) - B) @ check_factor(factor).T) ** 2, -1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Mahalanobis(MetricBase):
    """Mahalanobis metric: the Euclidean distance after a linear map L.

    ``distance`` and a call ``metric(u, v)`` return the distance
    √((u - v)ᵀ LᵀL (u - v)). ``dissimilarity`` and ``pairwise`` return its *square*.
    Neighbor search and soft votes also use squared distances.

    Parameters
    ----------
    factor : array of shape (p, d)
        Linear map L. It is not unique: QL gives the same distances as L for every
        orthogonal matrix Q.
    link : Link, LogLogisticLink or IsotonicLink, optional
        Function that computes P(same) from a squared distance. P(same) is the
        probability that two points are *same* (of one class, or judged to be the same).
        The link belongs to a model, or is calibrated on held-out pairs. Without a link,
        P(same) is not available.

    Examples
    --------
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> float(metric.distance(np.array([0.0, 0.0]), np.array([3.0, 2.0])))
    5.0
    """

    factor: Float[Array, "p d"]
    link: AnyLink | None = None
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return check_factor(self.factor).shape[1]

    @property
    def matrix(self) -> Float[Array, "d d"]:
        """Matrix M = LᵀL of the linear map L.

        The squared distance of two points u and v is (u - v)ᵀ M (u - v).
        """
        return check_factor(self.factor).T @ self.factor

    @measured
    @one_program
    def transform(self, X: Float[Array, "*n d"]) -> Float[Array, "*n p"]:
        """Map points x to Lx, between which the distance is Euclidean."""
        return jnp.asarray(X) @ check_factor(self.factor).T

    @measured
    @one_program
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Compute the squared distances from a query q to the rows of Y."""
        # Differences first: ‖Lx‖² + ‖Ly‖² - 2·dot cancels for close points.
        return jnp.sum(_image_of_difference(self.factor, Y, q) ** 2, -1)

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute squared distances from rows of Q to rows of P, shape (m, n).

        Values below 2e-308 become 0.
        """
        # Without the cast, float64 points with a float32 factor could lose precision.
        L = jnp.asarray(check_factor(self.factor), jnp.result_type(self.factor, Q, P))
        Z, V = jnp.asarray(Q) @ L.T, jnp.asarray(P) @ L.T
        return jax.vmap(lambda z: jnp.sum((V - z) ** 2, -1))(Z)

    def prepare(self, Q: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """Map each row q of Q to Lq, where L is the linear map."""
        return Q @ self.factor.T

    def from_prepared(
        self, prepared: Float[Array, "m p"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)``, given the result of ``prepare(Q)``."""
        V = P @ self.factor.T
        # Row by row: XLA would fuse the reduction with its use, which is slower.
        return jax.lax.map(lambda z: jnp.sum((V - z) ** 2, -1), prepared)

    def maps(self) -> list[Array]:
        """Return the linear maps of the metric, [``factor``]."""
        return [self.factor]

    @measured
    @one_program
    def distance(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Compute the distance (not squared) between matching rows of A and B."""
        delta = _image_of_difference(self.factor, A, B)
        # Divide by a power of two (without rounding): squares of 1e200 overflow.
        top = jnp.max(jnp.abs(delta), -1, keepdims=True, initial=0.0)
        half = jnp.ldexp(jnp.full_like(top, 0.5), jnp.frexp(top)[1])
        power = jax.lax.stop_gradient(jnp.where(top > 0, half, 1.0))
        return jnp.linalg.norm(delta / power, axis=-1) * power[..., 0]

    def __call__(
        self, u: Float[Array, "d"], v: Float[Array, "d"], *, squared: bool = False
    ) -> float:
        """Compute the distance between u and v, or its square if ``squared=True``."""
        u, v = two_points(self, u, v)
        value = float(self.distance(u, v))
        return value**2 if squared else value

    @measured
    def same_probability(
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        prior_odds: Scalar | None = None,
    ) -> Float[Array, "*n"]:
        """Compute P(same), the probability of *same*, for matching rows of A and B.

        The function ``link`` of the metric computes P(same) from the distance. Set
        ``prior_odds`` to the odds of *same* among your pairs, if they differ from the
        odds among the pairs to which the link was fitted. ``prior_odds`` requires a
        link that was calibrated on pairs chosen regardless of their distance
        (``link.pairs == "all"``).
        """
        if self.link is None:
            raise ValueError(NO_LINK)
        return self.link.probability(_squared(self.factor, A, B), prior_odds)

    def to_faiss(self, points: Float[Array, "n d"] | None = None) -> Any:
        """Return a faiss index for exact search under this metric.

        ``index.search(queries, k)`` compares each query with all points of the index.
        It returns *squared* distances in float32 and row numbers of points, each of
        shape (m, k). For another kind of index, use ``transform(points)`` and the
        Euclidean metric.

        ``probmetric.nearest`` computes in float64. The index may order neighbors
        differently if their distances differ by less than about 1e-6 of the largest
        distance. The order of equally near points is not fixed.

        Parameters
        ----------
        points : array of shape (n, d), optional
            Finite points to add to the index. The mean of the points is subtracted
            before the map, to reduce rounding errors. By default the index is empty.
        """
        need("to_faiss", "ann", "faiss")
        import faiss

        L = np.asarray(self.factor, np.float64)
        p, d = L.shape
        X = np.zeros((1, d)) if points is None else np.asarray(points, np.float64)
        if X.ndim != 2 or X.shape[1] != d or not np.isfinite(X).all():
            raise ValueError(
                f"points must be finite numbers of shape (n, {d}), got shape {X.shape}"
                + ("" if np.isfinite(X).all() else " with NaN or infinity")
            )
        linear: Any = faiss.LinearTransform(d, p, True)
        faiss.copy_array_to_vector(L.astype(np.float32).ravel(), linear.A)
        origin = -(L @ X.mean(0)).astype(np.float32)
        faiss.copy_array_to_vector(origin, linear.b)
        linear.is_trained = True
        flat: Any = faiss.IndexFlatL2(p)
        index: Any = faiss.IndexPreTransform(linear, flat)
        if points is not None:
            index.add(np.ascontiguousarray(X, np.float32))
        return index
