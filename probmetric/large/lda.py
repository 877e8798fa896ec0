"""Fit ``LDA``, ``RCA`` and ``PairLDA`` to rows on disk from moments, in one pass."""

# These functions are methods of learners.
# pyright: reportPrivateUsage=false

import numpy as np

from probmetric.estimators._labeled import report
from probmetric.estimators.lda import LDA, RCA
from probmetric.estimators.pair_lda import PairLDA
from probmetric.inference import lda, pair_lda
from probmetric.large.begin import refuse, streamed_classes
from probmetric.large.source import Source


def check(self: LDA | RCA | PairLDA, X: Source) -> None:
    """Raise for settings of ``LDA`` and ``RCA`` that data on disk do not support."""
    folds = isinstance(self.prior_strength, str)
    refuse({"prior_strength": (folds, "a number, such as prior_strength=1, not 'cv',")})


def fit(self: LDA | RCA, X: Source, y: object = None) -> LDA | RCA:
    """Fit ``LDA`` or ``RCA``."""
    check(self, X)
    streamed = streamed_classes(self, X, y, 2)
    self.classes_ = streamed.classes
    self.prior_strength_ = float(self.prior_strength)
    target = np.eye(len(streamed.scaler.scale))
    prior = lda.shrinkage_prior(target, self.prior_strength_)
    params = self._learn(streamed.stats, prior)
    self._found = None
    self.components_ = streamed.map_of(np.asarray(params.factor))
    self.mean_, self.scale_ = streamed.scaler
    return self._store(params, streamed.scaler)


def check_pair_lda(self: PairLDA, X: Source) -> None:
    """Raise for settings of ``PairLDA`` that data on disk do not support."""
    check(self, X)
    refuse({"pairs": (self.pairs != "all", "'all'")})


def fit_pair_lda(self: PairLDA, X: Source, y: object = None) -> PairLDA:
    """Fit ``PairLDA``."""
    check_pair_lda(self, X)
    streamed = streamed_classes(self, X, y, 2)
    moments = pair_lda.class_second_moments(streamed.stats, streamed.squares)
    strength, n = float(self.prior_strength), float(np.sum(streamed.stats.n))
    fitted = self._learn(moments, strength, n)
    report(fitted, type(self).__name__)
    self.classes_ = streamed.classes
    self.components_ = streamed.map_of(np.asarray(fitted.params.factor))
    self.mean_, self.scale_ = streamed.scaler
    self._keep(fitted)
    return self
