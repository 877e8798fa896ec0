"""``sample`` and ``posterior_metric``: the uncertainty of a fitted LCA.

Two purposes, two objects.

*Prediction* averages soft votes over Laplace draws at the learning rate η_G that the
scores of points ask for, with λ chosen by leave-one-out of the averaged prediction.
Measured with n = 20, 40, 80 points of eight data sets (3 seeds, sets as units): test
log loss .087 ± .025 below the Euclidean and .049 ± .020 below the plug-in's. Isotropic
jitter of the same size does nearly as well (.009 ± .012 worse), the one matrix E[M]
about half (.040 ± .027 worse). See benchmarks/results/posterior_few_labels.md.

*Intervals* are those of the jackknife at η = 1 and λ = 1 over all pairs of the labelled
points: refits without each point, or without each of 50 groups of more than 100.
Nominal 90 % covered (five principal scores of four sets and two simulated populations,
30 training sets of each; the truth is the same recipe, link included, on 1000
points; in brackets the least of the six, and the percentile of bootstrap draws):

    n     distance          ratio             P(same)
    20    .95 (.92, .71)    .94 (.87, .70)    .94 (.91, .70)
    40    .94 (.91, .77)    .93 (.90, .84)    .95 (.91, .81)
    80    .92 (.90, .79)    .92 (.88, .85)    .94 (.91, .85)
    120   .91 (.84, .81)    .89 (.84, .84)    .92 (.88, .85)

with standard errors of about .01 (.02 for the bootstrap, 6 training sets); no tail
exceeds .06. The least of distances is mostly twonorm5, classes that hardly overlap.
Laplace draws covered .30-.61 of distances: benchmarks/results/posterior_coverage.md.
Neither object serves for the other.

After ``fit_pairs``, on pairs that really are independent, intervals are those of the
posterior itself: 88-90 % by NUTS in 2000 simulated fits (78 % at η = 2), 91-92 % by
Laplace in 100. See benchmarks/results/pairs_coverage.md.
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
from probmetric.estimators._labelled import report
from probmetric.estimators.lca.settings import recipe_of
from probmetric.inference.lca.curvature import generalised_rate
from probmetric.inference.lca.draws import (
    LCAMethod,
    draw,
    draws_of_prior,
    metrics,
    new_labels,
)
from probmetric.inference.lca.draws import (
    log_likelihood as pair_likelihood,
)
from probmetric.inference.lca.jackknife import held_out_links, leave_out
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    as_fitted,
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
"""λ tried for prediction: prior sd from c to c/10 an entry."""

INTERVAL_LAM = 1.0
"""λ of intervals: little prior, which the bootstrap leaves as it is in every draw."""

MOST_POINTS = 1000
"""Points of which intervals take all pairs by default."""

NO_ISOTONIC = (
    "expected a link with parameters, which each refit fits again, got "
    "link='isotonic', whose steps have no standard error; use link='auto' or 'model'"
)

NO_CALIBRATED = (
    "expected pairs='all', of which each refit has held-out ones, got "
    "link='calibrated' with the fitted pairs, which are chosen by their distance; use "
    "link='auto' or 'model' for the model's link of these"
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
    """Return the fit of an estimator and its recipe.

    Raises
    ------
    ValueError
        For fits that have no posterior of one metric.
    """
    check_is_fitted(estimator)
    if estimator.per_anchor:
        raise ValueError("per_anchor: expected False for draws, got True")
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "regularization: expected a finite λ for draws, got the fit of "
            "regularization='cv', which chose no learning (λ = inf)"
        )
    fitted: Fitted = estimator.fitted_
    return fitted, as_fitted(recipe_of(estimator, estimator.n_features_in_)[0], fitted)


def refit(fitted: Fitted, recipe: Recipe, **at: Any) -> Fitted:
    """Return ``refitted``; warn where the new mode was not reached."""
    found = refitted(fitted, recipe, **at)
    if found is not fitted:
        report(found.fit, "LCA")
    return found


def for_purpose(
    fitted: Fitted,
    recipe: Recipe,
    purpose: str,
    *,
    labelled: bool,
    lam: float | None = None,
    learning_rate: int | float | str = "auto",
) -> Fitted:
    """Return the mode of the posterior that a purpose asks for, on the fit's pairs.

    Parameters as ``LCA.posterior_metric``; ``lam`` None is that of the fit.
    """
    if not isinstance(learning_rate, str):
        rate = float(check_number("learning_rate", learning_rate, 0, open_low=True))
        return refit(fitted, recipe, learning_rate=rate, lam=lam)
    check_choice("learning_rate", learning_rate, ("auto",))
    if not labelled:
        return refit(fitted, recipe, lam=lam)
    if purpose == "intervals":
        return refit(fitted, recipe, learning_rate=1.0, lam=lam)
    pairs = fitted.pairs
    plain = len(pairs.X) / float(host_weights(pairs).sum())
    mode = refit(fitted, recipe, learning_rate=plain, lam=lam)
    rate = float(generalised_rate(mode.fit.params, pairs, mode.prior, plain))
    return refit(fitted, recipe, learning_rate=rate, lam=lam)


def lams_for(given: Any, purpose: str, *, labelled: bool) -> tuple[float | None, ...]:
    """Return the λ to try, None being that of the fit."""
    if not isinstance(given, str):
        return (float(check_number("regularization", given, 0, open_low=True)),)
    check_choice("regularization", given, ("auto",))
    if not labelled:
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
) -> IntervalMetric:
    """Return a mode and its refits without each group of points.

    Parameters
    ----------
    mode
        In standardised units; ``scale`` (d,) is what features were divided by.
    codes
        Class of each point.
    all_pairs
        Whether the mode is of all pairs. Its link is then calibrated on pairs held
        out; that of others, which are chosen by their distance, is the model's.
    link
        That of the estimator: "model" keeps the model's, "isotonic" gives none, nor
        does "calibrated" where there are no pairs held out.
    seed
        Of the groups, of more than 100 points.
    """
    group = groups_of(codes, seed, np.asarray(mode.pairs.X))
    refits = leave_out(mode, group)
    W, log_sigma2 = (
        np.concatenate([np.asarray(one)[None], np.asarray(left)])
        for one, left in zip(mode.fit.params[:2], refits[:2], strict=True)
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
    metrics = [
        Mahalanobis(L / scale, own) for L, own in zip(factors, links, strict=True)
    ]
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


def chosen(method: Any, *, spread: bool) -> Any:
    """Return the method given, or the default; spread: intervals after ``fit``."""
    if method is not None:
        return method
    return "jackknife" if spread else "laplace"


def refuse_no_draws(purpose: str, *, labelled: bool, n_draws: int | None) -> None:
    """Raise for what the jackknife cannot answer."""
    if purpose != "intervals" or not labelled:
        raise ValueError(
            "method: expected a sampler for prediction and after fit_pairs, got "
            "'jackknife', which gives intervals after fit"
        )
    if n_draws is not None:
        raise ValueError(
            f"n_draws: expected None for the jackknife, which has no draws, got "
            f"{n_draws}; method='bootstrap' has"
        )


def refuse_anchors(estimator: Any) -> None:
    """Raise for a fit from anchors, whose refits would need all rows again."""
    if hasattr(estimator, "n_anchors_"):
        raise ValueError(
            "draws: expected those of sample() after a fit with n_anchors, got None; "
            "matrix_error_ is the standard error of M from the drawing of anchors"
        )


def refuse_weights(fitted: Fitted) -> None:
    """Raise for points with weights, which refits and votes would count alike."""
    if fitted.pairs.w is not None:
        raise ValueError(
            "draws: expected those of sample() after a fit with sample_weight, got "
            "None; posterior_metric's own refits and votes count points alike"
        )


def in_folder_of(method: Any, lam: Any) -> Any:
    """Return a sampler whose checkpoint, if it has one, is a folder for this λ."""
    folder = getattr(method, "checkpoint", None)
    if folder is None:
        return method
    return replace(method, checkpoint=Path(folder) / f"lam_{lam:g}")


def refuse_many(n: int) -> None:
    """Raise unless all pairs of many points were asked for: work grows as n²."""
    if n > MOST_POINTS:
        raise ValueError(
            f"pairs: expected 'all' or 'fitted' for more than {MOST_POINTS} points, "
            f"got 'auto' with {n}: 'all' takes {n * (n - 1) // 2} pairs in every "
            "refit; of 'fitted' only ratio_interval covers"
        )


def best_for_votes(
    candidates: list[PosteriorMetric], X: np.ndarray, codes: np.ndarray
) -> PosteriorMetric:
    """Return the draws of best leave-one-out log score, the first of equals."""
    scores = [
        KNeighborsClassifier(draws).fit(X, codes).loo_scores_.max()
        for draws in candidates
    ]
    return candidates[first_best(np.array(scores))]


def metric_for(
    estimator: Any,
    purpose: Purpose,
    *,
    method: Any,
    n_draws: int | None,
    seed: int,
    pairs: str,
    learning_rate: int | float | str,
    regularization: int | float | str,
    progress: bool | None,
) -> PosteriorMetric | IntervalMetric:
    """Return a fitted ``LCA`` with its uncertainty; arguments as its method's."""
    fitted, recipe = drawable(estimator)
    labelled = hasattr(estimator, "classes_")
    codes = getattr(estimator, "_codes", np.empty(0, int))  # None of pairs given.
    own: dict[str, Any] = {"pairs_independent": not labelled}
    spread = labelled and purpose == "intervals"
    sampler = chosen(method, spread=spread)
    alone = bool(sampler == "jackknife")
    if alone:
        refuse_no_draws(purpose, labelled=labelled, n_draws=n_draws)
    if pairs == "all" and not labelled:
        raise ValueError("pairs: expected 'fitted' after fit_pairs, got 'all'")
    if pairs == "auto" and spread:
        refuse_many(len(fitted.pairs.X))
        pairs = "all"
    lams = lams_for(regularization, purpose, labelled=labelled)
    if pairs == "all":
        aim, lam = recipe, None
        if spread:  # One fit where the first of two would be thrown away.
            rate = 1.0 if isinstance(learning_rate, str) else learning_rate
            check_number("learning_rate", rate, 0, open_low=True)
            aim, lam = recipe._replace(learning_rate=float(rate)), lams[0]
        fitted = on_all_pairs(fitted, codes, aim, lam)
        report(fitted.fit, type(estimator).__name__)
    candidates: list[PosteriorMetric] = []
    for lam in lams:
        mode = for_purpose(
            fitted,
            recipe,
            purpose,
            lam=lam,
            labelled=labelled,
            learning_rate=learning_rate,
        )
        if alone:
            return jackknifed(
                mode,
                codes,
                estimator._taught,
                all_pairs=pairs == "all" or recipe.pairs == "all",
                link=estimator.link,
                seed=seed,
            )
        drawn = draw(
            mode,
            sampler if len(lams) == 1 else in_folder_of(sampler, lam),
            scale=estimator._taught,
            seed=seed,
            n_draws=N_DRAWS[purpose] if n_draws is None else n_draws,
            n_chains=1,
            progress=progress,
            warn_khat=purpose != "prediction",
        )
        own["source"] = drawn.attributes["method"]
        candidates.append(PosteriorMetric(metrics(drawn), purpose, **own))
    if len(candidates) == 1:
        return candidates[0]
    X = estimator.mean_ + estimator.fitted_.pairs.X * estimator.scale_
    return best_for_votes(candidates, X, codes)


def to_tree(
    drawn: Draws,
    fitted: Fitted,
    scaler: Scaler,
    names: Any,
    *,
    pointwise: bool,
    predictive: bool = False,
    prior_draws: int | None = None,
    seed: int = 0,
) -> xr.DataTree:
    """Return draws as a DataTree, with the pairs that they are of in input units."""
    rate, pairs = fitted.learning_rate, fitted.pairs
    shown = pairs._replace(X=scaler.mean + pairs.X * scaler.scale)
    M, b = (drawn.values[name] for name in ("M", "b"))
    groups: dict[str, dict[str, np.ndarray]] = {}
    if predictive:
        new = new_labels(M, b, shown, seed=seed)
        groups["posterior_predictive"] = {"y": new}
    if prior_draws is not None:
        n = check_number("prior_draws", prior_draws, 1, whole=True)
        scale = taught_scale(pairs.X, scaler.scale)
        found = draws_of_prior(fitted, n, scale=scale, seed=seed)
        groups["prior_predictive"] = {"y": found.pop("y")}
        groups["prior"] = found
    return to_datatree(
        drawn,
        feature_names=None if names is None else list(names),
        data=shown,
        observed={"y": np.asarray(pairs.y)},
        log_likelihood=(
            {"y": pair_likelihood(M, b, shown._replace(w=None))} if pointwise else None
        ),
        groups=groups,
        attributes=provenance(
            lca, shown, {"prior": fitted.prior, "learning_rate": rate}
        ),
    )
