"""``sample`` and ``posterior_metric``: the uncertainty of a fitted LCA.

For prediction after ``fit``, soft votes are averaged over Laplace draws. The likelihood
of these draws is raised to the power η_G. λ is chosen by the leave-one-out score of the
averaged votes (see Benchmarks: posterior_few_labels). Intervals after ``fit`` come from
the jackknife (``posterior.jackknife``; see Benchmarks: intervals). Intervals after
``fit_pairs`` assume independent pairs. They come from the posterior,
corrected for the noise of the draws (``posterior.intervals``; see Benchmarks:
pairs_coverage).
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_number
from probmetric.data.containers import Labeled
from probmetric.data.hash import first_best
from probmetric.data.padding import host_weights
from probmetric.data.scaling import Scaler, fit_scaler, taught_scale
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import input_units
from probmetric.estimators.lca.settings import recipe_of
from probmetric.estimators.lca.tuning import fit_labels
from probmetric.inference.lca import draws as lca_draws
from probmetric.inference.lca.curvature import generalized_rate
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    anchor_share,
    as_fitted,
    refitted,
    within_reach,
)
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.sample import Method
from probmetric.inference.sampling.target import Draws
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import blocks_of
from probmetric.models.lca import lca, to_metric
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.interval_metric import IntervalMetric, jackknifed
from probmetric.posterior.metric import PosteriorMetric
from probmetric.progress import silent
from probmetric.typing import Purpose

LOO_GRID = (1.0, 10.0, 100.0)
"""Values of λ for prediction. Prior standard deviations of W are c to c/10."""

INTERVAL_LAM = 1.0
"""λ of the fit to all pairs (``target="all_pairs"``), a weak prior."""

N_DRAWS = {"prediction": 32, "intervals": 100}


class Options(TypedDict, total=False):
    """The options of ``LCA.posterior_metric``, for type checkers."""

    draws: xr.DataTree | None
    method: Method | Literal["jackknife"] | None
    n_draws: int | None
    seed: int
    target: Literal["fit", "all_pairs"]
    progress: bool | None


def drawable(estimator: Any) -> tuple[Fitted, Recipe]:
    """Return the fit of an estimator and its recipe. Raise if nothing was learned."""
    check_is_fitted(estimator)
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "Draws require a finite regularization_, got inf, because "
            "regularization='cv' chose the prior mean without learning. Set "
            "regularization to a number."
        )
    fitted: Fitted = estimator.fitted_
    return fitted, as_fitted(recipe_of(estimator, estimator.n_features_in_)[0], fitted)


def refit(fitted: Fitted, recipe: Recipe, **changes: float | None) -> Fitted:
    """Return ``refitted(...)``. Warn if the solver did not reach the new mode."""
    new = refitted(fitted, recipe, **changes)
    if new is not fitted:
        report(new.fit, "LCA")
    return new


def for_votes(fitted: Fitted, recipe: Recipe, lam: float) -> Fitted:
    """Return the posterior mode for prediction after ``fit``, at η_G and ``lam``."""
    pairs = fitted.pairs
    n = len(pairs.X) * anchor_share(recipe, len(pairs.X))
    plain = n / float(host_weights(pairs).sum())
    mode = refit(fitted, recipe, learning_rate=plain, lam=lam)
    rate = float(generalized_rate(mode.fit.params, pairs, mode.prior, plain))
    return refit(fitted, recipe, learning_rate=rate, lam=lam)


def repeated(estimator: Any, seed: int, target: str) -> IntervalMetric:
    """Return the jackknife of a fit: refits, each without a quarter of the points.

    If the fit had groups, whole groups are left out. Each refit standardizes its
    points. It chooses "auto" settings again, but not the number of rows and settings
    that "cv" chose.
    """
    fitted: Fitted = estimator.fitted_
    Z, codes = np.asarray(fitted.pairs.X), estimator._codes
    recipe, lam = recipe_of(estimator, Z.shape[1])
    recipe = recipe._replace(n_components=len(fitted.fit.params.W))
    if lam == "cv":  # Folds in each refit would take minutes.
        recipe, lam = as_fitted(recipe, fitted), estimator.regularization_
    scale, blocks = taught_scale(Z, estimator.scale_), blocks_of(estimator)

    def learn(
        Z: np.ndarray, codes: np.ndarray, groups: np.ndarray | None = None
    ) -> Mahalanobis:
        codes = np.unique(codes, return_inverse=True)[1]
        if groups is not None:
            groups = np.unique(groups, return_inverse=True)[1]
        scaler = fit_scaler(Z, standardize=estimator.standardize, blocks=blocks)
        rows = (Z - scaler.mean) / scaler.scale
        data = Labeled(rows, codes, None, groups)
        reachable = within_reach(recipe, data)
        new = fit_labels(data, reachable, lam, estimator.random_state)[0]
        report(new.fit, "LCA")
        factor = to_metric(new.fit.params).factor
        return Mahalanobis(factor / taught_scale(Z, scaler.scale) / scale)

    metric, about = Mahalanobis(estimator.components_.copy()), "the fit"
    if target == "all_pairs":
        recipe, lam = recipe._replace(pairs="all", learning_rate=1.0), INTERVAL_LAM
        metric, about = learn(Z, codes, fitted.groups), f"all pairs, λ = {lam:g}"
    about = f"{about} of {len(Z)} points"
    return jackknifed(metric, learn, Z, codes, fitted.groups, seed=seed, about=about)


def check_no_anchors(estimator: object) -> None:
    """Raise for a fit from anchors, because refits would need all rows."""
    if hasattr(estimator, "n_anchors_"):
        raise ValueError(
            "draws must be passed after a fit with n_anchors, got None. Use "
            "draws=lca.sample(). For the error due to the random sample of points "
            "(n_anchors) see matrix_error_."
        )


def check_no_weights(fitted: Fitted) -> None:
    """Raise for weighted points, because refits and votes ignore the weights."""
    if fitted.pairs.w is not None:
        raise ValueError(
            "draws must be passed after a fit with sample_weight, got None. Use "
            "draws=lca.sample()"
        )


def _with_folder(method: Any, lam: float) -> Any:
    """Return the sampler with a separate checkpoint folder (if any) for this λ."""
    folder = getattr(method, "checkpoint", None)
    if folder is None:
        return method
    return replace(method, checkpoint=Path(folder) / f"lam_{lam:g}")


def best_for_votes(
    candidates: list[PosteriorMetric], X: np.ndarray, codes: np.ndarray
) -> PosteriorMetric:
    """Return the first candidate with the best leave-one-out log score."""
    scores = [
        KNeighborsClassifier(draws).fit(X, codes).loo_scores_.max()
        for draws in candidates
    ]
    return candidates[first_best(np.array(scores))]


def metric_for(
    estimator: Any,
    purpose: Purpose,
    method: Method | Literal["jackknife"] | None,
    n_draws: int | None,
    seed: int,
    target: str,
    progress: bool | None,
) -> PosteriorMetric | IntervalMetric:
    """Return the metric of a fitted ``LCA`` with its uncertainty."""
    fitted, recipe = drawable(estimator)
    labeled = hasattr(estimator, "classes_")
    if labeled and purpose == "intervals":
        if method not in (None, "jackknife"):
            raise ValueError(
                "method must be 'jackknife' for intervals after fit(X, y), got "
                f"{method!r}. Omit method."
            )
        if n_draws is not None:
            raise ValueError(
                "n_draws must be None for the jackknife, which makes no draws, got "
                f"{n_draws}. Omit n_draws."
            )
        with silent() if progress is False else nullcontext():
            return repeated(estimator, seed, target)
    sampler: Any = "laplace" if method is None else method
    if bool(sampler == "jackknife"):
        raise ValueError(
            "method must be a sampler, got 'jackknife', which is only available for "
            "intervals after fit(X, y)"
        )
    if target != "fit":
        raise ValueError(
            "target='all_pairs' requires purpose='intervals', method='jackknife' and "
            f"fit(X, y), got purpose={purpose!r}, method={sampler!r}. Omit target."
        )
    if fitted.groups is not None:
        raise ValueError(
            "After a fit with groups, posterior_metric requires purpose='intervals' "
            f"and method='jackknife', got purpose={purpose!r}, method={sampler!r}. "
            "For prediction, pass draws=lca.sample()."
        )
    X = estimator.mean_ + fitted.pairs.X * estimator.scale_
    samplers = [sampler]
    if labeled:
        modes = [for_votes(fitted, recipe, lam) for lam in LOO_GRID]
        samplers = [_with_folder(sampler, lam) for lam in LOO_GRID]
    else:
        modes = [fitted]
    scale = taught_scale(fitted.pairs.X, estimator.scale_)
    candidates: list[PosteriorMetric] = []
    for mode, one in zip(modes, samplers, strict=True):
        drawn = lca_draws.draw(
            mode,
            one,
            scale=scale,
            warn_khat=purpose != "prediction",
            seed=seed,
            n_draws=N_DRAWS[purpose] if n_draws is None else n_draws,
            n_chains=1,
            progress=progress,
        )
        metrics = lca_draws.metrics(drawn)
        assert metrics is not None  # They are draws of LCA.
        source = str(drawn.attributes["method"])
        candidates.append(
            PosteriorMetric(
                metrics, purpose, source=source, pairs_independent=not labeled
            )
        )
    if len(candidates) == 1:
        return candidates[0]
    return best_for_votes(candidates, X, estimator._codes)


def record(estimator: Any) -> xr.Dataset:
    """Return prior, mode and units of a fitted LCA, which ``check_model`` requires."""
    fitted: Fitted = estimator.fitted_
    prior, params = fitted.prior, fitted.fit.params
    axes = ("latent", "feature")
    numbers = {"learning_rate": fitted.learning_rate, "log_sigma2": params.log_sigma2}
    numbers |= {k: getattr(prior, k) for k in ("c", "lam", "b_shape", "b_rate")}
    variables = {
        "W": (axes, np.asarray(params.W)),
        "prior_mean": (axes, np.asarray(prior.mean)),
        "mean": ("feature", estimator.mean_),
        "scale": ("feature", estimator.scale_),
        **{name: ((), np.asarray(value)) for name, value in numbers.items()},
    }
    return xr.Dataset(variables, attrs={"labeled": int(hasattr(estimator, "classes_"))})


def to_tree(
    drawn: Draws,
    fitted: Fitted,
    scaler: Scaler,
    names: list[str] | None,
    *,
    log_likelihood: bool,
    predictive: bool = False,
    prior_draws: int | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Return draws and their pairs as a DataTree, in input units."""
    pairs = fitted.pairs
    shown = input_units(pairs, scaler)
    M, b = drawn.values["M"], drawn.values["b"]
    groups: dict[str, dict[str, np.ndarray]] = {}
    if predictive:
        new = lca_draws.new_labels(M, b, shown, seed=seed)
        groups["posterior_predictive"] = {"y": new}
    if prior_draws is not None:
        n = check_number("prior_draws", prior_draws, 1, whole=True)
        scale = taught_scale(pairs.X, scaler.scale)
        prior = lca_draws.draws_of_prior(fitted, n, scale=scale, seed=seed)
        groups["prior_predictive"] = {"y": prior.pop("y")}
        groups["prior"] = prior
    terms = None
    if log_likelihood:
        terms = {"y": lca_draws.log_likelihood(M, b, shown._replace(w=None))}
    arguments = {"prior": fitted.prior, "learning_rate": fitted.learning_rate}
    return to_datatree(
        drawn,
        feature_names=names,
        data=shown,
        observed={"y": np.asarray(pairs.y)},
        log_likelihood=terms,
        groups=groups,
        attributes=provenance(lca, shown, arguments),
    )
