"""``StackingClassifier``: weighted mean of class probabilities of classifiers.

The weights are derived in ``neighbors.stacking``.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labeled
from probmetric.data.unlabeled import leave_out
from probmetric.estimators._labeled import check_labeled, checked_rows, remember_rows
from probmetric.estimators._learner import ClassProbabilities
from probmetric.estimators._settings import (
    Positive,
    Unknown,
    check_settings,
    settings,
)
from probmetric.metric.feature_names import described
from probmetric.neighbors import KNeighborsClassifier
from probmetric.neighbors.stacking import fit_stack
from probmetric.typing import ArrayLike, Self, no_type_check


@settings
class StackingClassifier(ClassProbabilities, BaseEstimator):
    """Weighted mean of the probabilities of classifiers, by Bayesian stacking.

    Use this class if you have several classifiers. Choosing the best one is less
    reliable. The weights maximize the log score of the averaged probabilities of
    held-out points (five folds), plus the log density of a Dirichlet prior. With few
    points, the prior keeps the weights nearly equal.

    Parameters
    ----------
    classifiers : list of estimators, or of (str, estimator)
        Classifiers with ``predict_proba``, of this package or of scikit-learn. A
        learner without ``predict_proba``, such as ``PairLDA()`` or ``LCA()``, is used
        as ``KNeighborsClassifier(learner)``.
    prior_strength : float > 0, default=5
        Weight of the (Dirichlet) prior, as a number of held-out points. Larger values
        bring the weights closer to equal weights.

    Attributes
    ----------
    names_ : list of k str
        Names of the classifiers. Classifiers passed without a name have the name of
        their Python class.
    weights_, weights_sd_ : arrays of shape (k,)
        Weights, which sum to one, and their posterior standard deviations.
    log_scores_ : array of shape (k,)
        Mean held-out log score of each classifier.
    classifiers_ : list of k estimators
        Classifiers fitted to all points.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``fit`` fits each classifier six times: five times to 80% of the points, for
    held-out scores, and once to all points. Held-out scores do not include classes with
    only one row.

    References
    ----------
    Y. Yao, A. Vehtari, D. Simpson, A. Gelman, "Using stacking to average Bayesian
    predictive distributions", Bayesian Analysis 13 (2018).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from probmetric import RCA, datasets
    >>> X, y = datasets.load("iris")
    >>> parts = [RCA(prior_strength=4), LogisticRegression(max_iter=1000)]
    >>> stack = StackingClassifier(parts).fit(X[::3], y[::3])
    >>> stack.summary().columns.tolist(), bool(stack.score(X[1::3], y[1::3]) > 0.9)
    (['weight', 'sd', 'log_score'], True)
    """

    classifiers: Sequence[Any] = field(default=(), kw_only=False)
    prior_strength: Positive = 5.0
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    @no_type_check
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit the classifiers to X and labels y, and compute their weights."""
        y, X = leave_out(self.unlabeled, y, X)
        rows, self.classes_, codes = check_labeled(self, X, y)
        check_settings(self)
        named = [_named(part) for part in self.classifiers]
        if not named:
            raise ValueError(
                "classifiers must contain at least one classifier, got none"
            )
        count, seen = Counter(name for name, _ in named), Counter[str]()
        self.names_ = []
        for name, _ in named:
            seen[name] += 1
            self.names_.append(f"{name} {seen[name]}" if count[name] > 1 else name)
        parts, labels = [part for _, part in named], self.classes_[codes]
        points = float(self.prior_strength)
        self.classifiers_, made = fit_stack(
            parts, described(self, rows), labels, codes, points
        )
        self.weights_, self.weights_sd_, self.log_scores_ = made
        remember_rows(self, Labeled(rows, codes))
        return self

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute the weighted mean of class probabilities, shape (n, c)."""
        check_is_fitted(self)
        rows = described(self, checked_rows(self, X, finite=True))
        parts = zip(self.weights_, self.classifiers_, strict=True)
        return np.sum([w * part.predict_proba(rows) for w, part in parts], 0)

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute the logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def summary(self) -> pd.DataFrame:
        """Return each classifier's weight, its standard deviation, and log score."""
        check_is_fitted(self)
        return pd.DataFrame(
            {
                "weight": self.weights_,
                "sd": self.weights_sd_,
                "log_score": self.log_scores_,
            },
            index=pd.Index(self.names_, name="classifier"),
        )


def _named(part: Any) -> tuple[str, Any]:
    name, part = part if isinstance(part, tuple) else (type(part).__name__, part)
    if hasattr(part, "predict_proba"):
        return name, part
    if not hasattr(part, "get_metric"):
        raise ValueError(
            "classifiers must have a method predict_proba or get_metric, got "
            f"{type(part).__name__}"
        )
    return name, KNeighborsClassifier(part, unlabeled=None)
