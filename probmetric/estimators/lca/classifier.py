"""``LCAClassifier``: one Latent Coincidence Analysis per class (the paper's §3.1).

Class c has the parameters (W_c, σ_c²), with κ = 1. It is learned from pairs (μ_c, x_i)
of the class mean and every training point, with y = 1 if x_i belongs to class c. The
score of the class is (maths A10)

    log P_c(x) = -(p/2) log(1 + 2σ_c²) - ‖W_c (x - μ_c)‖² / (2 (1 + 2σ_c²)).      (1)

Scores are one-vs-rest probabilities, which do not sum to one. All comparisons use
logarithms, because scores underflow far from every class.
"""

from dataclasses import field
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from probmetric.data.scaling import taught_scale
from probmetric.estimators._labeled import checked_rows, labeled_data, report
from probmetric.estimators._learner import ClassProbabilities
from probmetric.estimators._settings import (
    Count,
    Positive,
    Unknown,
    settings,
)
from probmetric.estimators.lca.class_prior import (
    Class,
    ClassPrior,
    choose_prior,
    fit_class,
)
from probmetric.estimators.lca.settings import n_rows
from probmetric.inference.lca.fit import Solver
from probmetric.inference.lca.recipe import Recipe, auto_regularization
from probmetric.metric import Link, Mahalanobis
from probmetric.metric.feature_names import with_names
from probmetric.typing import ArrayLike, Self


@settings
class LCAClassifier(ClassProbabilities, BaseEstimator):
    """Classify points by P(same) of the point and each class mean (one LCA per class).

    The model of class c is learned from pairs of the class mean μ_c and every training
    point. A pair is *same* if the point belongs to the class. The score of the class is
    log P_c(x) = -(b_c + ½ ‖L_c (x - μ_c)‖²), with a linear map L_c and an intercept
    b_c ≥ 0.

    Parameters
    ----------
    regularization : "cv", "auto" or float > 0, default="cv"
        Strength λ of the prior of the linear maps. With larger λ, the maps are closer
        to the prior mean. "cv" chooses λ among 10, 30, 100 and 10⁶ by the log loss of
        ``predict_proba`` for held-out points. λ = 10⁶ practically fixes the maps at the
        prior mean. "auto" uses λ = 10 for up to 1000 points, and λ = n/100 for n > 1000
        points.
    prior_scale : "cv", float > 0 or None, default="cv"
        Factor k of the prior mean. With a larger k, the probability of a class
        decreases faster with the distance from its mean. "cv" chooses k among √2, 2,
        2√2 and 4 by the held-out log loss. None uses k = 1 and the Euclidean distance,
        scaled for each class. It is not allowed with ``regularization="cv"``. With None
        and few points per class, class probabilities are too close to each other (see
        the guide to few labels).
    prior_mean : {"auto", "identity"}, default="auto"
        Distance to which the prior shrinks the distance of every class. "identity" is
        the Euclidean distance of standardized features. "auto" chooses the distance by
        cross-validation, as in ``LCA``. If ``n_components < d``, the prior distance
        uses only the first principal components of the points (with
        ``prior_scale=None`` and "identity": the first features).
    solver : {"lbfgs", "em", "full_em"}, default="lbfgs"
        As in ``LCA``.
    tol : float, optional
        Convergence tolerance, as in ``LCA``.

    Attributes
    ----------
    classes_ : array of shape (c,)
        Sorted class labels.
    means_ : array of shape (c, d)
        Class means μ_c of the training points.
    components_ : array of shape (c, p, d)
        Linear maps L_c in input units.
    intercepts_, sigma2_ : arrays of shape (c,)
        Intercepts b_c, and the variances σ_c² of the noise in the paper's model. The
        variances determine the intercepts: b_c = ½ p log(1 + 2σ_c²).
    regularization_ : float
        Value of λ.
    prior_scale_ : float
        Value of k, which is 1 if ``prior_scale`` is None.
    n_iter_ : int
        Largest number of iterations over classes.
    n_features_in_, feature_names_in_

    Notes
    -----
    For standardized features, the prior of √(1 + 2σ_c²) L_c is normal with mean kW₀.
    W₀ is the linear map of ``prior_mean``, scaled by distances within classes. Every
    entry has standard deviation k‖W₀‖/√(pλ), with the Frobenius norm.

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
    regularization: Positive | Literal["auto", "cv"] = "cv"
    prior_scale: Positive | Literal["cv"] | None = "cv"
    prior_mean: Literal["auto", "identity"] = "auto"
    solver: Solver = "lbfgs"
    standardize: bool = True
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"
    max_iter: Count = 500
    tol: Positive | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit one LCA per class."""
        data, self.classes_, scaler = labeled_data(self, X, y)
        Z, codes = np.asarray(data.X), np.asarray(data.y)
        recipe = Recipe(
            n_components=n_rows(self.n_components, Z.shape[1]),
            prior_mean=self.prior_mean,
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        prior = self._prior(Z, codes, recipe)
        fits: list[Class] = []
        for code, label in enumerate(self.classes_):
            fits.append(fit_class(Z, codes == code, recipe, prior))
            report(fits[-1].fit, f"LCAClassifier, class {label!r}")
        scale = taught_scale(Z, scaler.scale)
        self.means_ = np.stack([scaler.mean + c.mean * scaler.scale for c in fits])
        self.components_ = np.stack([c.factor / scale for c in fits])
        self.intercepts_ = np.array([c.b for c in fits])
        self.sigma2_ = np.array([float(np.exp(c.fit.params.log_sigma2)) for c in fits])
        self.regularization_ = prior.lam if isinstance(prior, ClassPrior) else prior
        self.prior_scale_ = prior.k if isinstance(prior, ClassPrior) else 1.0
        self.n_iter_ = max(1, *(int(c.fit.n_steps) for c in fits))
        return self

    def _prior(
        self, Z: np.ndarray, codes: np.ndarray, recipe: Recipe
    ) -> ClassPrior | float:
        lam, k = self.regularization, self.prior_scale
        if lam == "auto":
            lam = auto_regularization(len(Z))
        elif lam != "cv":
            lam = float(lam)
        if k is not None:
            k = "cv" if isinstance(k, str) else float(k)
            return choose_prior(Z, codes, recipe, k, lam)
        if lam == "cv":
            raise ValueError(
                "prior_scale must be 'cv' or a number with regularization='cv', got "
                "None. Use prior_scale='cv'."
            )
        return lam

    def class_log_probability(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute the score log P_c(x) ≤ 0 of each point and class, shape (n, c).

        P_c(x) is a one-vs-rest probability, so the sum over classes need not be one.
        """
        check_is_fitted(self)
        points = checked_rows(self, X, finite=True)
        scores = np.empty((len(points), len(self.classes_)))
        for code, (mean, L) in enumerate(
            zip(self.means_, self.components_, strict=True)
        ):
            with np.errstate(over="ignore", invalid="ignore"):  # The next check raises.
                squared = np.sum(((points - mean) @ L.T) ** 2, 1)
            scores[:, code] = -(self.intercepts_[code] + 0.5 * squared)
        if not np.isfinite(scores).all():
            raise ValueError(
                "X: squared distances from the class means overflow float64 (largest "
                f"entry {np.abs(points).max():.3g}). Rescale the points"
            )
        return scores

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the scores of ``class_log_probability``, shape (n, c).

        For two classes, compute the score of the second class minus the score of the
        first, shape (n,).
        """
        scores = self.class_log_probability(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class with the largest score (if tied, the first class)."""
        best = self.class_log_probability(X).argmax(1)
        return self.classes_[best]

    def predict_log_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute the logarithm of ``predict_proba``."""
        return log_softmax(self.class_log_probability(X), axis=1)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n c"]:
        """Compute class probabilities, shape (n, c).

        These are the one-vs-rest probabilities of ``class_log_probability``, divided by
        their sum over classes. Calibration is not guaranteed.
        """
        return np.exp(self.predict_log_proba(X))

    @with_names
    def get_metric(self, label: object) -> Mahalanobis:
        """Return the metric of a class.

        Its P(same) of a point and the class mean is the probability that the point
        belongs to the class.
        """
        check_is_fitted(self)
        codes = np.flatnonzero(self.classes_ == label)
        if len(codes) != 1:
            raise ValueError(
                f"label must be one of {self.classes_.tolist()}, got {label!r}"
            )
        code = int(codes[0])
        link = Link(np.asarray(self.intercepts_[code]), np.asarray(0.5))
        return Mahalanobis(self.components_[code].copy(), link)
