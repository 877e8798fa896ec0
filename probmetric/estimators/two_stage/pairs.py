"""Similarities of pairs under a fitted two-stage mixture, and learning from pairs."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Pairs
from probmetric.data.groups import as_groups
from probmetric.data.inputs import real
from probmetric.data.scaling import Scaler, fit_scaler_missing
from probmetric.estimators.two_stage.inputs import check_settings
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage.pairs import fit_alpha
from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import proportional

__all__ = ["PairSimilarityMixin"]


class PairSimilarityMixin:
    """Scores of pairs, and fits to pairs."""

    metric_: PairSimilarity
    alpha: Any
    standardize: Any
    n_features_in_: int
    _scaler: Scaler
    _fit: Any
    _set: Any
    _changed_by: str | None

    def fit_pairs(self, pairs: Any, y: Any = None) -> Any:
        """Learn W and B from pairs known to share a source, or not.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d)
            NaN marks a missing entry.
        y : array-like of shape (N,), optional
            1 where a pair shares a source, 0 or -1 where not; all 1 by default.
            A pair that does not counts as two single instances.

        Raises
        ------
        ValueError
            On bad input, or no pair that shares a source: nothing then tells W from B.
        """
        check_settings(self)
        given = _pairs(pairs, allow_nan=True)
        same = _labels(y, len(given))
        if not same.any():
            raise ValueError(
                "y: expected at least one pair of one source (1), got none: W and B "
                "are "
                "not identified; fit single instances by fit(X)"
            )
        rows = given.reshape(-1, given.shape[2])
        self.n_features_in_ = given.shape[2]
        self._scaler = fit_scaler_missing(rows, self.standardize)
        rows = (rows - self._scaler.mean) / self._scaler.scale
        i = np.arange(0, len(rows), 2)
        return self._fit(as_groups(Pairs(rows, i, i + 1, same)), None)

    def fit_alpha(self, pairs: Any) -> Any:
        """Learn α from same-source pairs, all else as fitted by ``fit(X)``.

        Sets W = αΣ and B = (1 - α)Σ for Σ = within_ + between_.
        """
        check_is_fitted(self, "metric_")
        if self.metric_.blocks:
            raise ValueError("fit_alpha: expected one model, got a blend of several")
        mean, scale = self._scaler
        given = (self._complete(pairs) - mean) / scale
        m = self.metric_
        total = np.asarray(m.noise) + np.asarray(m.between)
        weights = np.exp(np.asarray(m.log_weights))
        mixture = MixtureParams(weights, np.asarray(m.means), total)
        standard = MixtureParams(
            weights, (mixture.means - mean) / scale, total / np.outer(scale, scale)
        )
        end = fit_alpha(standard, given[:, 0], given[:, 1])
        if not np.isfinite(float(end.params)):
            raise ValueError(
                "pairs: expected instances that differ, got equal ones only"
            )
        self.alpha_ = float(end.params)
        self._set([proportional(*mixture, self.alpha_)])
        self._changed_by = "fit_alpha"
        return self

    def pair_score(self, pairs: Any) -> Float[np.ndarray, "N"]:
        """Return the score of each pair (N, 2, d): higher is more similar."""
        given = self._given(pairs)
        return np.asarray(self.metric_.pair_score(given[:, 0], given[:, 1]))

    def same_probability(
        self, pairs: Any, *, prior_odds: float = 1.0
    ) -> Float[np.ndarray, "N"]:
        """Return P(one source) of each pair (N, 2, d), given the prior odds."""
        given = self._given(pairs)
        args = given[:, 0], given[:, 1]
        return np.asarray(self.metric_.same_probability(*args, prior_odds=prior_odds))

    def pair_distance(self, pairs: Any) -> Float[np.ndarray, "N"]:
        """Raise: the similarity is no distance."""
        raise ValueError(
            "pair_distance: a two-stage mixture learns a similarity, not a distance "
            "(no triangle inequality, Q need not be its own best match): use pair_score"
        )

    def _given(self, pairs: Any) -> Float[np.ndarray, "N 2 d"]:
        check_is_fitted(self, "metric_")
        given = _pairs(pairs, allow_nan=True)
        if given.shape[2] != self.n_features_in_:
            raise ValueError(
                f"pairs: expected {self.n_features_in_} features, as in fit, got "
                f"{given.shape[2]}"
            )
        return given

    def _complete(self, pairs: Any) -> Float[np.ndarray, "N 2 d"]:
        given = self._given(pairs)
        if np.isnan(given).any():
            raise ValueError("pairs: expected complete pairs to learn from, got NaN")
        return given


def _pairs(pairs: Any, *, allow_nan: bool = False) -> Float[np.ndarray, "N 2 d"]:
    given = real(pairs, "pairs")
    if given.ndim != 3 or given.shape[1] != 2 or 0 in given.shape:
        raise ValueError(f"pairs: expected shape (N, 2, d), got {given.shape}")
    bad = np.isinf(given).any() if allow_nan else not np.isfinite(given).all()
    if bad:
        raise ValueError("pairs: expected finite numbers, got NaN or infinity")
    return given


def _labels(y: Any, n: int) -> np.ndarray:
    if y is None:
        return np.ones(n, int)
    given = np.asarray(y)
    valid = given.shape == (n,) and (
        set(np.unique(given)) <= {0, 1} or set(np.unique(given)) <= {-1, 1}
    )
    if not valid:
        raise ValueError(
            f"y: expected {n} pair labels all in {{0, 1}} or all in {{-1, +1}}, got "
            f"{given.tolist()[:5]} of shape {given.shape}"
        )
    return (given == 1).astype(int)
