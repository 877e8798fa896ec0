"""Base of ``HierarchicalLCA`` and ``PointEffectsLCA``: LCA with random effects."""

from dataclasses import field
from typing import Literal

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import Learner, Run, input_units
from probmetric.estimators._mahalanobis import PairsMixin
from probmetric.estimators._settings import (
    Count,
    Positive,
    Unknown,
    settings,
)
from probmetric.estimators.lca.settings import base_recipe, n_rows
from probmetric.estimators.lca.tuning import STRONG, choose_by_evidence
from probmetric.inference.effects import draws as effects
from probmetric.inference.effects.fit import SpreadPosterior
from probmetric.inference.effects.recipe import Fitted
from probmetric.inference.lca.recipe import Recipe, choose_power, prior_for, rate_for
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.sampling.sample import NutsOrLaplace
from probmetric.inference.sampling.target import Draws
from probmetric.metric import Mahalanobis
from probmetric.typing import Preprocessor, Purpose

N_AVERAGED = 200
"""Number of draws over which P(same) is averaged."""


@settings
class EffectLearner(PairsMixin, Learner[NutsOrLaplace]):
    """Base of LCA with random effects of groups or points."""

    n_components: int | None = field(default=None, kw_only=False)
    pairs: Literal["nearest", "all"] = "nearest"
    n_targets: Count | None = None
    n_impostors: Count | None = None
    regularization: Positive | Literal["auto"] = "auto"
    learning_rate: Positive | Literal["auto"] = "auto"
    prior_mean: Literal["auto", "identity"] = "auto"
    standardize: bool = True
    max_iter: Count = 500
    preprocessor: Preprocessor = None
    unlabeled: object = "warn"
    handle_unknown: Unknown = "error"

    def _recipe(self, d: int, rate: float | None = None) -> Recipe:
        """Return the settings for d features; ``rate`` is the "auto" learning rate."""
        recipe = base_recipe(self, n_rows(self.n_components, d))
        rate = recipe.learning_rate or rate
        return recipe._replace(learning_rate=rate, max_iter=int(self.max_iter))

    def _lam(self, pairs: Pairs, recipe: Recipe) -> float:
        """Return λ. "auto" uses 10 for labels, and the rule of ``LCA`` for pairs."""
        if self.regularization != "auto":
            return float(self.regularization)
        if hasattr(self, "classes_"):
            return 10.0
        plain = pairs._replace(anchor=None)
        return choose_by_evidence(plain, recipe, rate_for(plain, recipe), margin=STRONG)

    def _centered(
        self, pairs: Pairs, codes: Int[np.ndarray, "n"], recipe: Recipe
    ) -> Recipe:
        if self.prior_mean != "auto":
            return recipe
        data = Labeled(np.asarray(pairs.X), codes)
        power = choose_power(data)
        W0 = prior_for(pairs, recipe._replace(prior_mean=power), 1.0, data).mean
        return recipe._replace(prior_mean=np.asarray(W0)) if power else recipe

    def _store_fit(self, fitted: Fitted, metric: Mahalanobis, scaler: Scaler) -> None:
        report(fitted.fit, type(self).__name__)
        self._set_map(metric.factor, scaler, fitted.pairs.X)
        self.spread_ = float(fitted.fit.params.spread)
        self.learning_rate_ = fitted.learning_rate
        self.n_iter_ = max(1, int(fitted.fit.n_steps))
        self.fitted_ = fitted
        self._averaged: list[dict[str, np.ndarray]] = []
        self._grid: list[SpreadPosterior] = []

    @property
    def _live_scale(self) -> Float[np.ndarray, "d"]:
        """Return the scale by which maps are divided, infinite for constant columns."""
        return taught_scale(np.asarray(self.fitted_.pairs.X), self.scale_)

    def _spreads(self) -> SpreadPosterior:
        if not self._grid:
            self._grid = [effects.grid(self.fitted_)]
        return self._grid[0]

    def spread_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a grid of the spread ω (k,), and the posterior probabilities (k,).

        The spread is the standard deviation of the random effects. The probabilities
        are approximated by Laplace's method. For draws of ω without this approximation,
        use NUTS: ``sample()["posterior"]["spread"]``.
        """
        check_is_fitted(self)
        posterior = self._spreads()
        return posterior.spread, posterior.probability

    def _drawn(self, method: str | NutsOrLaplace, run: Run) -> Draws:
        return effects.draw(
            self.fitted_,
            method,
            scale=self._live_scale,
            posterior=self._spreads(),
            feature_names=self._names,
            **run,
        )

    def _laplace(self) -> dict[str, np.ndarray]:
        """Return the draws over which P(same) is averaged (cached)."""
        if not self._averaged:
            run = Run(n_draws=N_AVERAGED, n_chains=1, seed=0, progress=None)
            self._averaged = [joined(self._drawn("laplace", run))]
        return self._averaged[0]

    def _shown(self) -> Pairs:
        return input_units(self.fitted_.pairs, Scaler(self.mean_, self.scale_))

    def _metrics_of(self, draws: xr.DataTree) -> list[Mahalanobis] | None:
        return effects.metrics(draws)

    def _method_for(self, purpose: Purpose) -> str:
        return "laplace" if purpose == "prediction" else "nuts"
