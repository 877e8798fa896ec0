"""``LCAClassifier``: one Latent Coincidence Analysis per class (the paper's §3.1).

Class c has pairs (μ_c, x_i) of its mean with every training point, y = 1 where x_i is
of the class, and parameters (W_c, σ_c²) of its own, κ = 1. Its score is (maths A10)

    log P_c(x) = -(p/2) log(1 + 2σ_c²) - ‖W_c (x - μ_c)‖² / (2 (1 + 2σ_c²)).      (1)

Scores are one-vs-rest probabilities: they need not sum to one, and they underflow far
from every class, so all comparisons are made in log.
"""

from dataclasses import field
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Pairs
from probmetric.data.scaling import taught_scale
from probmetric.data.truth import TellsClasses
from probmetric.estimators._labelled import checked_rows, labelled_data, report
from probmetric.estimators._settings import Count, Positive, settings
from probmetric.estimators.lca.settings import n_rows
from probmetric.inference.lca.fit import Solver
from probmetric.inference.lca.recipe import (
    Recipe,
    auto_regularization,
    prior_for,
    solve,
)
from probmetric.metric import Link, Mahalanobis
from probmetric.models.lca import to_metric
from probmetric.typing import ArrayLike


@settings
class LCAClassifier(TellsClasses, BaseEstimator):
    """Classify by coincidence with the class means, each under a metric of its own.

    Parameters
    ----------
    n_components : int, optional
        Rows of each class's map, 1..d. Default: d.
    regularization : "auto" or float > 0, default="auto"
        λ in pseudo-points, as in ``LCA``: the prior of W_c is centred at cI (scaled
        principal axes where ``n_components < d``) with standard deviation c/√λ.
        "auto" is 10·max(1, n/1000). Without a prior a class whose members coincide
        would have ‖W_c‖ → ∞.
    solver : {"lbfgs", "squarem", "em", "full_em"}, default="lbfgs"
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    max_iter : int, default=500
    tol : float, optional

    Attributes
    ----------
    classes_ : array of shape (c,)
    means_ : array of shape (c, d)
        Class means of the training points.
    components_ : array of shape (c, p, d)
        Maps L_c in input units: log P_c(x) = -(b_c + ½ ‖L_c (x - μ_c)‖²).
    intercepts_, sigma2_ : arrays of shape (c,)
        b_c ≥ 0, and σ_c².
    regularization_ : float
    n_iter_ : int
        Solver iterations of the slowest class.
    n_features_in_, feature_names_in_

    References
    ----------
    Der and Saul, "Latent Coincidence Analysis", NIPS 2012, §3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> LCAClassifier().fit(X, y).predict(X[:3]).tolist()
    [0, 0, 0]
    """

    n_components: int | None = field(default=None, kw_only=False)
    regularization: Positive | Literal["auto"] = "auto"
    solver: Solver = "lbfgs"
    standardize: bool = True
    max_iter: Count = 500
    tol: Positive | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> "LCAClassifier":
        """Fit one LCA per class.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Numbers or strings; at least two classes of at least two members.
        """
        data, self.classes_, scaler = labelled_data(self, X, y)
        Z, codes = np.asarray(data.X), np.asarray(data.y)
        recipe = Recipe(
            n_components=n_rows(self.n_components, Z.shape[1]),
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        lam = self.regularization
        lam = auto_regularization(len(Z)) if isinstance(lam, str) else float(lam)
        means, maps, intercepts, sigma2, steps = [], [], [], [], [1]
        for code, label in enumerate(self.classes_):
            mean = Z[codes == code].mean(0)
            pairs = _class_pairs(Z, mean, codes == code)
            # Each pair has a point of its own: the n pairs count as n observations.
            fit = solve(pairs, prior_for(pairs, recipe, lam), recipe, 1.0)
            report(fit, f"LCAClassifier, class {label!r}")
            metric = to_metric(fit.params)
            means.append(scaler.mean + mean * scaler.scale)
            maps.append(np.asarray(metric.factor) / taught_scale(Z, scaler.scale))
            intercepts.append(0.0 if metric.link is None else float(metric.link.b))
            sigma2.append(float(np.exp(fit.params.log_sigma2)))
            steps.append(int(fit.n_steps))
        self.means_, self.components_ = np.stack(means), np.stack(maps)
        self.intercepts_, self.sigma2_ = np.array(intercepts), np.array(sigma2)
        self.regularization_, self.n_iter_ = lam, max(steps)
        return self

    def class_log_probability(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return log P_c(x) of every class (Eq. 1), natural log, at most 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        scores = np.empty((len(points), len(self.classes_)))
        for code, (mean, L) in enumerate(
            zip(self.means_, self.components_, strict=True)
        ):
            with np.errstate(over="ignore", invalid="ignore"):  # Refused below.
                squared = np.sum(((points - mean) @ L.T) ** 2, 1)
            scores[:, code] = -(self.intercepts_[code] + 0.5 * squared)
        if not np.isfinite(scores).all():
            raise ValueError(
                "X: expected points whose squared distances from the class means "
                f"float64 holds, got a largest entry of {np.abs(points).max():.3g}; "
                "rescale the points"
            )
        return scores

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log P_c, shape (n, c); with two classes their difference, (n,)."""
        scores = self.class_log_probability(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the class of largest log P_c, the first in sorted order of equals."""
        best = self.class_log_probability(X).argmax(1)
        return self.classes_[best]

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return the logarithm of ``predict_proba``."""
        return log_softmax(self.class_log_probability(X), axis=1)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Return P_c divided by its sum over classes.

        For display and for scikit-learn's tools: the model has one-vs-rest
        probabilities (``class_log_probability``), no distribution over classes.
        """
        return np.exp(self.predict_log_proba(X))

    def get_metric(self, label: object) -> Mahalanobis:
        """Return one class's metric, with its link."""
        check_is_fitted(self)
        found = np.flatnonzero(self.classes_ == label)
        if len(found) != 1:
            raise ValueError(
                f"label: expected one of {self.classes_.tolist()}, got {label!r}"
            )
        code = int(found[0])
        link = Link(np.asarray(self.intercepts_[code]), np.asarray(0.5))
        return Mahalanobis(self.components_[code].copy(), link)


def _class_pairs(Z: np.ndarray, mean: np.ndarray, member: np.ndarray) -> Pairs:
    """Pair the class mean, put last, with every point."""
    n = len(Z)
    return Pairs(
        np.concatenate([Z, mean[None]]),
        np.full(n, n),
        np.arange(n),
        member.astype(int),
    )
