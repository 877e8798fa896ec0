"""A city-block metric of monotone curves: Σ_f |s_f(x_f) - s_f(y_f)|.

Each feature f has K knots t_1 ≤ … ≤ t_K and K I-splines. Let t_0 = t_1 and
t_{K+1} = t_K. I-spline k is the distribution function of the triangular density on
(l, m, r) = (t_{k-1}, t_k, t_{k+1}),

    I_k(x) = (x - l)² / ((m - l)(r - l)),               l ≤ x ≤ m,
           = 1 - (r - x)² / ((r - m)(r - l)),           m ≤ x ≤ r,                  (1)

It is 0 before l and 1 after r, and is the integral of the M-spline of order 2 on these
knots. A triangle with width 0 has I_k = 0. With heights θ_fk ≥ 0, the curve

    s_f(x) = Σ_k θ_fk I_fk(x)                                                      (2)

is nondecreasing, and constant outside the knots. A value outside the range of the knots
is therefore treated as the nearest knot.

With ``Coordinates``, two of the features are the coordinates of a site, and have no
curves. The last row of knots and heights then defines a curve s_D of the distance
between the places of two sites:

    d(x, y) = Σ_f |s_f(x_f) - s_f(y_f)| + s_D(distance of the places of x and y).   (3)

References
----------
Ramsay, "Monotone Regression Splines in Action", Statistical Science 3 (1988); Ferrier,
Manion, Elith and Richardson, "Using generalized dissimilarity modelling to analyse and
predict patterns of beta diversity", Diversity and Distributions 13 (2007).
"""

from collections.abc import Sequence
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

EARTH = 6371.0088
"""Mean radius of the Earth in km."""


@jax.tree_util.register_static
@dataclass(frozen=True)
class Coordinates:
    """Columns with the coordinates of a site.

    Parameters
    ----------
    columns : tuple of two int
        Longitude and latitude in degrees, or x and y in a plane.
    plane : bool, default=False
        If True, the coordinates are in a plane, and distances are Euclidean in the
        units of the columns. By default distances are along great circles, in km.

    Examples
    --------
    >>> bonn, rome = np.array([7.1, 50.7]), np.array([12.5, 41.9])
    >>> places = Coordinates((0, 1)).places(np.stack([bonn, rome]))
    >>> round(float(Coordinates((0, 1)).apart(*places)))
    1062
    """

    columns: tuple[int, int]
    plane: bool = False

    def others(self, d: int) -> list[int]:
        """Return the numbers of the other columns (the covariates) among d columns."""
        return [k for k in range(d) if k not in self.columns]

    def places(self, X: Float[Array, "*n d"]) -> Float[Array, "*n m"]:
        """Convert rows to points in the plane (m = 2) or to unit vectors (m = 3)."""
        xp = _namespace(X)
        xy = xp.asarray(X)[..., list(self.columns)]
        if self.plane:
            return xy
        lon, lat = (xp.deg2rad(xy[..., k]) for k in range(2))
        level = xp.cos(lat)
        axes = [level * xp.cos(lon), level * xp.sin(lon), xp.sin(lat)]
        return xp.stack(axes, -1)

    def apart(
        self, A: Float[Array, "*#n m"], B: Float[Array, "*#n m"]
    ) -> Float[Array, "*n"]:
        """Compute the distance between matching rows of A and B.

        A and B are results of ``places``.
        """
        xp = _namespace(A, B)
        chord = xp.sqrt(xp.sum((A - B) ** 2, -1))
        if self.plane:
            return chord
        return 2 * EARTH * xp.arcsin(xp.clip(chord / 2, 0.0, 1.0))


def _namespace(*arrays: object) -> ModuleType:
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def gaps(
    X: Float[Array, "n d"],
    i: Array,
    j: Array,
    knots: Float[Array, "c k"],
    coordinates: Coordinates | None = None,
) -> Float[Array, "N c k"]:
    """Return |I_k(x) - I_k(y)| of row pairs, and last I_k(distance of the places)."""
    if coordinates is None:
        splines = i_splines(X, knots)
        return abs(splines[i] - splines[j])
    covariates, places = X[:, coordinates.others(X.shape[1])], coordinates.places(X)
    splines = i_splines(covariates, knots[:-1])
    far = coordinates.apart(places[i], places[j])[:, None]
    parts = [abs(splines[i] - splines[j]), i_splines(far, knots[-1:])]
    return _namespace(*parts).concatenate(parts, 1)


def i_splines(
    X: Float[Array, "*n d"], knots: Float[Array, "d k"]
) -> Float[Array, "*n d k"]:
    """Return the I-splines of each feature at each point (Eq. 1)."""
    xp = _namespace(X, knots)
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
    """City-block distance after a monotone curve for each feature.

    With a curve s_f for feature f, the distance of x and y is
    ``Σ_f |s_f(x_f) - s_f(y_f)|``. ``dissimilarity``, ``pairwise``, ``distance`` and a
    call all return this distance (not squared). A curve is a sum of I-splines, which
    are flat outside their knots. Different points have distance 0 if their features
    differ only where curves are flat.

    Parameters
    ----------
    knots : array of shape (d, k)
        Knots of the I-splines in ascending order, with a row for each feature. With
        ``coordinates`` there are d - 1 rows, because the geographic distance replaces
        two features. Its knots are in the last row.
    heights : array of shape (d, k)
        Heights ≥ 0 of the I-splines, in the order of ``knots``.
    link : Link, optional
        Function that computes P(same), the probability of *same*, from the distance
        (not squared). In a generalized dissimilarity model P(same) is 1 minus the
        expected dissimilarity of two sites.
    coordinates : Coordinates, optional
        The two features that are the coordinates of a site. Instead of their curves,
        the distance contains a curve of the geographic distance.

    Examples
    --------
    >>> metric = SplineCityBlock(np.array([[0.0, 1.0]]), np.array([[2.0, 0.0]]))
    >>> metric(np.array([0.0]), np.array([0.5]))  # 2 · 0.75
    1.5
    """

    knots: Float[Array, "c k"]
    heights: Float[Array, "c k"]
    link: AnyLink | None = None
    coordinates: Coordinates | None = None
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        """Number of features d, including coordinates."""
        return self.knots.shape[0] + (self.coordinates is not None)

    def curve_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the curves, given the names of the features."""
        if self.coordinates is None:
            return (*names,)
        far = "distance" if self.coordinates.plane else "distance (km)"
        return (*(names[k] for k in self.coordinates.others(len(names))), far)

    @measured
    @one_program
    def transform(self, X: Float[Array, "*n d"]) -> Float[Array, "*n c"]:
        """Compute the value of each feature's curve at each point.

        Without ``coordinates``, the metric is the city-block distance of the results.
        With ``coordinates``, the curve of the geographic distance is not included.
        """
        return self._images(X)

    def _images(self, X: Array) -> Array:
        dtype = jnp.result_type(self.knots, X)
        X, knots, heights = (
            jnp.asarray(a, dtype) for a in (X, self.knots, self.heights)
        )
        if self.coordinates is not None:
            X = X[..., self.coordinates.others(self.n_features)]
        n_curves = X.shape[-1]
        return jnp.sum(i_splines(X, knots[:n_curves]) * heights[:n_curves], -1)

    def prepare(self, Q: Float[Array, "*m d"]) -> Float[Array, "*m e"]:
        """Compute the curves at each row, and its place if ``coordinates`` is set."""
        images = self._images(Q)
        if self.coordinates is None:
            return images
        places = self.coordinates.places(jnp.asarray(Q, images.dtype))
        return jnp.concatenate([images, places], -1)

    def _between(self, U: Array, V: Array) -> Array:
        if self.coordinates is None:
            return jnp.sum(jnp.abs(U - V), -1)
        c = self.knots.shape[0] - 1
        far = self.coordinates.apart(U[..., c:], V[..., c:])[..., None]
        knots, heights = (
            jnp.asarray(a, U.dtype)[c:] for a in (self.knots, self.heights)
        )
        rise = jnp.sum(i_splines(far, knots) * heights, (-1, -2))
        return jnp.sum(jnp.abs(U[..., :c] - V[..., :c]), -1) + rise

    @measured
    @one_program
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Compute the distances from a query q to the rows of Y."""
        return self._between(self.prepare(Y), self.prepare(q))

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute distances from rows of Q to rows of P, shape (m, n)."""
        return self.from_prepared(self.prepare(Q), P)

    @one_program
    def from_prepared(
        self, prepared: Float[Array, "m e"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)``, given the result of ``prepare(Q)``."""
        V = self.prepare(P)
        return jax.lax.map(lambda z: self._between(V, z), prepared)

    @measured
    def distance(
        self, A: Float[Array, "*n d"], B: Float[Array, "*n d"]
    ) -> Float[Array, "*n"]:
        """Compute the distance (not squared) between matching rows of A and B."""
        return self._apart(A, B)

    @one_program
    def _apart(self, A: Array, B: Array) -> Array:
        return self._between(self.prepare(A), self.prepare(B))

    @measured
    def same_probability(
        self,
        A: Float[Array, "*n d"],
        B: Float[Array, "*n d"],
        *,
        prior_odds: Scalar | None = None,
    ) -> Float[Array, "*n"]:
        """Compute P(same), the probability of *same*, for matching rows of A and B.

        For ``prior_odds`` see ``Mahalanobis.same_probability``.
        """
        if self.link is None:
            raise ValueError(NO_LINK)
        return self.link.probability(self._apart(A, B), prior_odds)
