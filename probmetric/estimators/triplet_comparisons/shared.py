"""Base of both estimators of triplets: solve, draw, and score."""

import warnings
from typing import Annotated, Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.containers import Triplets
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import Learner, Run
from probmetric.estimators._settings import Count, Number, settings
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

LAPSE_PRIOR = 1.0, 10.0
"""α and β of a learned lapse rate: mean 0.09, and 90% of the prior below 0.21."""


@settings
class TripletLearner(Learner[NutsOrLaplace]):
    """A map whose squared distances are log odds of responses to triplets."""

    max_iter: Count = 500
    odd_one_out: bool = False
    lapse_rate: Annotated[float, Number(0, 1, open_high=True)] | Literal["auto"] = 0.0

    def _solve(
        self,
        data: Triplets,
        prior: TripletPrior,
        rate: float,
        start: Float[np.ndarray, "p d"] | None = None,
    ) -> TripletParams:
        prior, fixed = self._lapses(prior)
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
        self.n_iter_ = max(1, int(fit.n_steps))
        self.triplets_: Triplets = data
        self.prior_: TripletPrior = prior
        self.params_: TripletParams = fit.params
        return self.params_

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load also pickles of fits without ``lapse_rate_``."""
        if "params_" in state and "lapse_rate_" not in state:
            state = {**state, "lapse_rate_": float(state.get("lapse_rate", 0.0))}
        super().__setstate__(state)

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

    def _lapses(self, prior: TripletPrior) -> tuple[TripletPrior, float]:
        """Return the prior (also of a learned lapse rate) and the fixed rate."""
        if self.lapse_rate == "auto":
            return prior._replace(lapse=LAPSE_PRIOR), 0.0
        return prior, float(self.lapse_rate)

    def _rates(self) -> dict[str, float]:
        return {"learning_rate": self.learning_rate_, "lapse_rate": self.lapse_rate_}

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return metrics(draws)


def probability(
    W: Float[np.ndarray, "p d"], data: Triplets, lapse_rate: float
) -> Float[np.ndarray, "N K"]:
    """Return the probability of each response, in the order of y, under the map W."""
    return np.exp(np.asarray(log_probability(TripletParams(W), data, lapse_rate)))


def accuracy(P: Float[np.ndarray, "N K"], y: Int[np.ndarray, "N"]) -> float:
    """Return the share of responses that P predicts; ties count in part."""
    largest = P == P.max(1, keepdims=True)
    return float(np.mean(largest[np.arange(len(y)), y] / largest.sum(1)))
