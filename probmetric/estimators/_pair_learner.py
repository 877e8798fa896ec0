"""Bases of learners that accept class labels or pairs.

``PairLearner`` checks and scales the data, makes pairs, and converts the result to
input units. A learner implements the fit (``_solve``) and stores the results
(``_keep``).
"""

from abc import ABC, abstractmethod
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.pairs import all_pairs, from_rows, impostor_pairs, nearest_pairs
from probmetric.data.scaling import Scaler
from probmetric.estimators._labeled import (
    holds_pairs,
    labeled_data,
    pair_data,
    report,
    required,
)
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    PairSet,
    Unknown,
    settings,
)
from probmetric.inference.solvers.result import Fit
from probmetric.typing import ArrayLike, Preprocessor, Self


class LabelsOrPairs(ABC):
    """A learner whose ``fit`` accepts class labels or pairs."""

    @abstractmethod
    def _fit_labels(self, data: Labeled, scaler: Scaler) -> Self:
        """Learn from labeled, standardized points."""

    @abstractmethod
    def fit_pairs(self, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Learn from pairs."""

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) for pairs
            Points, or pairs. Pairs are passed to ``fit_pairs``, which describes their
            labels.
        y : array-like of shape (n,)
            Class labels, numbers or strings. At least two classes are required, and at
            least one class with two or more rows.
        """
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y))
        data, self.classes_, scaler = labeled_data(self, X, y)
        return self._fit_labels(data, scaler)


@settings
class PairLearner(LabelsOrPairs, PairsMixin, BaseEstimator):
    """A Mahalanobis metric from class labels (``fit``) or pairs (``fit_pairs``)."""

    pairs: PairSet
    n_targets: Count = 3
    n_impostors: Count = 3
    standardize: bool = True
    preprocessor: Preprocessor = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    @abstractmethod
    def _solve(self, data: Pairs) -> Fit:
        """Learn from standardized pairs; ``fit.params.factor`` is the map."""

    @abstractmethod
    def _solve_labels(self, data: Labeled) -> Fit:
        """Learn from standardized points; ``_make_pairs`` can make pairs of them."""

    @abstractmethod
    def _keep(self, fit: Fit) -> None:
        """Store the results of the learner, except for the metric."""

    def _make_pairs(self, data: Labeled) -> Pairs:
        X, codes = np.asarray(data.X), np.asarray(data.y)
        if self.pairs == "all":
            return all_pairs(X, codes)
        sizes = np.bincount(codes)
        k = min(int(self.n_targets), int(sizes.max()) - 1)
        if self.pairs == "impostors":
            return from_rows(partial(impostor_pairs, k=k), X, codes)
        m = min(int(self.n_impostors), len(X) - int(sizes.min()))
        return from_rows(partial(nearest_pairs, k=k, m=m), X, codes)

    def _fit_labels(self, data: Labeled, scaler: Scaler) -> Self:
        return self._store(self._solve_labels(data), scaler, data)

    def fit_pairs(
        self, pairs: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from labeled pairs, and choose the threshold of ``predict`` from them.

        Parameters
        ----------
        y : array-like of shape (N,)
            Labels of the pairs: 1 for close, 0 for far. Labels 1 and -1 are also
            allowed.
        """
        data, scaler = pair_data(self, pairs, y, sample_weight)
        learned = self._store(self._solve(data), scaler, data)
        return learned.calibrate_threshold(pairs, y)

    def _store(self, fitted: Fit, scaler: Scaler, data: Labeled | Pairs) -> Self:
        report(fitted, type(self).__name__)
        self._set_map(fitted.params.factor, scaler, data.X)
        self._keep(fitted)
        return self
