"""``sample`` and ``posterior_metric``: the uncertainty of a fitted LCA.

The two purposes have different objects, and neither can be used for the other.

*Prediction* averages soft votes over Laplace draws at the learning rate η_G that is
computed from the scores of points. λ is chosen by leave-one-out of the averaged
prediction. With few labels the log loss is lower than with the Euclidean distance or
the fit; isotropic noise of the same size does nearly as well. See Benchmarks:
posterior_few_labels.

*Intervals* come from the jackknife at η = 1 and λ = 1 over all pairs of the labeled
points: refits without each point, or without each of 50 groups of more than 100. Their
coverage for n = 20 to 120, and the low coverage of Laplace draws, is in Benchmarks:
posterior_coverage.

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
from probmetric.data.scaling import Scaler, taught_scale
from probmetric.estimators._labeled import report
from probmetric.estimators._learner import input_units
from probmetric.estimators.lca.settings import recipe_of
from probmetric.inference.lca import draws as lca_draws
from probmetric.inference.lca.curvature import generalized_rate
from probmetric.inference.lca.draws import LCAMethod
from probmetric.inference.lca.jackknife import held_out_links, leave_out
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    as_fitted,
    is_auto,
    on_all_pairs,
    refitted,
)
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.target import Draws
from probmetric.metric import Link, Mahalanobis
from probmetric.models.lca import lca
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.jackknife import aligned, factor_of, groups_of
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import Purpose

LOO_GRID = (1.0, 10.0, 100.0)
"""λ tried for prediction: prior standard deviations from c to c/10."""

INTERVAL_LAM = 1.0
"""λ of intervals, a weak prior."""

MOST_POINTS = 1000
"""Largest number of points of which intervals use all pairs by default."""

NO_ISOTONIC = (
    "link must have parameters, which each refit fits again, got 'isotonic', whose "
    "steps have no standard error. Use link='auto' or 'model'"
)

NO_CALIBRATED = (
    "pairs must be 'all' with link='calibrated', because fitted pairs are chosen by "
    "their distance. Use link='auto' or 'model' for the model's link"
)

N_DRAWS = {"prediction": 32, "intervals": 100}


class Options(TypedDict, total=False):
    """The options of ``LCA.posterior_metric``, for type checkers."""

    draws: xr.DataTree | None
    method: LCAMethod | Literal["jackknife"] | None
    n_draws: int | None
    seed: int
    pairs: Literal["auto", "fitted", "all"]
    learning_rate: float | Literal["auto"]
    regularization: float | Literal["auto"]
    progress: bool | None


def drawable(estimator: Any) -> tuple[Fitted, Recipe]:
    """Return the fit of an estimator and its recipe, if it has a posterior."""
    check_is_fitted(estimator)
    if estimator.per_anchor:
        raise ValueError("per_anchor must be False for draws, got True")
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "regularization must be finite for draws, got the fit of 'cv', which chose "
            "no learning (λ = inf). Set a number"
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
    plain = len(pairs.X) / float(host_weights(pairs).sum())
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


def jackknifed(
    mode: Fitted,
    codes: np.ndarray,
    scale: np.ndarray,
    *,
    all_pairs: bool,
    link: str = "auto",
    seed: int = 0,
    choose: bool = False,
) -> IntervalMetric:
    """Return a mode (in standardized units) and its refits without each group.

    ``scale`` is the divisor of the features. With ``all_pairs`` the link is calibrated
    on held-out pairs. Otherwise it is the model's, because pairs were chosen by their
    distance. With ``choose`` each refit chooses the prior mean again.
    """
    group = groups_of(codes, seed, np.asarray(mode.pairs.X))
    refits = leave_out(mode, group, codes if choose else None)
    W, log_sigma2 = (
        np.concatenate([np.asarray(whole)[None], np.asarray(left)])
        for whole, left in zip(mode.fit.params[:2], refits[:2], strict=True)
    )
    eta = 1 + 2 * np.exp(log_sigma2)  # As ``models.lca.to_metric``.
    factors, b = W / np.sqrt(eta)[:, None, None], 0.5 * W.shape[1] * np.log(eta)
    kind, no_link = "model", ""
    links: list[Any] = [Link(v, np.asarray(0.5)) for v in b]
    if link == "isotonic":
        kind, links, no_link = "none", [None] * len(b), NO_ISOTONIC
    elif link == "calibrated" and not all_pairs:
        kind, links, no_link = "none", [None] * len(b), NO_CALIBRATED
    elif all_pairs and link != "model":
        kind = "calibrated on pairs held out"
        Z = np.asarray(mode.pairs.X)
        factors[1:] = aligned(factors[1:], factors[0])
        links = held_out_links(Z, codes, group, factors[0], factors[1:])
    metrics = [Mahalanobis(L / scale, b) for L, b in zip(factors, links, strict=True)]
    about = (
        f"{'all' if all_pairs else 'fitted'} pairs of {len(codes)} points, "
        f"λ = {float(mode.prior.lam):g}, learning rate {mode.learning_rate:g}, "
        f"link {kind}"
    )
    return IntervalMetric(
        metrics[0],
        metrics[1:],
        factor=factor_of(codes),
        about=about,
        no_link=no_link,
    )


def _check_jackknife(purpose: str, *, labeled: bool, n_draws: int | None) -> None:
    if purpose != "intervals" or not labeled:
        raise ValueError(
            "method must be a sampler for prediction and after fit_pairs, got "
            "'jackknife', which gives intervals after fit"
        )
    if n_draws is not None:
        raise ValueError(
            f"n_draws must be None for the jackknife, which has no draws, got {n_draws}"
            ". Use method='bootstrap'"
        )


def check_no_anchors(estimator: object) -> None:
    """Raise for a fit from anchors, because refits would need all rows again."""
    if hasattr(estimator, "n_anchors_"):
        raise ValueError(
            "draws must come from sample() after a fit with n_anchors, got None. "
            "matrix_error_ is the standard error of M from sampling anchors"
        )


def check_no_weights(fitted: Fitted) -> None:
    """Raise for weighted points, because refits and votes ignore the weights."""
    if fitted.pairs.w is not None:
        raise ValueError(
            "draws must come from sample() after a fit with sample_weight, got None. "
            "Refits and votes of posterior_metric count points alike"
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
    jackknife = bool(sampler == "jackknife")
    if jackknife:
        _check_jackknife(purpose, labeled=labeled, n_draws=n_draws)
    if pairs == "all" and not labeled:
        raise ValueError("pairs must be 'fitted' after fit_pairs, got 'all'")
    n = len(fitted.pairs.X)
    if pairs == "auto" and spread:
        if n > MOST_POINTS:
            raise ValueError(
                f"pairs must be 'all' or 'fitted' for more than {MOST_POINTS} points, "
                f"got 'auto' with {n}. 'all' uses {n * (n - 1) // 2} pairs in every "
                "refit; with 'fitted' only ratio_interval covers"
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
        if jackknife:
            return jackknifed(
                mode,
                codes,
                scale,
                all_pairs=pairs == "all" or recipe.pairs == "all",
                link=estimator.link,
                seed=seed,
                choose=is_auto(estimator.prior_mean),
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
