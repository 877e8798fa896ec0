"""Densities and responsibilities of single instances under a fitted mixture."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted, validate_data

from probmetric.metric import PairSimilarity

__all__ = ["InstanceDensityMixin"]


class InstanceDensityMixin:
    """Density and component of single instances, NaN entries integrated out."""

    metric_: PairSimilarity

    def score_samples(self, X: Any) -> Float[np.ndarray, "n"]:
        """Return the log density of each row, NaN entries integrated out."""
        rows = self._rows(X)
        return np.asarray(self.metric_.log_marginal(rows))

    def score(self, X: Any, y: Any = None) -> Any:
        """Return the mean log density of the rows; larger is better."""
        return float(np.mean(self.score_samples(X)))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return P(component | x) of each row; components have no names."""
        rows = self._rows(X)
        return np.exp(np.asarray(self.metric_.log_responsibilities(rows)))

    def predict(self, X: Any) -> Int[np.ndarray, "n"]:
        """Return the likeliest component of each row."""
        return self.predict_proba(X).argmax(1)

    def _rows(self, X: Any) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self, "metric_")
        validate: Any = validate_data  # its stubs know only the default strings
        return validate(
            self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
        )
