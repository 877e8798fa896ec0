"""Methods of all learners of a Mahalanobis metric, with names as in metric-learn.

A fitted estimator has ``components_`` (p, d) in input units. The matrix of the metric
is M = components_ᵀ components_. The distance is ‖components_ (x - x')‖, not squared.
Methods that need a threshold exist only after ``fit_pairs``, ``calibrate_threshold`` or
``set_threshold``. Unfitted learners of pairs have these methods too, because
``cross_val_score`` requires ``score``. They then raise ``NotFittedError``.
"""

from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs
from probmetric.data.inputs import pair_labels
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labeled import checked_rows, pair_ends
from probmetric.estimators._same import SameProbability
from probmetric.linalg_scaled import distances
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.typing import Array, ArrayLike, Preprocessor, Self, no_type_check

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def float_type(X: ArrayLike) -> np.dtype:
    """Return the dtype of results: float32 if X is float32, otherwise float64."""
    dtype = np.asarray(X).dtype
    return dtype if dtype.kind == "f" and dtype.itemsize < 8 else np.dtype(float)


class MahalanobisMixin(
    SameProbability, ClassNamePrefixFeaturesOutMixin, TransformerMixin
):
    """Transform points and measure distances of pairs with ``components_``."""

    preprocessor: Preprocessor = None

    def _set_map(self, factor: Array, scaler: Scaler, X: Array) -> None:
        """Store the map (p, d) in input units; constant columns of X get no weight."""
        self.mean_, self.scale_ = scaler
        self.components_ = np.asarray(factor) / taught_scale(X, scaler.scale)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric, a picklable function of two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n p"]:
        """Map points so that their Euclidean distances are the learned distances.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) with a ``preprocessor``

        Returns
        -------
        array of shape (n, p)
            ``X @ components_.T``, computed in float64 and returned in the float type of
            X.
        """
        check_is_fitted(self)
        points, dtype = checked_rows(self, X, finite=True), float_type(X)
        with np.errstate(over="ignore", invalid="ignore"):  # The next check raises.
            images = (points @ self.components_.T).astype(dtype, copy=False)
        if not np.isfinite(images).all():
            raise ValueError(
                f"X: the transformed points overflow {dtype} (largest entry "
                f"{np.abs(points).max():.3g}). Rescale the points."
            )
        return images

    def get_mahalanobis_matrix(self) -> Float[np.ndarray, "d d"]:
        """Return the matrix M (d, d) of the squared distance (x - x')ᵀ M (x - x').

        M is ``components_.T @ components_``, in input units.
        """
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Compute the learned distance (not squared) between the points of each pair.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) with a ``preprocessor``
        """
        first, second = self._ends(pairs)
        return distances(self.components_, first, second, "pairs")

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the negative distance of each pair. Higher is more similar."""
        return -self.pair_distance(pairs)

    def _ends(
        self, pairs: ArrayLike
    ) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "N d"]]:
        check_is_fitted(self)
        return pair_ends(self, pairs, self.components_.shape[1])


def _has_threshold(estimator: object) -> bool:
    fits_pairs = hasattr(estimator, "fit_pairs")
    fitted = hasattr(estimator, "components_")
    if hasattr(estimator, "threshold_") or (fits_pairs and not fitted):
        return True
    pairs = "fit_pairs, " if fits_pairs else ""
    raise AttributeError(
        "To classify pairs, the learner needs a threshold on their distance. Use "
        f"{pairs}calibrate_threshold or set_threshold. To evaluate a fit to class "
        "labels, use KNeighborsClassifier(metric=...)"
    )


_DATA = {"pairs": UNUSED}
"""Metadata routing knows only X as a name of data."""


class PairsMixin(MahalanobisMixin):
    """Classify pairs as same or different by a threshold on their distance."""

    __metadata_request__predict: ClassVar = _DATA
    __metadata_request__decision_function: ClassVar = _DATA
    __metadata_request__score: ClassVar = _DATA

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = hasattr(self, "fit_pairs")
        return tags

    @available_if(_has_threshold)
    def decision_function(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the negative distance of each pair, shape (N,), as in metric-learn."""
        return self.pair_score(pairs)

    @available_if(_has_threshold)
    def predict(self, pairs: ArrayLike) -> np.ndarray:
        """Predict 1 (same) for each pair whose distance is at most ``threshold_``.

        For other pairs, predict the label of *different*, which is 0 or -1. It is 0 if
        the last labels of pairs passed to the estimator were 0 and 1. Otherwise it is
        -1.
        """
        same = self.pair_distance(pairs) <= self.threshold_
        return self.pair_classes_[same.astype(int)]

    @available_if(_has_threshold)
    def score(self, pairs: ArrayLike, y: ArrayLike) -> float:
        """Compute the area under the ROC curve of the negative distance of pairs."""
        scores = self.pair_score(pairs)
        return float(roc_auc_score(pair_labels(y, len(scores)), scores))

    def set_threshold(self, threshold: int | float) -> Self:
        """Set ``threshold_``, the largest distance of pairs classified as same."""
        check_is_fitted(self, "components_")
        self.threshold_ = float(check_number("threshold", threshold, 0))
        if not hasattr(self, "pair_classes_"):
            self.pair_classes_ = np.array([-1, 1])
        return self

    @no_type_check
    def calibrate_threshold(
        self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: Literal["accuracy", "f_beta", "max_tpr", "max_tnr"] = "accuracy",
        *,
        min_rate: int | float | None = None,
        beta: int | float = 1.0,
    ) -> Self:
        """Choose ``threshold_`` (largest distance of *same* pairs) from labeled pairs.

        Also sets ``pair_classes_``, the two labels that ``predict`` returns.

        Parameters
        ----------
        pairs_valid : array-like of shape (N, 2, d), or (N, 2) with a ``preprocessor``
        y_valid : array-like of shape (N,)
            Labels of the pairs in {0, 1} or {-1, +1}. Both labels must occur.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            Quantity that the threshold maximizes. "accuracy" is the share of correct
            predictions, and "f_beta" is the F score. "max_tpr" maximizes the true
            positive rate if the true negative rate is at least ``min_rate``. "max_tnr"
            exchanges the two rates.
        min_rate : float in [0, 1], optional
            Smallest allowed value of the rate that is not maximized. Required by
            "max_tpr" and "max_tnr".
        beta : float, default=1
            Weight of recall relative to precision in ``strategy="f_beta"``.
        """
        check_choice("strategy", strategy, STRATEGIES)
        scores = self.pair_score(pairs_valid)
        same = pair_labels(y_valid, len(scores))
        if strategy == "f_beta":
            beta = float(check_number("beta", beta, 0))
            self.threshold_ = _f_beta_threshold(same, scores, beta)
        else:
            rate = 0.0
            if strategy != "accuracy":
                rate = float(check_number("min_rate", min_rate, 0, 1))
            self.threshold_ = _rate_threshold(same, scores, rate, strategy)
        low = -1 if np.min(np.asarray(y_valid, float)) < 0 else 0
        self.pair_classes_ = np.array([low, 1])
        return self

    def _calibrate_on_counts(self, pairs: ArrayLike, counts: Pairs) -> Self:
        y = np.asarray(counts.y)
        rest = np.asarray(counts.trials) - y
        times, same = np.append(y, rest), np.repeat([1, 0], len(y))
        scores = np.tile(self.pair_score(pairs), 2)
        self.threshold_ = _rate_threshold(same, scores, 0.0, "accuracy", times)
        self.pair_classes_ = np.array([0, 1])
        return self


def _f_beta_threshold(same: np.ndarray, scores: np.ndarray, beta: float) -> float:
    precision, recall, cuts = precision_recall_curve(same, scores)
    hits = (1 + beta**2) * precision * recall
    f = np.divide(hits, beta**2 * precision + recall, out=0 * hits, where=hits > 0)
    return float(-cuts[int(np.argmax(f[:-1]))])


def _rate_threshold(
    same: np.ndarray,
    scores: np.ndarray,
    rate: float,
    strategy: str,
    times: np.ndarray | None = None,
) -> float:
    """Return the best threshold of a strategy; ``rate`` bounds the other rate."""
    false, true, cuts = roc_curve(
        same, scores, drop_intermediate=False, sample_weight=times
    )
    if strategy == "accuracy":  # Integers, which keeps ties exact.
        m = np.ones(len(same), int) if times is None else times
        right = np.rint(true * (m * same).sum() - false * (m * (1 - same)).sum())
        gain, bounded = right + m.sum(), np.ones(len(right))
    elif strategy == "max_tpr":
        gain, bounded = true, 1 - false
    else:
        gain, bounded = 1 - false, true
    cut = cuts[int(np.argmax(np.where(bounded >= rate, gain, -1)))]
    # The first cut is infinite: no pair is the same, not even at distance zero.
    return float(-cut if np.isfinite(cut) else np.nextafter(-scores.max(), -np.inf))
