"""``GaussianClasses`` and ``GLML`` of rows on disk."""

# These functions are methods of learners.
# pyright: reportPrivateUsage=false

import jax
import numpy as np
from sklearn.utils import check_random_state

from probmetric.data.containers import Labeled
from probmetric.estimators._settings import check_settings
from probmetric.estimators.gaussian_classes import (
    ClassFit,
    GaussianClasses,
    GaussianLearner,
    check_varied,
)
from probmetric.estimators.glml import GLML
from probmetric.inference.gaussian_classes.choice import choose_prior, prior_of
from probmetric.inference.gaussian_classes.prior import learn_statistics
from probmetric.large.begin import refuse, streamed_classes
from probmetric.large.source import Source, sample_rows
from probmetric.precision import to_numpy


def check(self: GaussianLearner, X: Source) -> None:
    """Raise for settings of either learner that data on disk do not support."""
    refuse({"missing": (self.missing == "integrate", "'error'")})
    if self.prior == "cv" and X.weighted:
        raise ValueError(
            "prior must be 'evidence' for data on disk with weights, got 'cv', which "
            "does not support weights"
        )


def fit(self: GaussianClasses, X: Source, y: object = None) -> GaussianClasses:
    """Fit ``GaussianClasses``."""
    check_settings(self)
    check(self, X)
    return self._store(_fit_classes(self, X, y))


def check_glml(self: GLML, X: Source) -> None:
    """Raise for settings of ``GLML`` that data on disk do not support."""
    check(self, X)
    refuse({"gamma": (isinstance(self.gamma, str), "a number, such as gamma=1,")})


def fit_glml(self: GLML, X: Source, y: object = None) -> GLML:
    """Fit ``GLML``."""
    check_settings(self)
    self._check_options()
    check_glml(self, X)
    seed = int(check_random_state(self.random_state).randint(2**31))
    fitted = _fit_classes(self, X, y)
    self._set_classes(fitted)
    metrics = self._learn(fitted, seed)[1]
    self.gamma_scores_, self.frame_ = None, "pooled"
    self._set(metrics, float(self.gamma))
    vars(self).pop("classifier_", None)
    return self


def _fit_classes(self: GaussianLearner, source: Source, y: object) -> ClassFit:
    """Fit in a pass over labels and one over rows (prior="cv" takes another pass)."""
    streamed = streamed_classes(self, source, y, 1)
    stats, c = streamed.stats, len(streamed.classes)
    prior = strengths = None
    if self.prior == "cv":
        X, codes, _ = sample_rows(source, classes=streamed.classes)
        Z = (X - streamed.inside.mean) / streamed.inside.scale
        prior, strengths, _ = choose_prior(Labeled(Z, codes), c, **self._options)
        if not np.isnan(prior.kappa):
            prior = prior_of(stats, strengths, **self._options)
    with jax.enable_x64(True):
        learned = to_numpy(learn_statistics(stats, prior, **self._options))
    check_varied(learned.prior, streamed.n)
    none = np.zeros((0, len(streamed.constant)))
    return ClassFit(
        none,
        Labeled(none, np.zeros(0, int)),
        streamed.classes,
        np.zeros(0, int),
        streamed.scaler,
        learned.stats,
        learned.prior,
        learned.posterior,
        float(learned.log_evidence),
        streamed.constant,
        strengths,
    )
