"""What both estimators of triplets do: scores, a warning, draws as distances."""

import warnings
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Triplets
from probmetric.inference import triplet_comparisons as triplet
from probmetric.metric.feature_names import with_names
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import Purpose


def share_right(P: Float[np.ndarray, "N"], answered: Triplets) -> float:
    """Return the share of answers that P says; P = 1/2 is half right."""
    right = (P > 0.5) == (np.asarray(answered.y) == 1)
    return float(np.mean(np.where(P == 0.5, 0.5, right)))


def warn_of_no_mode(gap: float, name: str) -> None:
    """Warn of a fit whose certificate says that it is at no maximum."""
    if np.isposinf(gap):
        warnings.warn(
            f"{name}: the fit ended where the log posterior has no maximum (gap_ is "
            "infinite): raise max_iter or regularization, or lower n_components",
            ConvergenceWarning,
            stacklevel=3,
        )


class PosteriorMixin:
    """Draws of ``sample`` as distances."""

    @with_names
    def posterior_metric(
        self: Any,
        purpose: Purpose,
        *,
        draws: xr.DataTree | None = None,
        method: Any = None,
        n_draws: int | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> PosteriorMetric:
        """Return the distances with their uncertainty.

        Parameters
        ----------
        purpose : {"prediction", "intervals"}
            Intervals mean what they say for independent triplets only.
        draws : DataTree, optional
            Of ``sample`` of this fit. Default: draws by ``method``.
        method : sampler, or "nuts", "laplace"; optional
            Default: "nuts". Laplace's Gaussian is one across the rotations of the map,
            and warns where it is far off.
        n_draws : int, optional
            Number of metrics. Default: 100; of ``draws``, all.
        seed : int, default=0
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.
        """
        check_choice("purpose", purpose, ("prediction", "intervals"))
        if n_draws is not None:
            n_draws = check_number("n_draws", n_draws, 1, whole=True)
        if draws is None:
            n_draws = 100 if n_draws is None else n_draws
            size: Any = {"n_draws": max(n_draws, 250), "progress": progress}
            made: xr.DataTree = self.sample(method or "nuts", seed=seed, **size)
            draws = made
        return posterior_metric(
            draws,
            [triplet.metrics],
            purpose,
            n_draws=n_draws,
            pairs_independent=not hasattr(self, "classes_"),
        )
