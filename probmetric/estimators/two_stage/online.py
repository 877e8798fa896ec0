"""The two-stage mixture learned in parts: ``partial_fit`` and ``merge``.

``statistics_`` are the expected sums, Eq. (2) of ``mixture.em``, about the origin of
the standardised features, over all parts seen, each taken under the parameters of its
time (incremental EM). The first part sets the scale and the start.
"""

from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import validate_data

from probmetric.data.scaling import Scaler, check_sizes
from probmetric.inference.mixture.em import e_step, m_step, recentre
from probmetric.inference.mixture.start import mixture_data
from probmetric.inference.mixture.statistics import MixtureParams, MixtureStats
from probmetric.models.two_stage import TwoStageParams, proportional
from probmetric.precision import numpy_in_numpy_out

__all__ = ["OnlineMixin"]

_e_step = numpy_in_numpy_out(jax.jit(e_step))


class OnlineMixin:
    """``partial_fit`` for single instances."""

    _scaler: Scaler
    _single: TwoStageParams | None
    statistics_: MixtureStats
    _first: MixtureStats
    alpha: Any
    alpha_: float | None
    means_: np.ndarray
    fit: Any
    _set: Any
    _prior: Any
    _changed_by: str | None
    _online_prior: Any

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Add complete rows to what was learned from single instances.

        The first call is ``fit``; each further one adds its statistics and maximises
        once. Passing a part again counts it again.
        """
        if not hasattr(self, "statistics_"):
            self.fit(X)
            rows = validate_data(self, X, reset=False, dtype=np.float64)
            rows = (rows - self._scaler.mean) / self._scaler.scale
            self._online_prior = self._prior(rows, len(self._parameters().weights))
            self.statistics_ = self._first = self._absolute(rows)
            return self
        checked: Any = validate_data(self, X, reset=False, dtype=np.float64)
        rows = np.asarray(checked)
        check_sizes(rows)
        rows = (rows - self._scaler.mean) / self._scaler.scale
        check_sizes(rows)
        return self._advance(self._absolute(rows))

    def merge(self, other: "OnlineMixin") -> Any:
        """Add what another estimator has learned since both began from one part.

        Both must be copies (``copy.deepcopy``) of one estimator after its first
        ``partial_fit``, so that scales and components correspond.

        Raises
        ------
        ValueError
            When they did not begin alike.
        """
        start = getattr(self, "_first", None), getattr(other, "_first", None)
        if None in start or not np.array_equal(start[0].first, start[1].first):  # pyright: ignore[reportOptionalMemberAccess]
            raise ValueError(
                "other: expected an estimator that began as a copy of this one after "
                "its "
                "first partial_fit, got one that began otherwise"
            )
        return self._advance(jax.tree.map(np.subtract, other.statistics_, start[1]))

    def _parameters(self) -> TwoStageParams:
        if self._single is None:
            raise ValueError("partial_fit: expected one model, got a blend of several")
        return self._single

    def _absolute(self, rows: Any) -> MixtureStats:
        p = self._parameters()
        current = MixtureParams(p.weights, p.means, p.within + p.between)
        stats = _e_step(current, mixture_data(rows))
        return recentre(stats, p.means, np.zeros_like(p.means))

    def _advance(self, stats: MixtureStats) -> Any:
        self.statistics_ = jax.tree.map(np.add, self.statistics_, stats)
        origin = np.zeros_like(self._parameters().means)
        mixture = m_step(self.statistics_, origin, self._online_prior)
        share = self.alpha if self.alpha_ is None else self.alpha_
        self._single = proportional(*mixture, share)
        square = np.outer(self._scaler.scale, self._scaler.scale)
        p = self._single
        means = self._scaler.mean + p.means * self._scaler.scale
        within, between = p.within * square, p.between * square
        self._set([TwoStageParams(p.weights, means, within, between)])
        self._changed_by = "further parts"
        return self
