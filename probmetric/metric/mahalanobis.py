"""The Mahalanobis metric: the Euclidean distance after a linear map."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.metric.link import AnyLink, Scalar
from probmetric.metric.protocol import measured, said, two_points
from probmetric.precision import one_program, store_native
from probmetric.provenance import need
from probmetric.typing import Array


def _power(size: Array) -> Array:
    """Return a power of two near a positive size, or 1 where squares are safe."""
    top = jnp.finfo(size.dtype).maxexp
    high = jnp.where(
        size > 2.0 ** (3 * top // 4), 2.0 ** (7 * top // 8), 2.0 ** (top // 2)
    )
    low = jnp.where(
        size < 2.0 ** (-3 * top // 4), 2.0 ** (-7 * top // 8), 2.0 ** -(top // 2)
    )
    small = jnp.where(size < 2.0 ** -(top // 4), low, 1.0)
    return jnp.where(size > 2.0 ** (top // 4), high, small)


def check_factor(factor: Any) -> Any:
    """Return a metric's factor, or refuse what is no real matrix; also under jit."""
    shape, kind = np.shape(factor), getattr(factor, "dtype", None)
    if len(shape) != 2 or kind is None or kind.kind in "cOUSmM":
        raise ValueError(
            "factor: expected an array of real numbers of shape (p, d), got "
            f"{type(factor).__name__ if kind is None else kind} of shape {shape}"
        )
    return factor


def _image_of_difference(factor: Any, A: Any, B: Any) -> Any:
    """Return L(a - b) of rows; in floats, as differences of uint8 are modulo 256."""
    dtype = jnp.result_type(check_factor(factor), A, B)
    return (jnp.asarray(A, dtype) - jnp.asarray(B, dtype)) @ factor.T


@one_program
def _squared(factor: Any, A: Any, B: Any) -> Any:
    """Return squared distances of matching rows."""
    return jnp.sum(((jnp.asarray(A) - B) @ check_factor(factor).T) ** 2, -1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Mahalanobis:
    """Squared distance (x - y)ᵀ LᵀL (x - y).

    Parameters
    ----------
    factor : array of shape (p, d)
        L. Identified only up to a rotation or reflection of its rows.
    link : Link, LogLogisticLink or IsotonicLink, optional
        Turns a squared distance into P(same): the model's own, or one calibrated on
        pairs held out. Which, and of what pairs, the metric says when printed.

    Notes
    -----
    ``dissimilarity`` and ``pairwise`` are *squared* distances, which is what
    neighbours are ranked by and soft votes are computed from; ``distance`` and a
    call ``metric(u, v)`` are not squared.

    Examples
    --------
    >>> import numpy as np
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> float(metric.distance(np.array([0.0, 0.0]), np.array([3.0, 2.0])))
    5.0
    """

    factor: Float[Array, "p d"]
    link: AnyLink | None = None
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    __post_init__ = store_native
    __repr__ = said

    @property
    def n_features(self) -> int:
        """Number of features d of the points it takes."""
        return check_factor(self.factor).shape[1]

    @property
    def matrix(self) -> Float[Array, "d d"]:
        """The matrix M = LᵀL, shape (d, d): the M of the papers and of NOTATION.md.

        A squared distance is (u - v)ᵀ M (u - v); ``factor`` is L.
        """
        return check_factor(self.factor).T @ self.factor

    @measured
    @one_program
    def transform(self, X: Float[Array, "*n d"]) -> Float[Array, "*n p"]:
        """Map points: the Euclidean distance of images is this distance of points."""
        return jnp.asarray(X) @ check_factor(self.factor).T

    @measured
    @one_program
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return the squared distances of one query q to the rows of Y."""
        # Differences first: ‖Lx‖² + ‖Ly‖² - 2·dot cancels for close points.
        return jnp.sum(_image_of_difference(self.factor, Y, q) ** 2, -1)

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return all squared distances, shape (m, n); memory m · n · p.

        Squares of the p coordinates that are below 2e-308 count as 0.
        """
        # Images of float16 points under a float32 factor would be of float32 only.
        L = jnp.asarray(check_factor(self.factor), jnp.result_type(self.factor, Q, P))
        Z, V = jnp.asarray(Q) @ L.T, jnp.asarray(P) @ L.T
        return jax.vmap(lambda z: jnp.sum((V - z) ** 2, -1))(Z)

    def prepare(self, Q: Float[Array, "m d"]) -> Float[Array, "m p"]:
        """Return the images of the rows of Q."""
        return Q @ self.factor.T

    def from_prepared(
        self, prepared: Float[Array, "m p"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)`` given ``prepare(Q)``."""
        V = P @ self.factor.T
        # Row by row: fused into what uses it, the reduction runs ten times slower.
        return jax.lax.map(lambda z: jnp.sum((V - z) ** 2, -1), prepared)

    def maps(self) -> list[Array]:
        """Return [L]."""
        return [self.factor]

    @measured
    @one_program
    def distance(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return the distances (not squared) between matching rows of A and B."""
        delta = _image_of_difference(self.factor, A, B)
        # By a power of two, which rounds nothing: squares of 1e200 are no numbers.
        top = jnp.max(jnp.abs(delta), -1, keepdims=True, initial=0.0)
        power = jax.lax.stop_gradient(jnp.where(top > 0, _power(top), 1.0))
        return jnp.linalg.norm(delta / power, axis=-1) * power[..., 0]

    def __call__(
        self,
        u: Float[Array, "d"],
        v: Float[Array, "d"],
        *,
        squared: bool = False,
    ) -> float:
        """Return the distance between two points, as metric-learn's get_metric()."""
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
        """Return P(same) of matching rows of A and B, in [0, 1].

        Parameters
        ----------
        A, B : arrays of shape (..., d)
        prior_odds : float > 0, optional
            Odds of *same* before the distance is seen. Default: those of the pairs
            that the link was fitted to.

        Raises
        ------
        ValueError
            When the metric carries no link; for prior odds unless the link is
            calibrated on pairs chosen at random given y (``link.pairs == "all"``).
        """
        if self.link is None:
            raise ValueError(
                "link: expected a metric whose model defines P(same), got link=None"
            )
        return self.link.probability(_squared(self.factor, A, B), prior_odds)

    def to_faiss(self, points: Float[Array, "n d"] | None = None) -> Any:
        """Return a faiss index that searches under this metric, exactly.

        A flat L2 index behind the linear map: points and queries go in as they are,
        and the map is stored with the index (``faiss.write_index``).

        Parameters
        ----------
        points : array of shape (n, d), optional
            Points to add, finite. Their mean becomes the map's origin, which keeps
            rounding small; without them the origin is 0.

        Returns
        -------
        faiss.IndexPreTransform
            ``index.search(queries, k)`` gives *squared* distances (m, k), float32, and
            indices (m, k); ``index.add`` takes more points.

        Raises
        ------
        ImportError
            When faiss is not installed.
        ValueError
            For points of another shape or that are not finite.

        Notes
        -----
        faiss computes in float32, ``probmetric.nearest`` in float64: neighbours whose
        distances agree to about 1e-6 of the largest may change places, and ties are
        not broken by index. Other indices (HNSW, IVF, those of other libraries) take
        ``transform(points)`` and ``transform(queries)`` under the Euclidean metric.
        """
        need("to_faiss", "ann", "faiss")
        import faiss

        L = np.asarray(self.factor, np.float64)
        p, d = L.shape
        X = np.zeros((1, d)) if points is None else np.asarray(points, np.float64)
        if X.ndim != 2 or X.shape[1] != d or not np.isfinite(X).all():
            raise ValueError(
                f"points: expected finite numbers of shape (n, {d}), got shape "
                f"{X.shape}" + ("" if np.isfinite(X).all() else " with NaN or infinity")
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
