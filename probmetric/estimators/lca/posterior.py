"""``sample`` and ``posterior_metric``: the uncertainty of a fitted LCA.

The two purposes have different objects, and neither can be used for the other.

*Prediction* averages soft votes over Laplace draws at the learning rate η_G that is
computed from the scores of points. λ is chosen by leave-one-out of the averaged
prediction. With few labels the log loss is lower than with the Euclidean distance or
the fit; isotropic noise of the same size does nearly as well. See Benchmarks:
posterior_few_labels.

*Intervals* belong to the fit itself: the recipe of the fit, with the settings that it
chooses, is repeated without quarters of the points (``posterior.jackknife``). They
refer to the expected distance over training samples of this size. The fit at η = 1 and
λ = 1 over all pairs is another target with intervals of its own (``ALL_PAIRS``). See
Benchmarks: intervals.

After ``fit_pairs``, with independent pairs, intervals come from the posterior,
corrected for the noise of the draws (``posterior.intervals``). See Benchmarks:
pairs_coverage.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice, check_number
from probmetric.data.hash import first_best
from probmetric.data.padding import host_weights
from probmetric.data.scaling import Scaler, fit_scaler, taught_scale
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import input_units
from probmetric.estimators.lca.settings import recipe_of
from probmetric.estimators.lca.tuning import fit_labels
from probmetric.inference.lca import draws as lca_draws
from probmetric.inference.lca.curvature import generalized_rate
from probmetric.inference.lca.draws import LCAMethod
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    anchor_share,
    as_fitted,
    on_all_pairs,
    refitted,
    within_reach,
)
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.target import Draws
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import blocks_of
from probmetric.models.lca import lca, to_metric
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.interval_metric import IntervalMetric, jackknifed
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import Purpose

LOO_GRID = (1.0, 10.0, 100.0)
"""λ tried for prediction: prior standard deviations from c to c/10."""

INTERVAL_LAM = 1.0
"""λ of intervals, a weak prior."""

MOST_POINTS = 1000
"""Largest number of points for which draws for intervals use all pairs by default."""

N_DRAWS = {"prediction": 32, "intervals": 100}


class Options(TypedDict, total=False):
    """The options of ``LCA.posterior_metric``, for type checkers."""

    draws: xr.DataTree | None
    method: LCAMethod | Literal["jackknife"] | None
    n_draws: int | None
    seed: int
    target: Literal["fit", "all_pairs"]
    pairs: Literal["auto", "fitted", "all"]
    learning_rate: float | Literal["auto"]
    regularization: float | Literal["auto"]
    progress: bool | None


def drawable(estimator: Any) -> tuple[Fitted, Recipe]:
    """Return the fit of an estimator and its recipe, if it has a posterior."""
    check_is_fitted(estimator)
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "regularization must be finite for draws, got λ = inf, because 'cv' chose "
            "the prior mean without learning. Set regularization to a number."
        )
    fitted: Fitted = estimator.fitted_
    return fitted, as_fitted(recipe_of(estimator, estimator.n_features_in_)[0], fitted)


def refit(fitted: Fitted, recipe: Recipe, **changes: float | None) -> Fitted:
    """Return ``refitted``; warn if the new mode is not reached."""
    new = refitted(fitted, recipe, **changes)
    if new is not fitted:
        report(new.fit, "LCA")
    return new


def for_purpose(
    fitted: Fitted,
    recipe: Recipe,
    purpose: str,
    *,
    labeled: bool,
    lam: float | None = None,
    learning_rate: int | float | str = "auto",
) -> Fitted:
    """Return the mode of the posterior for a purpose, on the pairs of the fit.

    The parameters are described in ``LCA.posterior_metric``. If ``lam`` is None, λ of
    the fit is used.
    """
    if not isinstance(learning_rate, str):
        rate = float(check_number("learning_rate", learning_rate, 0, open_low=True))
        return refit(fitted, recipe, learning_rate=rate, lam=lam)
    check_choice("learning_rate", learning_rate, ("auto",))
    if not labeled:
        return refit(fitted, recipe, lam=lam)
    if purpose == "intervals":
        return refit(fitted, recipe, learning_rate=1.0, lam=lam)
    pairs = fitted.pairs
    n = len(pairs.X) * anchor_share(recipe, len(pairs.X))
    plain = n / float(host_weights(pairs).sum())
    mode = refit(fitted, recipe, learning_rate=plain, lam=lam)
    rate = float(generalized_rate(mode.fit.params, pairs, mode.prior, plain))
    return refit(fitted, recipe, learning_rate=rate, lam=lam)


def lams_for(
    lam: int | float | str, purpose: str, *, labeled: bool
) -> tuple[float | None, ...]:
    """Return the λ to try; None is λ of the fit."""
    if not isinstance(lam, str):
        return (float(check_number("regularization", lam, 0, open_low=True)),)
    check_choice("regularization", lam, ("auto",))
    if not labeled:
        return (None,)
    return (INTERVAL_LAM,) if purpose == "intervals" else LOO_GRID


def repeated(
    estimator: Any,
    *,
    target: str,
    seed: int,
    learning_rate: int | float | str,
    regularization: int | float | str,
) -> IntervalMetric:
    """Return a fit to labels with its refits without quarters of the points.

    Whole groups are left out, if the fit had groups. Each refit standardizes its points
    and chooses the settings that the fit chose,
    except for the number of rows of the map and the choices of "cv".
    ``target="all_pairs"`` replaces the fit by the fit to all pairs, at learning rate 1
    and λ = 1 by default.
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
        reachable = within_reach(recipe, codes, groups)
        state = estimator.random_state
        new = fit_labels(rows, codes, reachable, lam, state, groups=groups)[0]
        report(new.fit, "LCA")
        factor = to_metric(new.fit.params).factor
        return Mahalanobis(factor / taught_scale(Z, scaler.scale) / scale)

    if target == "all_pairs":
        rate = 1.0 if isinstance(learning_rate, str) else learning_rate
        lam = INTERVAL_LAM
        if not isinstance(regularization, str):
            lam = check_number("regularization", regularization, 0, open_low=True)
        rate = float(check_number("learning_rate", rate, 0, open_low=True))
        recipe = recipe._replace(pairs="all", learning_rate=rate)
        metric = learn(Z, codes, fitted.groups)
    else:
        metric = Mahalanobis(estimator.components_.copy())
    pairs = "the fit" if target == "fit" else f"all pairs, λ = {lam:g}"
    about = f"{pairs} of {len(Z)} points"
    return jackknifed(metric, learn, Z, codes, fitted.groups, seed=seed, about=about)


def _check_jackknife(
    purpose: str,
    labeled: bool,
    target: str,
    n_draws: int | None,
    pairs: str,
    rates: dict[str, int | float | str],
) -> None:
    if purpose != "intervals" or not labeled:
        raise ValueError(
            "method must be a sampler, got 'jackknife'. The jackknife is only for "
            "intervals after fit(X, y)"
        )
    if n_draws is not None:
        raise ValueError(
            f"n_draws must be None for the jackknife (without draws), got {n_draws}. "
            "Use method='bootstrap'"
        )
    if target == "fit" and (pairs, *rates.values()) != ("auto",) * 3:
        raise ValueError(
            "pairs, learning_rate and regularization must be 'auto' for intervals with "
            f"target='fit', got {pairs!r} and {rates}. Fit with these settings, or use "
            "target='all_pairs'"
        )


def check_no_anchors(estimator: object) -> None:
    """Raise for a fit from anchors, because refits would need all rows again."""
    if hasattr(estimator, "n_anchors_"):
        raise ValueError(
            "draws must be passed after a fit with n_anchors, got None. Use "
            "draws=lca.sample(). The error due to the choice of anchors is in "
            "matrix_error_"
        )


def check_no_weights(fitted: Fitted) -> None:
    """Raise for weighted points, because refits and votes ignore the weights."""
    if fitted.pairs.w is not None:
        raise ValueError(
            "draws must be passed after a fit with sample_weight, got None. Use "
            "draws=lca.sample()"
        )


def _with_folder(method: Any, lam: float | None) -> Any:
    """Return a sampler whose checkpoint, if it has one, is a folder for this λ."""
    folder = getattr(method, "checkpoint", None)
    if folder is None:
        return method
    return replace(method, checkpoint=Path(folder) / f"lam_{lam:g}")


def best_for_votes(
    candidates: list[PosteriorMetric], X: np.ndarray, codes: np.ndarray
) -> PosteriorMetric:
    """Return the draws with the best leave-one-out log score, the first among ties."""
    scores = [
        KNeighborsClassifier(draws).fit(X, codes).loo_scores_.max()
        for draws in candidates
    ]
    return candidates[first_best(np.array(scores))]


def metric_for(
    estimator: Any,
    purpose: Purpose,
    method: LCAMethod | Literal["jackknife"] | None,
    n_draws: int | None,
    seed: int,
    target: str,
    pairs: str,
    learning_rate: int | float | str,
    regularization: int | float | str,
    progress: bool | None,
) -> PosteriorMetric | IntervalMetric:
    """Return a fitted ``LCA`` with its uncertainty, as ``LCA.posterior_metric``."""
    fitted, recipe = drawable(estimator)
    labeled = hasattr(estimator, "classes_")
    codes = getattr(estimator, "_codes", np.empty(0, int))  # None after fit_pairs.
    spread = labeled and purpose == "intervals"
    default = "jackknife" if spread else "laplace"
    sampler: Any = default if method is None else method
    rates = {"learning_rate": learning_rate, "regularization": regularization}
    if bool(sampler == "jackknife"):
        _check_jackknife(purpose, labeled, target, n_draws, pairs, rates)
        return repeated(estimator, target=target, seed=seed, **rates)
    if target != "fit":
        raise ValueError(
            "target='all_pairs' requires purpose='intervals' and the jackknife after "
            f"fit(X, y), got purpose={purpose!r}, method={sampler!r}."
        )
    if fitted.groups is not None:
        raise ValueError(
            "posterior_metric after a fit with groups requires purpose='intervals' and "
            f"the jackknife, got purpose={purpose!r}, method={sampler!r}. For "
            "prediction, pass draws=lca.sample()."
        )
    if pairs == "all" and not labeled:
        raise ValueError("pairs must be 'fitted' after fit_pairs, got 'all'")
    n = len(fitted.pairs.X)
    if pairs == "auto" and spread:
        if n > MOST_POINTS:
            raise ValueError(
                f"pairs must be 'all' or 'fitted' for more than {MOST_POINTS} points, "
                f"got 'auto' with {n} points. 'all' uses {n * (n - 1) // 2} pairs in "
                "every refit. With 'fitted' only ratio_interval is valid"
            )
        pairs = "all"
    lams = lams_for(regularization, purpose, labeled=labeled)
    if pairs == "all":
        aim, lam = recipe, None
        if spread:  # Fit once, directly at the learning rate of the intervals.
            rate = 1.0 if isinstance(learning_rate, str) else learning_rate
            check_number("learning_rate", rate, 0, open_low=True)
            aim, lam = recipe._replace(learning_rate=float(rate)), lams[0]
        fitted = on_all_pairs(fitted, codes, aim, lam)
        report(fitted.fit, type(estimator).__name__)
    scale = taught_scale(estimator.fitted_.pairs.X, estimator.scale_)
    candidates: list[PosteriorMetric] = []
    for lam in lams:
        mode = for_purpose(
            fitted,
            recipe,
            purpose,
            lam=lam,
            labeled=labeled,
            learning_rate=learning_rate,
        )
        drawn = lca_draws.draw(
            mode,
            sampler if len(lams) == 1 else _with_folder(sampler, lam),
            scale=scale,
            seed=seed,
            n_draws=N_DRAWS[purpose] if n_draws is None else n_draws,
            n_chains=1,
            progress=progress,
            warn_khat=purpose != "prediction",
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
    X = estimator.mean_ + estimator.fitted_.pairs.X * estimator.scale_
    return best_for_votes(candidates, X, codes)


def record(estimator: Any) -> xr.Dataset:
    """Return prior, mode and units of a fitted LCA: what ``check_model`` needs."""
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
