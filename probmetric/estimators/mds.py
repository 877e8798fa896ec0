"""``ClassicalMDS``: coordinates of objects from their dissimilarities.

The derivation is ``inference.mds.fit``.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.metrics import pairwise_distances
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_count
from probmetric.data.containers import Distances
from probmetric.data.inputs import check_numeric, pair_points
from probmetric.data.scaling import check_sizes
from probmetric.estimators._labeled import checked_rows, forget
from probmetric.estimators._settings import check_settings, settings
from probmetric.inference import mds
from probmetric.inference.mds.fit import Correction, corrected_squares
from probmetric.inference.mds.spectrum import Solver
from probmetric.linalg_scaled import distances
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.typing import ArrayLike, Self

LIMIT = 2.0**240
"""Largest dissimilarity, about 1.8e72, because fourth powers are summed."""


def dissimilarities(
    A: Float[np.ndarray, "m d"], B: Float[np.ndarray, "n d"], metric: Any
) -> Float[np.ndarray, "m n"]:
    """Return distances (m, n) under a metric of this package or scikit-learn."""
    if isinstance(metric, Mahalanobis):
        return cdist(np.asarray(metric.transform(A)), np.asarray(metric.transform(B)))
    if isinstance(metric, Dissimilarity):
        if not (metric.is_distance and metric.symmetric):
            raise ValueError(
                "metric must be a distance (symmetric, zero for equal points), got a "
                f"{type(metric).__name__}. Use metric='precomputed' with a matrix"
            )
        distance = getattr(metric, "distance")  # noqa: B009  Not in the protocol.
        rows = [distance(np.broadcast_to(a, B.shape), B) for a in A]
        return np.asarray(rows, float)
    if metric == "euclidean":
        # Exact zeros, unlike scikit-learn's dot products.
        return cdist(A, B)
    return np.asarray(pairwise_distances(A, B, metric=metric))


def check_dissimilarities(
    D: Float[np.ndarray, "m n"], *, square: bool
) -> Float[np.ndarray, "m n"]:
    """Check dissimilarities (relative tolerance √eps), and make them symmetric."""
    missing = int(np.sum(np.isnan(D)))
    if missing:
        raise ValueError(
            f"D must not contain missing dissimilarities, got NaN in {missing} of "
            f"{D.size} entries. Impute them, for example by shortest paths "
            "(scipy.sparse.csgraph.shortest_path)."
        )
    if not np.all(np.isfinite(D)):
        raise ValueError("D must be finite, got infinity. Impute these entries.")
    if np.any(D < 0):
        raise ValueError(
            f"D must be ≥ 0, got {D.min():.6g}. Transform similarities into "
            "dissimilarities"
        )
    if D.max() > LIMIT or (square and 0 < D.max() < 1 / LIMIT):
        raise ValueError(
            f"D: the largest entry must be between {1 / LIMIT:.3g} and {LIMIT:.3g}, "
            f"got {D.max():.3g}. Rescale D, because the fourth power of this entry "
            "overflows or underflows."
        )
    if not square:
        return D
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"D must be square, got shape {D.shape}")
    slack = np.sqrt(np.finfo(D.dtype).eps) * D.max()
    gap = np.abs(D - D.T)
    if gap.max() > slack:
        a, b = np.unravel_index(int(np.argmax(gap)), D.shape)
        raise ValueError(
            f"D must be symmetric, got D[{a}, {b}] = {D[a, b]:.6g} and D[{b}, {a}] = "
            f"{D[b, a]:.6g}. Use (D + D.T) / 2."
        )
    if np.diag(D).max() > slack:
        a = int(np.argmax(np.diag(D)))
        raise ValueError(
            f"D: the diagonal must be zero, got D[{a}, {a}] = {D[a, a]:.6g}. Pass "
            "distances, not similarities."
        )
    symmetric = (D + D.T) / 2
    np.fill_diagonal(symmetric, 0)
    return symmetric


@settings
class ClassicalMDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Classical (Torgerson) scaling, with a transform for new objects.

    Use this class to compute coordinates of objects from their dissimilarities. The
    embedding is the same as with scikit-learn's ``ClassicalMDS``. This class also has
    ``transform`` for new objects, and corrects dissimilarities that are not Euclidean.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions k, at most the number n of objects. Dimensions without a
        positive eigenvalue have coordinates 0.
    metric : str, or a metric of this package, default="euclidean"
        Name of a metric of scikit-learn, or a ``Metric`` that is a distance. If
        ``metric="precomputed"``, X is the matrix of dissimilarities (not squared).
    correction : {None, "lingoes", "cailliez"}, default=None
        Correction of dissimilarities that are not Euclidean distances. "lingoes" adds a
        constant to the squared dissimilarities of different objects, and "cailliez" to
        the dissimilarities. The constant is the smallest with which the corrected
        dissimilarities are Euclidean distances.
    solver : {"auto", "eigh", "lanczos"}, default="auto"
        "eigh" is a dense eigendecomposition. "lanczos" computes only k eigenvalues.
        "auto" uses "eigh" for up to 600 objects, and "lanczos" for more.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
        Centered positions, with columns by descending variance. Signs of columns are
        arbitrary.
    eigenvalues_ : array of shape (k,)
        Largest eigenvalues of the matrix of inner products of the centered objects, or
        0 if not positive.
    min_eigenvalue_ : float
        Smallest eigenvalue before correction. It is negative if the dissimilarities are
        not Euclidean distances.
    negative_share_ : float
        Share of negative eigenvalues in the sum of absolute eigenvalues, before
        correction. 0 if the dissimilarities are Euclidean distances. NaN with
        ``solver="lanczos"``, which does not compute all eigenvalues.
    constant_ : float
        Constant that ``correction`` added.
    components_ : array of shape (k, d)
        Linear map of the features: ``transform(X)`` is ``(X - mean_) @ components_.T``.
        Set only for Euclidean and Mahalanobis distances without correction, because
        other embeddings are not linear in the features.
    mean_ : array of shape (d,)
        Mean of the features. Set only with ``components_``.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> ClassicalMDS(1).fit_transform([[0.0], [1.0], [5.0]]).shape
    (3, 1)
    """

    n_components: int = field(default=2, kw_only=False)
    metric: str | Dissimilarity | Callable[..., float] = "euclidean"
    correction: Correction = None
    solver: Solver = "auto"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Compute positions of objects from their features or dissimilarities.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n, n)
            Features, or dissimilarities if ``metric="precomputed"``.
        y : ignored
        """
        check_settings(self)
        rows = self._validated(X, reset=True)
        n = len(rows)
        k = check_count("n_components", self.n_components, n, "the number of objects")
        forget(self, "components_", "mean_")
        D = rows if self._precomputed else dissimilarities(rows, rows, self.metric)
        params = mds.fit(
            Distances(check_dissimilarities(D, square=True)),
            k,
            correction=self.correction,
            solver=self.solver,
        ).params
        self.embedding_, self.eigenvalues_ = params.embedding, params.eigenvalues
        self.min_eigenvalue_ = params.min_eigenvalue
        self.negative_share_ = params.negative_share
        self.constant_ = params.constant
        self._params = params._replace(embedding=params.embedding[:0])
        self._references = None if self._precomputed else rows
        self._make_linear(rows)
        return self

    def _validated(self, X: ArrayLike, *, reset: bool) -> np.ndarray:
        """Return X as float64; ``check_dissimilarities`` reports missing entries."""
        check_numeric(X)  # A factor has no unit here.
        checked = checked_rows(self, X, reset=reset, finite=not self._precomputed)
        if not self._precomputed:
            check_sizes(checked, smallest=reset)
        return checked

    def _make_linear(self, rows: np.ndarray) -> None:
        metric = self.metric
        if isinstance(metric, str) and metric == "euclidean":
            L = np.eye(rows.shape[1])
        elif isinstance(metric, Mahalanobis):
            L = np.asarray(metric.factor)
        else:
            return
        if self.constant_ == 0:
            self.mean_ = rows.mean(0)
            references = (rows - self.mean_) @ L.T
            # Rows of the coefficients sum to 0: of -‖z - z_i‖² only 2zᵀz_i remains.
            map_of_references = 2 * np.asarray(self._params.coefficients) @ references
            self.components_ = map_of_references @ L

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ArrayLike, y: object = None
    ) -> Float[np.ndarray, "n k"]:
        """Call ``fit``, and return the positions ``embedding_``."""
        return np.asarray(self.fit(X).embedding_)

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "m k"]:
        """Compute positions of new objects (by Gower's formula).

        X has shape (m, d). If ``metric="precomputed"``, X contains dissimilarities to
        the n objects of ``fit``, shape (m, n). Objects of ``fit`` get the positions
        ``embedding_``.
        """
        check_is_fitted(self)
        D = self._validated(X, reset=False)
        if self._references is not None:
            D = dissimilarities(D, self._references, self.metric)
        D = check_dissimilarities(D, square=False)
        S = corrected_squares(D, self.constant_, self.correction)
        return np.asarray(mds.embed_new(self._params, S))

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Compute the distance of each pair (N, 2, d) in the embedding."""
        points, i, j = pair_points(pairs)
        Z = self.transform(points)
        if hasattr(self, "components_"):  # Without cancellation.
            return distances(self.components_, points[i], points[j], "pairs")
        return distances(np.eye(Z.shape[1]), Z[i], Z[j], "pairs")

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the negative distance of each pair. Higher is more similar."""
        return -self.pair_distance(pairs)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the metric of features (ValueError if ``components_`` is not set)."""
        check_is_fitted(self)
        if not hasattr(self, "components_"):
            raise ValueError(
                "get_metric requires a Euclidean or Mahalanobis metric without "
                f"correction, got {self.metric!r} with "
                f"correction={self.correction!r}. Use Euclidean distances between "
                "rows of transform(X)."
            )
        return Mahalanobis(self.components_.copy())

    def get_mahalanobis_matrix(self) -> Float[np.ndarray, "d d"]:
        """Return M = ``components_ᵀ components_``. See ``get_metric``."""
        L = np.asarray(self.get_metric().factor)
        return L.T @ L
