"""Base of learners from close and far pairs: labels or pairs in, a metric out.

A learner says how it solves pairs (``_solve``) and what it keeps of the result
(``_keep``); checking, pairing, scaling and mapping back to input units are here.
"""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labelled, Pairs
from probmetric.data.pairs import all_pairs, from_rows, impostor_pairs, nearest_pairs
from probmetric.data.scaling import Scaler
from probmetric.estimators._labelled import (
    holds_pairs,
    labelled_data,
    pair_data,
    report,
    required,
)
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import Count, PairSet, settings
from probmetric.inference.solvers.result import Fit
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.typing import ArrayLike, Preprocessor, Self


@settings
class PairLearner(PairsMixin, BaseEstimator, ABC):
    """A Mahalanobis metric from class labels (``fit``) or pairs (``fit_pairs``)."""

    pairs: PairSet
    n_targets: Count = 3
    n_impostors: Count = 3
    standardize: bool = True
    preprocessor: Preprocessor = None
    unlabeled: Any = "warn"

    @abstractmethod
    def _solve(self, data: Pairs) -> Fit:
        """Learn from standardised pairs; ``fit.params.factor`` is the map."""

    @abstractmethod
    def _solve_labels(self, data: Labelled) -> Fit:
        """Learn from standardised points, by way of ``_make_pairs`` or without."""

    @abstractmethod
    def _keep(self, fit: Fit) -> None:
        """Store what this learner reports, apart from the metric."""

    def _make_pairs(self, data: Labelled) -> Pairs:
        """Pair standardised points; a class of fewer neighbours gives what it has."""
        X, codes = np.asarray(data.X), np.asarray(data.y)
        if self.pairs == "all":
            return all_pairs(X, codes)
        sizes = np.bincount(codes)
        k = min(int(self.n_targets), int(sizes.max()) - 1)
        if self.pairs == "impostors":
            return from_rows(partial(impostor_pairs, k=k), X, codes)
        m = min(int(self.n_impostors), len(X) - int(sizes.min()))
        return from_rows(partial(nearest_pairs, k=k, m=m), X, codes)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from class labels, or from pairs.

        Parameters
        ----------
        X : array-like of shape (n, d), or (N, 2, d) of pairs
            Pairs are learned from as ``fit_pairs`` does.
        y : array-like of shape (n,)
            Numbers or strings; at least two classes, one of two rows or more.
            Of pairs: 1 for close; 0 or -1, one of the two throughout, for far.
        """
        if holds_pairs(self, X):
            return self.fit_pairs(X, required(self, y))
        data, self.classes_, scaler = labelled_data(self, X, y)
        return self._store(self._solve_labels(data), scaler, data)

    def fit_pairs(
        self, pairs: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from pairs, and calibrate ``threshold_`` on them.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) for ``preprocessor``
        y : array-like of shape (N,)
            1 for close; 0 or -1, one of the two throughout, for far.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.
        """
        data, scaler = pair_data(self, pairs, y, sample_weight)
        learned = self._store(self._solve(data), scaler, data)
        return learned.calibrate_threshold(pairs, y)

    def _store(self, fitted: Fit, scaler: Scaler, data: Labelled | Pairs) -> Self:
        report(fitted, type(self).__name__)
        self._set_map(fitted.params.factor, scaler, data.X)
        self._keep(fitted)
        return self

    @with_names
    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: picklable, callable on two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())
