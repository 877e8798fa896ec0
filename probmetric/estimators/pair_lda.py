"""``PairLDA``: a metric in closed form from close and far pairs.

The derivation is ``inference.pair_lda``.
"""

from dataclasses import field
from typing import Literal, TypedDict, cast

import numpy as np

from probmetric.arguments import check_count
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.containers import Labeled, Pairs
from probmetric.estimators._labeled import holds_pairs, labeled_data, required
from probmetric.estimators._pair_learner import PairLearner
from probmetric.estimators._settings import Extended, NonNegative, PairSet, settings
from probmetric.inference import pair_lda
from probmetric.inference.gaussian_classes.choice import statistics_of
from probmetric.inference.pair_lda import SecondMoments
from probmetric.inference.solvers.result import Fit
from probmetric.typing import ArrayLike, Self, no_type_check


class _Options(TypedDict):
    method: pair_lda.Method
    alpha: float
    weighting: pair_lda.Weighting


@settings
class PairLDA(PairLearner):
    """Linear discriminant analysis of pairs, in closed form (includes KISSME).

    Close pairs are of one class, and far pairs of two classes. C̄ is the mean of
    (a - b)(a - b)ᵀ over close pairs (a, b), and F̄ is the mean over far pairs. The
    squared distance is (a - b)ᵀ M (a - b), with a matrix M that is computed from C̄ and
    F̄.

    Parameters
    ----------
    n_components : int, optional
        Maximum number of rows of the linear map, from 1 to the number of features d.
        Default: all directions with positive weight in the distance.
    method : {"generalized", "kissme", "rca", "notes"}, default="generalized"
        Formula of M. "generalized" computes M from the generalized eigenvectors of F̄
        and C̄. "kissme" uses C̄⁻¹ - F̄⁻¹, from the log likelihood ratio of two normal
        distributions of differences. "rca" uses C̄⁻¹. "notes" (from lecture notes) uses
        (alpha I + C̄ - F̄)⁻¹, and raises an error if this matrix is indefinite.
    alpha : float ≥ 0, default=0.01
        Ridge. ``alpha`` times the identity I is added to C̄, and with
        ``method="kissme"`` also to F̄. The unit is that of squared differences of
        standardized features. ``method="notes"`` requires ``alpha`` above the largest
        eigenvalue of F̄ - C̄.
    prior_strength : "cv" or float ≥ 0, default="cv"
        Weight s of the prior, as a number of points. The prior shrinks C̄ and F̄ to
        multiples of I. With s = ∞, the metric is the Euclidean distance of standardized
        features. "cv" chooses s among 1, 4, 16, 64, 256 and ∞ by the log loss of
        ``KNeighborsClassifier`` in five folds. This choice takes about 5 to 15 times as
        long as one fit. In ``fit_pairs``, s is a number of pairs, and "cv" means s = 0.
    weighting : {"log", "excess", "one"}, default="log"
        Weight of each direction in the squared distance with ``method="generalized"``.
        Let λ be the variance of far pairs along the direction, divided by the variance
        of close pairs. The weight is log λ ("log"), λ - 1 ("excess") or 1 ("one").
    pairs : {"all", "nearest", "impostors"}, default="all"
        Pairs that ``fit`` makes from class labels. "all" uses every pair of points. It
        is fast, because C̄ and F̄ are then computed from sums over points. "nearest"
        pairs each point with its nearest points of the same class and of other classes.
        "impostors" pairs each point with its ``n_targets`` nearest points of the same
        class (its targets), and with all points of other classes that are nearer than
        its farthest target.

    Attributes
    ----------
    components_ : array of shape (k, d)
        Linear map in input units. Its k rows are in order of descending weight. Signs
        are arbitrary.
    values_ : array of shape (k,)
        With ``method="generalized"``, the ratio λ of each row of ``components_`` (see
        ``weighting``). With other methods, the eigenvalues of M for standardized
        features.
    negative_share_ : float
        Share of the negative eigenvalues of M in the sum of its absolute eigenvalues.
        ``method="kissme"`` removes the negative eigenvalues. 0 for the other methods.
    prior_strength_ : float
        Value of s. ∞ if "cv" chose the Euclidean distance.
    classes_, threshold_, pair_classes_, mean_, scale_
        As in ``LCA``.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> PairLDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    _streams = True

    n_components: int | None = field(default=None, kw_only=False)
    method: pair_lda.Method = "generalized"
    alpha: NonNegative = 0.01
    prior_strength: Extended | Literal["cv"] = "cv"
    weighting: pair_lda.Weighting = "log"
    pairs: PairSet = "all"

    def _solve(self, data: Pairs | Labeled) -> Fit:
        strength = self.prior_strength
        return self._learn(data, 0.0 if isinstance(strength, str) else float(strength))

    def _solve_labels(self, data: Labeled) -> Fit:
        if isinstance(self.prior_strength, str):
            chosen = pair_lda.choose_strength(
                data._replace(w=None),
                self._rows(data),
                pairs=self._paired,
                **self._options(),
            )
            strength = chosen.strength
        else:
            strength = float(self.prior_strength)
        if data.w is None:
            return self._learn(self._paired(data), strength, len(data.X))
        X, y, w = (np.asarray(part) for part in data[:3])
        stats = statistics_of(X, y, w=w)
        # Weights are counts: a row has (w² - w)/2 pairs with its copies.
        moments = pair_lda.class_second_moments(stats, stats.n)
        return self._learn(moments, strength, float(stats.n.sum()))

    @no_type_check
    @chunked()
    def fit(
        self,
        X: ArrayLike | Chunked,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), (N, 2, d) for pairs, or Source
            Points, pairs, or labeled data on disk (``pm.open``). Pairs are passed to
            ``fit_pairs``, which describes their labels. Data on disk require y=None,
            ``pairs="all"`` and a number as ``prior_strength``.
        sample_weight : array-like of shape (n,), optional
            Weights of the points, ≥ 0. A point with weight 2 has the same effect as two
            equal points. ``prior_strength="cv"`` ignores the weights. Requires
            ``pairs="all"``. Default: 1 for all points.
        """
        if sample_weight is None:
            return super().fit(cast("ArrayLike", X), required(self, y))
        X = cast("ArrayLike", X)
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y), sample_weight=sample_weight)
        if self.pairs != "all":
            raise ValueError(
                f"pairs must be 'all' if sample_weight is set, got {self.pairs!r}"
            )
        data, self.classes_, scaler = labeled_data(
            self, X, y, sample_weight, counts=True
        )
        return self._fit_labels(data, scaler)

    def _paired(self, data: Labeled) -> Pairs | Labeled:
        return data if self.pairs == "all" else self._make_pairs(data)

    def _rows(self, data: Pairs | Labeled | SecondMoments) -> int | None:
        d = (data.far if isinstance(data, SecondMoments) else data.X).shape[1]
        k = self.n_components
        if k is None:
            return None
        return check_count("n_components", k, d, "the number of features")

    def _options(self) -> _Options:
        return _Options(
            method=self.method, alpha=float(self.alpha), weighting=self.weighting
        )

    def _learn(
        self,
        data: Pairs | Labeled | SecondMoments,
        strength: float,
        n: float | int | None = None,
    ) -> Fit:
        self.prior_strength_, k = strength, self._rows(data)
        return pair_lda.fit(data, k, prior_strength=strength, n=n, **self._options())

    def _keep(self, fit: Fit) -> None:
        self.values_ = fit.params.values
        self.negative_share_ = fit.params.negative_share
