"""``ClassicalMDS``: points for objects that are known by their dissimilarities.

The derivation is ``probmetric.inference.mds.fit``; this file holds no mathematics. The
dissimilarities are made from features, or checked as given.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.metrics import pairwise_distances
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_count
from probmetric.data.containers import Distances
from probmetric.data.inputs import pair_points
from probmetric.data.scaling import check_sizes
from probmetric.estimators._labelled import checked_rows
from probmetric.estimators._settings import Count, RandomState, check_settings, settings
from probmetric.inference import mds
from probmetric.inference.mds.fit import Correction
from probmetric.inference.mds.landmarks import fit_landmarks, spread_out
from probmetric.linalg_scaled import distances
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.typing import ArrayLike

LIMIT = 2.0**240
"""About 1.8e72: fourth powers of dissimilarities are summed."""


def dissimilarities(
    A: Float[np.ndarray, "m d"],
    B: Float[np.ndarray, "n d"],
    metric: Any,
    params: Any = None,
) -> Float[np.ndarray, "m n"]:
    """Return the distances (not squared) between rows, shape (m, n).

    Parameters
    ----------
    A, B : arrays of shape (m, d), (n, d)
    metric : str, callable or Metric
        A name that scikit-learn knows, or a metric of this package.
    params : dict, optional
        For scikit-learn.

    Raises
    ------
    ValueError
        For a metric that is no distance (not symmetric, or a similarity).
    """
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"metric_params: expected a dict or None, got {params!r}")
    if isinstance(metric, Mahalanobis):
        return cdist(np.asarray(metric.transform(A)), np.asarray(metric.transform(B)))
    if isinstance(metric, Dissimilarity):
        if not (metric.is_distance and metric.symmetric):
            raise ValueError(
                "metric: expected a distance (symmetric, zero on equal points), got a "
                f"{type(metric).__name__}; hand in a matrix with metric='precomputed'"
            )
        distance: Any = getattr(metric, "distance")  # noqa: B009  where is_distance
        rows = [distance(np.broadcast_to(a, B.shape), B) for a in A]
        return np.asarray(rows, float)
    if metric == "euclidean" and not params:
        # Differences first: scikit-learn's dot products round a distance of zero up.
        return cdist(A, B)
    return np.asarray(pairwise_distances(A, B, metric=metric, **(params or {})))


def check_dissimilarities(
    D: Float[np.ndarray, "m n"], *, square: bool
) -> Float[np.ndarray, "m n"]:
    """Return dissimilarities, made exactly symmetric, or say what is wrong.

    Raises
    ------
    ValueError
        When an entry is missing (NaN), infinite or negative; and, for a square
        matrix, when it is not symmetric or its diagonal is not zero, up to the square
        root of rounding.
    """
    missing = int(np.sum(np.isnan(D)))
    if missing:
        raise ValueError(
            f"D: expected every dissimilarity, got {missing} missing (NaN) of "
            f"{D.size}; fill them in first (shortest paths are one way)"
        )
    if not np.all(np.isfinite(D)):
        raise ValueError("D: expected finite dissimilarities, got infinity")
    if np.any(D < 0):
        raise ValueError(
            f"D: expected dissimilarities ≥ 0, got a negative one ({D.min():.6g}); a "
            "similarity has to be turned into a dissimilarity first"
        )
    if D.max() > LIMIT or (square and 0 < D.max() < 1 / LIMIT):
        raise ValueError(
            f"D: expected a largest dissimilarity between {1 / LIMIT:.3g} and "
            f"{LIMIT:.3g}, so that float64 holds its fourth power, got {D.max():.3g}; "
            "rescale it"
        )
    if not square:
        return D
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"D: expected a square matrix, got shape {D.shape}")
    slack = np.sqrt(np.finfo(D.dtype).eps) * D.max()
    gap = np.abs(D - D.T)
    if gap.max() > slack:
        a, b = np.unravel_index(int(np.argmax(gap)), D.shape)
        raise ValueError(
            f"D: expected a symmetric matrix, got D[{a}, {b}] = {D[a, b]:.6g} and "
            f"D[{b}, {a}] = {D[b, a]:.6g}"
        )
    if np.diag(D).max() > slack:
        a = int(np.argmax(np.diag(D)))
        raise ValueError(
            f"D: expected zeros on the diagonal, got D[{a}, {a}] = {D[a, a]:.6g}"
        )
    symmetric = (D + D.T) / 2
    np.fill_diagonal(symmetric, 0)
    return symmetric


@settings
class ClassicalMDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Classical (Torgerson) scaling, with a place for new objects.

    Agrees with scikit-learn's ``ClassicalMDS``, and adds ``transform``, a report on
    negative eigenvalues, corrections, and solvers that need less than all of D.

    Parameters
    ----------
    n_components : int, default=2
        k ≤ n. Dimensions for which there is no positive eigenvalue are zero.
    metric : str, or a metric of this package, default="euclidean"
        "precomputed": ``X`` is the matrix of dissimilarities, not squared. Otherwise
        the name of one of scikit-learn's, or a ``Metric`` that is a distance.
    metric_params : dict, optional
        Further arguments of scikit-learn's ``pairwise_distances``.
    correction : {None, "lingoes", "cailliez"}, default=None
        Constant added to all squared, or to all plain, dissimilarities between
        different objects, so that points for them exist.
    solver : {"auto", "eigh", "lanczos", "landmark"}, default="auto"
        Dense; k eigenvalues by Lanczos; or through landmarks, which never forms the
        n x n matrix. "auto" is dense up to 600 objects, then Lanczos.
    n_landmarks : int, optional
        For "landmark". Default 100 + 20 ``n_components``, at most n.
    random_state : int, RandomState or None
        Draws the first landmark.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
        Centred, columns by falling eigenvalue. Each column's sign is a convention.
    eigenvalues_ : array of shape (k,)
    min_eigenvalue_ : float
        Smallest eigenvalue before correction: negative when no points have exactly
        these distances. Of the landmarks alone with "landmark".
    negative_share_ : float
        Σ|negative| / Σ|all| eigenvalues before correction; NaN with "lanczos", which
        does not compute them all.
    constant_ : float
        What the correction added.
    landmarks_ : array of shape (m,)
        Reference rows: all, unless "landmark".
    components_ : array of shape (k, d)
        Where the embedding is linear in the features (Euclidean or Mahalanobis, no
        correction needed): ``transform(X) = (X - mean_) @ components_.T``.
    mean_ : array of shape (d,)
        With ``components_``.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> ClassicalMDS(1).fit_transform([[0.0], [1.0], [5.0]]).shape
    (3, 1)
    """

    n_components: int = field(default=2, kw_only=False)
    metric: str | Dissimilarity | Callable[..., float] = "euclidean"
    metric_params: Mapping[str, Any] | None = None
    correction: Correction = None
    solver: Literal["auto", "eigh", "lanczos", "landmark"] = "auto"
    n_landmarks: Count | None = None
    random_state: RandomState = None

    def __sklearn_tags__(self) -> Tags:
        """Say when X is a matrix of dissimilarities."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def fit(self, X: ArrayLike, y: object = None) -> "ClassicalMDS":
        """Embed objects.

        X is (n, d), or (n, n) dissimilarities if "precomputed"; y is ignored.
        """
        check_settings(self)
        rows = self._validated(X, reset=True)
        n = len(rows)
        k = check_count("n_components", self.n_components, n, "the number of objects")
        for name in ("components_", "mean_"):
            vars(self).pop(name, None)
        if self.solver == "landmark":
            params = self._fit_landmarks(rows, k)
        else:
            D = rows if self._precomputed else self._between(rows, rows)
            params = mds.fit(
                Distances(check_dissimilarities(D, square=True)),
                k,
                correction=self.correction,
                solver=self.solver,
            ).params
            self.landmarks_ = np.arange(n)
        self.embedding_, self.eigenvalues_ = params.embedding, params.eigenvalues
        self.min_eigenvalue_ = params.min_eigenvalue
        self.negative_share_ = params.negative_share
        self.constant_ = params.constant
        self._params = params._replace(embedding=params.embedding[:0])
        self._references = None if self._precomputed else rows[self.landmarks_]
        self._make_linear(rows)
        return self

    def _validated(self, X: ArrayLike, *, reset: bool) -> np.ndarray:
        """Return X as float64; missing dissimilarities are reported by their own."""
        checked = checked_rows(self, X, reset=reset, finite=not self._precomputed)
        if not self._precomputed:
            check_sizes(checked, smallest=reset)
        return checked

    def _between(self, A: np.ndarray, B: Any) -> np.ndarray:
        return dissimilarities(A, B, self.metric, self.metric_params)

    def _fit_landmarks(self, rows: np.ndarray, k: int) -> mds.MDSParams:
        n = len(rows)
        m = min(n, 100 + 20 * k)
        if self.n_landmarks is not None:
            m = check_count("n_landmarks", self.n_landmarks, n, "the number of objects")
        if self._precomputed:
            rows = check_dissimilarities(rows, square=True)

        def row(i: int) -> np.ndarray:
            return rows[i] if self._precomputed else self._between(rows[[i]], rows)[0]

        first = int(check_random_state(self.random_state).randint(n))
        self.landmarks_, D = spread_out(row, first, m)
        check_count(
            "n_components", k, len(self.landmarks_), "the number of distinct landmarks"
        )
        check_dissimilarities(D[:, self.landmarks_], square=True)
        D = check_dissimilarities(D, square=False)
        return fit_landmarks(self.landmarks_, D, k, correction=self.correction)

    def _make_linear(self, rows: np.ndarray) -> None:
        """Store the linear map that Gower's formula is under the Euclidean distance."""
        metric = self.metric
        if isinstance(metric, str) and metric == "euclidean" and not self.metric_params:
            L: Any = np.eye(rows.shape[1])
        elif isinstance(metric, Mahalanobis):
            L = np.asarray(metric.factor)
        else:
            return
        if self.constant_ == 0:
            self.mean_ = rows.mean(0)
            references = (rows[self.landmarks_] - self.mean_) @ L.T
            self.components_ = mds.linear_map(self._params, references) @ L

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ArrayLike, y: object = None
    ) -> Float[np.ndarray, "n k"]:
        """Embed objects and return ``embedding_``; see ``fit``."""
        return np.asarray(self.fit(X).embedding_)

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "m k"]:
        """Place objects at their dissimilarities from those of ``fit`` (Gower).

        X is (m, d), or (m, n) dissimilarities with ``metric="precomputed"``; returns
        (m, k). The objects of ``fit`` are placed where ``embedding_`` has them.
        """
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        if self._precomputed:
            D = rows[:, self.landmarks_]
        else:
            D = self._between(rows, self._references)
        D = check_dissimilarities(D, square=False)
        S = mds.corrected_squares(D, self.constant_, self.correction)
        return np.asarray(mds.embed_new(self._params, S))

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the distance of each pair (N, 2, d) in the embedding."""
        points, i, j = pair_points(pairs)
        Z = self.transform(points)
        if hasattr(self, "components_"):  # Differences first: nothing cancels.
            return distances(self.components_, points[i], points[j], "pairs")
        return distances(np.eye(Z.shape[1]), Z[i], Z[j], "pairs")

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return minus the distance of each pair: higher is more similar."""
        return -self.pair_distance(pairs)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the metric on features, or a ValueError without ``components_``."""
        check_is_fitted(self)
        if not hasattr(self, "components_"):
            raise ValueError(
                "metric: expected the Euclidean or a Mahalanobis metric, without "
                "correction, for an embedding that is linear in the features; got "
                f"metric={self.metric!r}, correction={self.correction!r}. Use the "
                "Euclidean distance on transform(X)"
            )
        return Mahalanobis(self.components_.copy())

    def get_mahalanobis_matrix(self) -> Float[np.ndarray, "d d"]:
        """Return M = ``components_ᵀ components_``; see ``get_metric``."""
        L = np.asarray(self.get_metric().factor)
        return L.T @ L
