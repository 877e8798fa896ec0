"""``GaussianClasses``: Bayes' classifier of Gaussians with all parameters integrated.

The model is ``probmetric.models.gaussian_classes``, the closed forms
``probmetric.inference.gaussian_classes``; this file holds no mathematics.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from probmetric.data import Labelled
from probmetric.estimators._validation import (
    Scaler,
    check_choice,
    check_number,
    fit_scaler,
)
from probmetric.inference.gaussian_classes import (
    ClassPosterior,
    ClassStatistics,
    posterior,
    posterior_mean,
    statistics,
)
from probmetric.inference.gaussian_classes_predict import (
    evidence_prior,
    predict_log_proba,
)
from probmetric.inputs import class_codes
from probmetric.models.gaussian_classes_priors import NIWPrior
from probmetric.precision import to_numpy

__all__ = ["ClassFit", "GaussianClasses", "check_points", "fit_classes"]

COVARIANCES = ("full", "tied", "diagonal")


class ClassFit(NamedTuple):
    """What both estimators of Gaussian classes learn, in scaled units."""

    points: Float[np.ndarray, "n d"]
    classes: np.ndarray
    codes: Int[np.ndarray, "n"]
    scaler: Scaler
    stats: ClassStatistics
    prior: NIWPrior
    posterior: ClassPosterior


def check_points(estimator: Any, X: Any, *, integrate: bool) -> np.ndarray:
    """Return queries as float64; NaN passes only where it is integrated out."""
    finite = "allow-nan" if integrate else True
    return np.asarray(
        validate_data(
            estimator, X, reset=False, dtype=np.float64, ensure_all_finite=finite
        )
    )


def fit_classes(estimator: Any, X: Any, y: Any) -> ClassFit:
    """Validate, scale, choose the prior by evidence, and take the exact posterior.

    Raises
    ------
    ValueError
        On NaN (the NumPyro model with ``missing=True`` takes it), one class, constant
        columns, or points that are all equal within their classes.
    """
    check_choice("covariance", estimator.covariance, COVARIANCES)
    check_number("alpha", estimator.alpha, 0, open_low=True)
    checked: Any = validate_data(
        estimator, X, y, dtype=np.float64, ensure_min_samples=2
    )
    points, labels = checked
    check_classification_targets(labels)
    classes, codes = class_codes(labels)
    names = getattr(estimator, "feature_names_in_", None)
    scaler = fit_scaler(points, names, standardize=bool(estimator.standardize))
    Z = (points - scaler.mean) / scaler.scale
    stats = statistics(Labelled(Z, codes), len(classes))
    prior = evidence_prior(
        stats, covariance=estimator.covariance, alpha=float(estimator.alpha)
    )
    if np.isnan(prior.kappa):
        raise ValueError(
            "X: wanted points that vary within the classes (n_samples = "
            f"{len(points)}), got classes of equal points or one member each"
        )
    post = posterior(stats, prior, covariance=estimator.covariance)
    return ClassFit(points, classes, codes, scaler, stats, prior, post)


class GaussianClasses(ClassifierMixin, BaseEstimator):
    """Bayes' classifier of one Gaussian a class, parameters integrated out.

    With a normal-inverse-Wishart prior, whose three numbers are chosen by evidence,
    the predictive density of a class is a Student-t. It is the generative side of
    ``GLML`` on its own, and on average over eight data sets of 20 to 160 points at
    least as good: use this to classify, ``GLML`` for a metric.

    Parameters
    ----------
    covariance : {"full", "tied", "diagonal"}, default "full"
        A covariance a class, one for all, or independent features.
    alpha : float > 0, default 1
        Dirichlet concentration of the class weights.
    missing : {"error", "integrate"}, default "error"
        What a NaN in points to *predict* means. "integrate": the prediction is that
        of the entries that are there, exactly. ``fit`` takes whole rows only.
    standardize : bool, default True
        Centre and scale the features inside ``fit``.

    Attributes
    ----------
    classes_ : array of shape (c,)
    class_prior_ : array of shape (c,)
        Posterior mean of the class weights.
    means_ : array of shape (c, d)
    covariances_ : array of shape (c, d, d), or (1, d, d) when tied
        Posterior means, in input units.
    prior_ : NIWPrior
    posterior_ : ClassPosterior
        In scaled units, as the prior.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> GaussianClasses().fit(X, y).predict(X[:3]).tolist()
    [0, 0, 0]
    """

    def __init__(
        self,
        *,
        covariance: Any = "full",
        alpha: Any = 1.0,
        missing: Any = "error",
        standardize: Any = True,
    ):
        self.covariance = covariance
        self.alpha = alpha
        self.missing = missing
        self.standardize = standardize

    def fit(self, X: Any, y: Any) -> "GaussianClasses":
        """Take the exact posterior of labelled points.

        Parameters
        ----------
        X : array-like of shape (n, d)
            May have fewer points in a class than features, down to one.
        y : array-like of shape (n,)
        """
        check_choice("missing", self.missing, ("error", "integrate"))
        found = fit_classes(self, X, y)
        self.classes_, self._scaler = found.classes, found.scaler
        self.prior_, self.posterior_ = to_numpy((found.prior, found.posterior))
        mean = to_numpy(posterior_mean(self.posterior_))
        scale = found.scaler.scale
        self.class_prior_ = mean.weights
        self.means_ = found.scaler.mean + scale * mean.mean
        factor = scale[:, None] * mean.chol
        self.covariances_ = factor @ np.swapaxes(factor, 1, 2)
        return self

    def predict_log_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Return log P(class | x) with all parameters integrated out."""
        check_is_fitted(self)
        integrate = self.missing == "integrate"
        points = check_points(self, X, integrate=integrate)
        Z = (points - self._scaler.mean) / self._scaler.scale
        partly = integrate and bool(np.isnan(Z).any())
        with jax.enable_x64(True):
            return np.asarray(predict_log_proba(self.posterior_, Z, missing=partly))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Return P(class | x)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class, the first in sorted order of equals."""
        best = self.predict_log_proba(X).argmax(1)
        return self.classes_[best]
