"""Methods of every learned Mahalanobis metric, under the names of metric-learn.

A fitted estimator holds ``components_`` (p, d) in input units; the rest follows:
M = components_ᵀ components_, distance = ‖components_ (x - x')‖, not squared. The
methods that need a threshold exist once there is one: after a fit to pairs,
``calibrate_threshold`` or ``set_threshold``. Before any fit learners from pairs have
them too (``NotFittedError``), as ``cross_val_score`` looks for ``score`` there.
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
from probmetric.data.inputs import pair_labels, pair_points
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labelled import checked_rows, stood_for
from probmetric.linalg_scaled import distances
from probmetric.typing import (
    Array,
    ArrayLike,
    Preprocessor,
    Self,
    no_type_check,
)

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


class MahalanobisMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform points and measure pairs with ``components_``."""

    preprocessor: Preprocessor = None

    def _set_map(self, factor: Array, scaler: Scaler, X: Array) -> None:
        """Store the map of standardised features (p, d), in input units.

        Constant columns of X (n, d), which was learned from, have no weight.
        """
        scale = taught_scale(X, scaler.scale)
        self.components_ = np.asarray(factor) / scale
        self.mean_, self.scale_ = scaler

    def __sklearn_tags__(self) -> Tags:
        """Say that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n p"]:
        """Map points so that the Euclidean distance of images is the learned one.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) for ``preprocessor``

        Returns
        -------
        array of shape (n, p)
            ``X @ components_.T``, computed in float64, of the float type of X.
        """
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        given = np.asarray(X).dtype
        dtype = given if given.kind == "f" and given.itemsize < 8 else np.float64
        with np.errstate(over="ignore", invalid="ignore"):  # Refused below.
            images = (points @ self.components_.T).astype(dtype, copy=False)
        if not np.isfinite(images).all():
            raise ValueError(
                f"X: expected points whose images {images.dtype} holds, got infinite "
                f"ones (largest entry {np.abs(points).max():.3g}); rescale the points"
            )
        return images

    def get_mahalanobis_matrix(self) -> Float[np.ndarray, "d d"]:
        """Return M = ``components_ᵀ components_``, shape (d, d), in input units."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return the learned distance of each pair, not squared.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``

        Returns
        -------
        array of shape (N,)
        """
        first, second = self._ends(pairs)
        return distances(self.components_, first, second, "pairs")

    def pair_score(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return minus the distance of each pair: higher is more similar."""
        return -self.pair_distance(pairs)

    def _ends(
        self, pairs: ArrayLike
    ) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "N d"]]:
        check_is_fitted(self)
        source, pairs = stood_for(self, pairs, "pairs", 2) or (None, pairs)
        points, i, j = pair_points(pairs, source)
        d = self.components_.shape[1]
        if points.shape[1] != d:
            raise ValueError(
                f"pairs: expected {d} features, as in fit, got {points.shape[1]}"
            )
        return points[i], points[j]


def _has_threshold(estimator: object) -> bool:
    """Tell whether pairs can be classified yet; say how to get there if not."""
    fitted = hasattr(estimator, "components_")
    if hasattr(estimator, "threshold_") or (
        not fitted and hasattr(estimator, "fit_pairs")
    ):
        return True
    pairs = "fit on pairs (fit_pairs), or " if hasattr(estimator, "fit_pairs") else ""
    raise AttributeError(
        f"a threshold on the distance is needed to classify pairs: {pairs}call "
        "calibrate_threshold or set_threshold; a fit to class labels is judged by its "
        "neighbours, KNeighborsClassifier(metric=...)"
    )


_DATA = {"pairs": UNUSED}
"""The first argument is data, which metadata routing knows by the name X alone."""


class PairsMixin(MahalanobisMixin):
    """Classify pairs as same or different by a threshold on their distance."""

    __metadata_request__predict: ClassVar = _DATA
    __metadata_request__decision_function: ClassVar = _DATA
    __metadata_request__score: ClassVar = _DATA

    def __sklearn_tags__(self) -> Tags:
        """Say that ``fit`` needs labels, and who takes pairs (N, 2, d)."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = hasattr(self, "fit_pairs")
        return tags

    @available_if(_has_threshold)
    def decision_function(self, pairs: ArrayLike) -> Float[np.ndarray, "N"]:
        """Return minus the distance of each pair, as metric-learn does."""
        return self.pair_score(pairs)

    @available_if(_has_threshold)
    def predict(self, pairs: ArrayLike) -> np.ndarray:
        """Return 1 where the distance is at most ``threshold_``, else the low label.

        The low label is -1, or 0 if the labels seen last were 0/1 (``pair_classes_``).
        """
        same = self.pair_distance(pairs) <= self.threshold_
        return self.pair_classes_[same.astype(int)]

    @available_if(_has_threshold)
    def score(self, pairs: ArrayLike, y: ArrayLike) -> float:
        """Return the area under the ROC curve of ``decision_function`` on pairs."""
        scores = self.pair_score(pairs)
        return float(roc_auc_score(pair_labels(y, len(scores)), scores))

    def set_threshold(self, threshold: int | float) -> Self:
        """Call pairs same at a distance of at most ``threshold``."""
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
        """Choose ``threshold_`` on validation pairs.

        Parameters
        ----------
        pairs_valid : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y_valid : array-like of shape (N,)
            In {0, 1} or {-1, +1}, both present.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to maximise. "max_tpr" maximises the true positive rate under a true
            negative rate of at least ``min_rate``; "max_tnr" the reverse.
        min_rate : float in [0, 1], optional
            Needed by the last two.
        beta : float, default=1
            Weight of recall in F-beta.

        Returns
        -------
        self
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
        """Choose ``threshold_`` of largest accuracy on judgments that were counted."""
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
    """Return the best threshold for a rate among those that keep the other one.

    A score counts ``times``, by default once.
    """
    false, true, cuts = roc_curve(
        same, scores, drop_intermediate=False, sample_weight=times
    )
    if strategy == "accuracy":  # Whole numbers, so that equals stay equal.
        m = np.ones(len(same), int) if times is None else times
        right = np.rint(true * (m * same).sum() - false * (m * (1 - same)).sum())
        gain, kept = right + m.sum(), np.ones(len(right))
    else:
        gain, kept = (true, 1 - false) if strategy == "max_tpr" else (1 - false, true)
    cut = cuts[int(np.argmax(np.where(kept >= rate, gain, -1)))]
    # The first cut is infinite: no pair is called same, be its distance zero.
    return float(-cut if np.isfinite(cut) else np.nextafter(-scores.max(), -np.inf))
