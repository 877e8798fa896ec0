"""Base of learners from close and far pairs: labels or pairs in, a metric out.

A learner says how it solves pairs (``_solve``) and what it keeps of the result
(``_keep``); checking, pairing, scaling and mapping back to input units are here.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Labelled, Pairs
from probmetric.data.inputs import pairs_from_arrays
from probmetric.data.pairs import all_pairs, impostor_pairs, nearest_pairs
from probmetric.data.scaling import Scaler, fit_scaler
from probmetric.estimators._labelled import check_labelled, report
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.inference.solvers.result import Fit
from probmetric.metric import Mahalanobis

__all__ = ["PAIR_SETS", "PairLearner", "pairs_of_labels"]

PAIR_SETS = ("nearest", "impostors", "all")


def pairs_of_labels(
    X: np.ndarray, codes: np.ndarray, pairs: str, n_targets: Any, n_impostors: Any
) -> Pairs:
    """Pair labelled points; a class that has fewer neighbours gives what it has."""
    check_choice("pairs", pairs, PAIR_SETS)
    if pairs == "all":
        return all_pairs(X, codes)
    k = int(check_number("n_targets", n_targets, 1, whole=True))
    m = int(check_number("n_impostors", n_impostors, 1, whole=True))
    sizes = np.bincount(codes)
    k = min(k, int(sizes.max()) - 1)
    if pairs == "impostors":
        return impostor_pairs(X, codes, k)
    return nearest_pairs(X, codes, k, min(m, len(X) - int(sizes.min())))


class PairLearner(
    PairsMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """A Mahalanobis metric from class labels (``fit``) or pairs (``fit_pairs``)."""

    pairs: str
    n_targets: int
    n_impostors: int
    standardize: bool
    preprocessor: Any

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
        """Pair standardised points as the parameters say."""
        return pairs_of_labels(
            np.asarray(data.X),
            np.asarray(data.y),
            self.pairs,
            self.n_targets,
            self.n_impostors,
        )

    def __sklearn_tags__(self) -> Any:
        """Say that ``fit`` needs labels."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from class labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes of at least two members.
        """
        rows, self.classes_, codes = check_labelled(self, X, y)
        scaler = self._scale(rows)
        fitted = self._solve_labels(
            Labelled((rows - scaler.mean) / scaler.scale, codes)
        )
        for name in ("threshold_", "pair_classes_"):
            vars(self).pop(name, None)
        return self._store(fitted, scaler)

    def fit_pairs(self, pairs: Any, y: Any, *, sample_weight: Any = None) -> Any:
        """Learn from pairs, and calibrate ``threshold_`` on them.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) of rows of ``preprocessor``
        y : array-like of shape (N,)
            1 for close; 0 or -1, one of the two throughout, for far.
        sample_weight : array-like of shape (N,), optional
            Data weights ≥ 0.
        """
        source = self._preprocessor_for(pairs)
        given = pairs_from_arrays(pairs, y, sample_weight, X=source)
        self.n_features_in_ = given.X.shape[1]
        vars(self).pop("feature_names_in_", None)
        # By multiplicity, so that both forms of the same pairs give the same fit.
        scaler = self._scale(np.concatenate([given.X[given.i], given.X[given.j]]))
        fitted = self._solve(given._replace(X=(given.X - scaler.mean) / scaler.scale))
        vars(self).pop("classes_", None)
        self._store(fitted, scaler)
        return self.calibrate_threshold(pairs, y)

    def _scale(self, rows: np.ndarray) -> Scaler:
        names = getattr(self, "feature_names_in_", None)
        return fit_scaler(rows, names, standardize=bool(self.standardize))

    def _store(self, fitted: Fit, scaler: Scaler) -> Any:
        """Map a fit back to input units."""
        report(fitted, type(self).__name__)
        self.components_ = np.asarray(fitted.params.factor) / scaler.scale
        self.mean_, self.scale_ = scaler
        self._keep(fitted)
        return self

    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: picklable, callable on two points."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy())
