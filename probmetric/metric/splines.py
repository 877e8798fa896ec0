"""A city-block metric of monotone curves: Σ_f |s_f(x_f) - s_f(y_f)|.

Each feature f has K knots t_1 ≤ … ≤ t_K and K I-splines: with t_0 = t_1 and
t_{K+1} = t_K, the k-th is the distribution function of the triangle on
(l, m, r) = (t_{k-1}, t_k, t_{k+1}),

    I_k(x) = (x - l)² / ((m - l)(r - l)),               l ≤ x ≤ m,
           = 1 - (r - x)² / ((r - m)(r - l)),           m ≤ x ≤ r,                  (1)

0 before l and 1 after r: the integral of the M-spline of order 2 on these knots. A
triangle with width 0 has I_k = 0. With heights θ_k ≥ 0

    s_f(x) = Σ_k θ_fk I_fk(x)                                                      (2)

is nondecreasing, and constant outside the knots: values outside the range of the knots
are compared as if they were at its nearest end.

References
----------
Ramsay, "Monotone Regression Splines in Action", Statistical Science 3 (1988); Ferrier,
Manion, Elith and Richardson, "Using generalized dissimilarity modelling to analyse and
predict patterns of beta diversity", Diversity and Distributions 13 (2007).
"""

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.metric.link import NO_LINK, AnyLink, Scalar
from probmetric.metric.protocol import MetricBase, measured
from probmetric.precision import one_program
from probmetric.typing import Array


def i_splines(
    X: Float[Array, "*n d"], knots: Float[Array, "d k"]
) -> Float[Array, "*n d k"]:
    """Return the I-splines of each feature at each point (Eq. 1)."""
    traced = any(isinstance(a, jax.Array) for a in (X, knots))
    xp: ModuleType = jnp if traced else np
    t = xp.asarray(knots)
    left = xp.concatenate([t[:, :1], t[:, :-1]], 1)
    right = xp.concatenate([t[:, 1:], t[:, -1:]], 1)
    x = xp.asarray(X)[..., None]
    # Ratios of lengths: products of two lengths could overflow or underflow.
    rise, fall, width = (
        xp.where(gap > 0, gap, 1.0) for gap in (t - left, right - t, right - left)
    )
    up = xp.clip(x, left, t) - left
    down = right - xp.clip(x, t, right)
    # Differences before products: each term is then exactly 0 where it begins.
    return up / rise * (up / width) + (1.0 - (down / fall) ** 2) * ((right - t) / width)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class SplineCityBlock(MetricBase):
    """The city-block distance of curves: ``Σ_f |s_f(x_f) - s_f(y_f)|``.

    ``dissimilarity``, ``pairwise``, ``distance`` and a call all return this distance.
    It is a pseudo-metric: points that differ only where the curves are flat, or outside
    the knots, are at distance 0.

    Parameters
    ----------
    knots : array of shape (d, k)
        Knots of each feature, in ascending order.
    heights : array of shape (d, k)
        Heights θ ≥ 0 of the I-splines.
    link : Link, optional
        Function from the distance (not squared) to P(same). In a generalized
        dissimilarity model P(same) is 1 - E[dissimilarity].

    Examples
    --------
    >>> metric = SplineCityBlock(np.array([[0.0, 1.0]]), np.array([[2.0, 0.0]]))
    >>> metric(np.array([0.0]), np.array([0.5]))  # 2 · 0.75
    1.5
    """

    knots: Float[Array, "d k"]
    heights: Float[Array, "d k"]
    link: AnyLink | None = None
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.knots.shape[0]

    @measured
    @one_program
    def transform(self, X: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """Return s_f(x_f) (Eq. 2); the city-block distance of images is this metric."""
        return self._images(X)

    def _images(self, X: Array) -> Array:
        dtype = jnp.result_type(self.knots, X)
        splines = i_splines(jnp.asarray(X, dtype), jnp.asarray(self.knots, dtype))
        return jnp.sum(splines * jnp.asarray(self.heights, dtype), -1)

    @measured
    @one_program
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return the distances from a query q to the rows of Y."""
        return jnp.sum(jnp.abs(self._images(Y) - self._images(q)), -1)

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return all distances, shape (m, n); memory m · n · d."""
        return self.from_prepared(self.prepare(Q), P)

    def prepare(self, Q: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """Return the images of the rows of Q."""
        return self._images(Q)

    @one_program
    def from_prepared(
        self, prepared: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)`` given ``prepare(Q)``."""
        V = self._images(P)
        return jax.lax.map(lambda z: jnp.sum(jnp.abs(V - z), -1), prepared)

    @measured
    def distance(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Return the distances between matching rows of A and B."""
        return self._apart(A, B)

    @one_program
    def _apart(self, A: Array, B: Array) -> Array:
        return jnp.sum(jnp.abs(self._images(A) - self._images(B)), -1)

    @measured
    def same_probability(
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        prior_odds: Scalar | None = None,
    ) -> Float[Array, "*n"]:
        """Return P(same) of matching rows; see ``Mahalanobis.same_probability``."""
        if self.link is None:
            raise ValueError(NO_LINK)
        return self.link.probability(self._apart(A, B), prior_odds)
