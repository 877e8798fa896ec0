"""``PairLDA``: a metric in closed form from close and far pairs.

The derivation is ``probmetric.inference.pair_lda``; this file holds no mathematics.
"""

from dataclasses import field
from typing import Any, Literal

import numpy as np

from probmetric.arguments import check_count
from probmetric.data.containers import Labelled, Pairs
from probmetric.data.source import Source
from probmetric.estimators._labelled import report, required
from probmetric.estimators._pair_learner import PairLearner
from probmetric.estimators._settings import Extended, NonNegative, PairSet, settings
from probmetric.estimators._streamed import refuse, streamed_classes
from probmetric.inference import pair_lda
from probmetric.inference.pair_lda import SecondMoments
from probmetric.inference.solvers.result import Fit
from probmetric.typing import ArrayLike, Self, no_type_check


@settings
class PairLDA(PairLearner):
    """Linear discriminant analysis of pairs: far pairs against close ones (KISSME).

    Parameters
    ----------
    n_components : int, optional
        At most so many rows of the map, 1..d. Default: every direction in which far
        pairs are farther apart than close ones.
    method : {"generalized", "kissme", "rca", "notes"}, default="generalized"
        Generalised eigenproblem; log likelihood ratio of two normals (KISSME);
        inverse of the close pairs' covariance; or the matrix of the lecture notes,
        an error where it is indefinite.
    alpha : float ≥ 0, default=0.01
        Variance that every direction has at least, in units of squared differences of
        the standardised features. Method "notes" needs more than λ_max(F̄ - C̄).
    prior_strength : "cv" or float ≥ 0, default="cv"
        s: a prior worth s points pulls the moments of close and of far pairs to
        isotropic ones, ∞ to the Euclidean distance of standardised features. "cv"
        chooses among 1, 4, 16, 64, 256 and ∞ by soft votes of neighbours in five
        folds (``neighbors.strength``), at the cost of some five to fifteen fits. Pairs
        handed in have no classes to vote for: with them "cv" is 0, and a number
        counts pairs.
    weighting : {"log", "excess", "one"}, default="log"
        With "generalized": squared length of a direction in which far pairs have λ
        times the variance of close ones: log λ, λ - 1 or 1.
    pairs : {"all", "nearest", "impostors"}, default="all"
        Pairs that ``fit`` makes from labels. "all" is summed up without being formed.
    n_targets, n_impostors : int, default=3
        Neighbours of a point of its own and of other classes, unless "all".
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (k, d)
        In input units, rows by falling weight. Signs are not identified.
    values_ : array of shape (k,)
        "generalized": variance of far over close pairs along each row; otherwise the
        eigenvalues of M, in standardised units.
    negative_share_ : float
        KISSME: share of Σ|eigenvalues| that the projection removed. 0 otherwise.
    prior_strength_ : float
        s in use; ∞ where "cv" found nothing worth learning.
    classes_ : array of shape (c,)
        After ``fit``.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs, once calibrated or set.
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> PairLDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    n_components: int | None = field(default=None, kw_only=False)
    method: pair_lda.Method = "generalized"
    alpha: NonNegative = 0.01
    prior_strength: Extended | Literal["cv"] = "cv"
    weighting: pair_lda.Weighting = "log"
    pairs: PairSet = "all"

    def _solve(self, data: Pairs | Labelled) -> Fit:
        given = self.prior_strength
        return self._learn(data, 0.0 if isinstance(given, str) else float(given))

    def _solve_labels(self, data: Labelled) -> Fit:
        if isinstance(self.prior_strength, str):
            chosen = pair_lda.choose_strength(
                data, self._rows(data), pairs=self._paired, **self._how()
            )
            strength = chosen.strength
        else:
            strength = float(self.prior_strength)
        return self._learn(self._paired(data), strength, len(data.X))

    @no_type_check
    def fit(self, X: ArrayLike | Source, y: ArrayLike | None = None) -> Self:
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), (N, 2, d) of pairs, or Source
            Pairs are learned from as ``fit_pairs`` does. Of a source (``pm.open``) no
            row is kept: one pass, and one of the labels. ``pairs`` is then "all" and
            ``prior_strength`` a number.
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more. None of a
            source, which has its labels.
            Of pairs: 1 for close; 0 or -1, one of the two throughout, for far.
        """
        if not isinstance(X, Source):
            return super().fit(X, required(self, y))
        folds = isinstance(self.prior_strength, str)
        refuse(
            {
                "prior_strength": (
                    folds,
                    "a number, such as prior_strength=1, not 'cv',",
                ),
                "pairs": (self.pairs != "all", "'all'"),
            }
        )
        found = streamed_classes(self, X, y, 2)
        moments = pair_lda.class_second_moments(found.stats, found.squares)
        strength, n = float(self.prior_strength), float(np.sum(found.stats.n))
        fitted = self._learn(moments, strength, n)
        report(fitted, type(self).__name__)
        self.classes_ = found.classes
        self.components_ = found.map_of(np.asarray(fitted.params.factor))
        self.mean_, self.scale_ = found.scaler
        self._keep(fitted)
        return self

    def _paired(self, data: Labelled) -> Pairs | Labelled:
        return data if self.pairs == "all" else self._make_pairs(data)

    def _rows(self, data: Pairs | Labelled | SecondMoments) -> int | None:
        d = (data.far if isinstance(data, SecondMoments) else data.X).shape[1]
        k = self.n_components
        if k is None:
            return None
        return check_count("n_components", k, d, "the number of features")

    def _how(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "alpha": float(self.alpha),
            "weighting": self.weighting,
        }

    def _learn(
        self,
        data: Pairs | Labelled | SecondMoments,
        strength: float,
        n: float | int | None = None,
    ) -> Fit:
        self.prior_strength_, k = strength, self._rows(data)
        return pair_lda.fit(data, k, prior_strength=strength, n=n, **self._how())

    def _keep(self, fit: Fit) -> None:
        self.values_ = fit.params.values
        self.negative_share_ = fit.params.negative_share
