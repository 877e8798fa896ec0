"""Base of ``TripletMetric`` and ``TripletEmbedding``: fit, draws and scores."""

import warnings
from typing import Annotated, Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int, Shaped
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.containers import Triplets
from probmetric.data.inputs import codes_of
from probmetric.data.triplets import weighing
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import Learner, Run
from probmetric.estimators._settings import Count, Number, Positive, settings
from probmetric.inference import triplet_comparisons as triplet
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.inference.sampling.target import Draws
from probmetric.inference.triplet_comparisons.draws import metrics
from probmetric.metric import Mahalanobis
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    log_probability,
)
from probmetric.typing import ArrayLike

LAPSE_PRIOR = 1.0, 10.0
"""α and β of a learned lapse rate: mean 0.09, and 90% of the prior below 0.21."""


@settings
class TripletLearner(Learner[NutsOrLaplace]):
    """Base of learners of a linear map from responses to triplets."""

    max_iter: Count = 500
    odd_one_out: bool = False
    lapse_rate: Annotated[float, Number(0, 1, open_high=True)] | Literal["auto"] = 0.0
    rater_spread: Positive = 1.0

    def _solve(
        self,
        data: Triplets,
        prior: TripletPrior,
        rate: float,
        start: Float[np.ndarray, "p d"] | None = None,
    ) -> TripletParams:
        prior, fixed = self._effects(prior)
        rates = {"learning_rate": rate, "lapse_rate": fixed}
        fit = triplet.fit(
            data, prior, **rates, max_steps=int(self.max_iter), start=start
        )
        name = type(self).__name__
        report(fit, name)
        self.gap_ = triplet.gap(fit.params, data, prior, **rates)
        if np.isposinf(self.gap_):
            warnings.warn(
                f"{name}: the optimizer did not find a maximum of the log posterior "
                "(gap_ is infinite). Draws are not available. Increase max_iter or "
                "regularization, or decrease n_components.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.learning_rate_ = rate
        self.lapse_rate_ = float(fit.params.rate(fixed))
        self.sharpness_ = fit.params.sharpness
        self.n_iter_ = max(1, int(fit.n_steps))
        self.triplets_: Triplets = data
        self.prior_: TripletPrior = prior
        self.params_: TripletParams = fit.params
        return self.params_

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load pickles, also pickles of fits without ``lapse_rate_`` or raters."""
        if "params_" in state and "lapse_rate_" not in state:
            state = {**state, "lapse_rate_": float(state.get("lapse_rate", 0.0))}
        if "params_" in state:
            state = {"sharpness_": None, "raters_": None, **state}
        super().__setstate__(state)

    def _numbered_raters(self, data: Triplets, raters: ArrayLike | None) -> Triplets:
        """Select triplets of positive weight, and replace their raters by numbers."""
        if raters is not None:
            data = data._replace(rater=self._one_each(raters, data))
        data, self.raters_ = weighing(data), None
        if data.rater is None:
            return data
        self.raters_, codes = codes_of(np.asarray(data.rater), "raters")
        return data._replace(rater=codes)

    def _of_raters(self, data: Triplets, raters: ArrayLike | None) -> Triplets:
        """Add the numbers of raters of the fit."""
        if raters is None:
            return data._replace(rater=None)
        if self.raters_ is None:
            raise ValueError("raters must be None, because the fit had no raters.")
        number = {name: k for k, name in enumerate(self.raters_.tolist())}
        names = self._one_each(raters, data).tolist()
        unknown = [name for name in names if name not in number]
        if unknown:
            raise ValueError(
                f"raters must be raters of the fit, got {unknown[0]!r}. Omit raters to "
                "predict for a typical rater."
            )
        return data._replace(rater=np.array([number[name] for name in names]))

    @staticmethod
    def _one_each(raters: ArrayLike, data: Triplets) -> Shaped[np.ndarray, "N"]:
        labels, n = np.asarray(raters), len(data.anchor)
        if labels.shape != (n,):
            raise ValueError(
                f"raters must have shape ({n},), got {labels.shape}. Pass one rater "
                "for each response."
            )
        return labels

    def _draw(
        self,
        method: str | NutsOrLaplace,
        run: Run,
        scale: Float[np.ndarray, "d"],
        *,
        objects: bool = False,
    ) -> Draws:
        with jax.enable_x64(True):
            return triplet.draw(
                self.params_,
                self.triplets_,
                self.prior_,
                method,
                **self._rates(),
                scale=scale,
                objects=objects,
                **run,
            )

    def _effects(self, prior: TripletPrior) -> tuple[TripletPrior, float]:
        """Return the prior (with lapse rate and raters), and the fixed lapse rate."""
        if self.raters_ is not None:
            spread = np.full(len(self.raters_), float(self.rater_spread))
            prior = prior._replace(spread=spread)
        if self.lapse_rate == "auto":
            return prior._replace(lapse=LAPSE_PRIOR), 0.0
        return prior, float(self.lapse_rate)

    def _axes(self) -> dict[str, Any]:
        """Return the names of the axes of draws of the sharpness."""
        if self.raters_ is None:
            return {}
        names = [str(name) for name in self.raters_]
        return {"dims": {"sharpness": ["rater"]}, "coords": {"rater": names}}

    def _rates(self) -> dict[str, float]:
        return {"learning_rate": self.learning_rate_, "lapse_rate": self.lapse_rate_}

    def _stated(
        self, W: Float[np.ndarray, "p d"], data: Triplets
    ) -> Float[np.ndarray, "N K"]:
        """Return the probability of each response, in the order of y, under a map W."""
        params = TripletParams(W, sharpness=self.sharpness_)
        return np.exp(np.asarray(log_probability(params, data, self.lapse_rate_)))

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return metrics(draws)


def accuracy(P: Float[np.ndarray, "N K"], y: Int[np.ndarray, "N"]) -> float:
    """Return the share of correct predictions; a tie of k responses counts as 1/k."""
    largest = P == P.max(1, keepdims=True)
    return float(np.mean(largest[np.arange(len(y)), y] / largest.sum(1)))
