"""Calibration of ``TwoStageMixture``, by refits with the settings of the fit."""

import warnings
from typing import Literal, NamedTuple, TypedDict

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Groups, Points
from probmetric.data.hash import canonical_order
from probmetric.inference.two_stage import choice
from probmetric.inference.two_stage.calibration import (
    N_FOLDS,
    bound_only,
    fit_calibration,
    held_out_ratios,
    n_repeated,
)
from probmetric.inference.two_stage.draws import with_database_noise
from probmetric.inference.two_stage.fit import fit
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Calibration
from probmetric.models.two_stage import Covariance, TwoStageParams, TwoStagePrior


class FitSettings(TypedDict):
    """Arguments of ``two_stage.fit.fit`` for one number of components."""

    n_components: int
    prior: TwoStagePrior | None
    covariance: Covariance
    alpha: float
    n_starts: int
    seed: int
    max_steps: int
    tol: float | None


class Recipe(NamedTuple):
    """Sources of a fit, and its settings for each number of components."""

    data: Groups
    settings: list[FitSettings]
    log_pi: Float[np.ndarray, "models"] | None
    flattening: float | Literal["held-out"] | None
    database_noise: float

    def learn(self, rows: Int[np.ndarray, "m"]) -> PairSimilarity:
        """Fit the models to some of the rows."""
        data = Groups(*(np.asarray(a)[rows] for a in (self.data.X, self.data.group)))
        models = [fit(data, **settings).params for settings in self.settings]
        seed = self.settings[0]["seed"]
        models = [
            flattened(m, np.asarray(data.X), self.flattening, seed) for m in models
        ]
        metric = choice.blend(models, self.log_pi)
        return with_database_noise(metric, self.database_noise)


def flattened(
    params: TwoStageParams,
    X: Float[np.ndarray, "n d"],
    flattening: float | Literal["held-out"] | None,
    seed: int,
) -> TwoStageParams:
    """Return parameters with flattened covariances."""
    if flattening is None:
        return params
    if flattening != "held-out":
        return choice.flatten(params, float(flattening))
    rng = np.random.default_rng(seed)
    out = np.empty(len(X), bool)
    out[canonical_order(X)] = rng.permutation(len(X)) < max(len(X) // 5, 1)
    # Start at the full fit: components then correspond.
    k = len(params.weights)
    rest = fit(Points(X[~out]), n_components=k, start=params, max_steps=200)
    return choice.flatten(params, choice.choose_flattening(rest.params, X[out]))


def calibrate(recipe: Recipe) -> Calibration:
    """Return the calibration of a fit to sources (only a bound if sources are few)."""
    X, group = np.asarray(recipe.data.X), np.asarray(recipe.data.group)
    n = n_repeated(group)
    if n < max(N_FOLDS, 3 * max(s["n_components"] for s in recipe.settings)):
        return bound_only(n)
    try:
        return fit_calibration(held_out_ratios(X, group, recipe.learn))
    except ValueError as error:  # The log ratios of a fold are not finite.
        warnings.warn(
            "TwoStageMixture: the calibration failed, because a fit without some of "
            f"the sources failed ({error}). Likelihood ratios are limited in size, "
            "but are not calibrated. Use prior='default', or calibration=None.",
            stacklevel=3,
        )
        return bound_only(n)
