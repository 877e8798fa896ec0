"""What ``GLML`` learns: its options checked, and class densities made into metrics."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.estimators._validation import check_choice, check_number, report
from probmetric.estimators.gaussian_classes import ClassFit
from probmetric.inference.gaussian_classes.local_metric import (
    drawn_metrics,
    expected_bias_metric,
    student_metric,
)
from probmetric.inference.gaussian_classes.mixtures import fit_mixtures, mixture_prior
from probmetric.inference.gaussian_classes.posterior import draw, plug_in
from probmetric.metric import LocalMahalanobis
from probmetric.models.gaussian_classes import GaussianClassesParams, to_metric
from probmetric.precision import to_numpy

__all__ = ["check_options", "learn_metrics", "whole_rows"]

RULES = ("min_norm", "zero_bias", "regularised", "expected_bias", "fisher")


def check_options(estimator: Any) -> None:
    """Refuse options, and combinations of them, that mean nothing."""
    check_choice("rule", estimator.rule, RULES)
    check_choice("votes", estimator.votes, ("soft", "count"))
    check_number("n_neighbors", estimator.n_neighbors, 1, whole=True)
    check_choice("densities", estimator.densities, ("posterior", "mle"))
    check_number("n_components", estimator.n_components, 1, whole=True)
    check_number("n_draws", estimator.n_draws, 0, whole=True)
    check_number("shrinkage", estimator.shrinkage, 0, 1)
    if estimator.gamma != "loo":
        check_number("gamma", estimator.gamma, 0)
    expected, n_draws = estimator.rule == "expected_bias", estimator.n_draws
    mixtures = estimator.n_components > 1
    if (estimator.densities == "mle" or mixtures) and (n_draws or expected):
        which = "n_components > 1" if mixtures else "densities='mle'"
        raise ValueError(
            "n_draws: wanted 0, and a rule other than 'expected_bias', with "
            f"{which}, got {n_draws} and {estimator.rule!r}"
        )
    if mixtures and (estimator.densities, estimator.covariance) != (
        "posterior",
        "full",
    ):
        raise ValueError(
            "n_components: wanted 1 with densities other than 'posterior' or a "
            f"covariance other than 'full', got {estimator.n_components}"
        )
    if expected and n_draws < 2:
        raise ValueError(
            f"n_draws: wanted at least 2 with rule='expected_bias', got {n_draws}"
        )


def whole_rows(
    found: ClassFit,
) -> tuple[Float[np.ndarray, "m d"], Int[np.ndarray, "m"]]:
    """Return the points that can be neighbours, those without NaN, and their codes."""
    whole = ~np.isnan(found.points).any(1)
    members = np.bincount(found.codes[whole], minlength=len(found.classes))
    if (members == 0).any():
        raise ValueError(
            "X: wanted a row without NaN in every class, since only whole rows are "
            f"neighbours, got none in {found.classes[members == 0].tolist()}"
        )
    return found.points[whole], found.codes[whole]


def _point_densities(
    estimator: Any, found: ClassFit, seed: int
) -> GaussianClassesParams | None:
    """Return densities at one value of their parameters, where these are asked for."""
    if estimator.densities == "mle":
        if found.stats is None:
            raise ValueError(
                "densities: wanted 'posterior' with missing entries, got 'mle'"
            )
        params = plug_in(found.stats, shrinkage=float(estimator.shrinkage))
        if not np.isfinite(params.chol).all():
            raise ValueError(
                "shrinkage: wanted above 0 for classes of at most d = "
                f"{found.points.shape[1]} points, got {estimator.shrinkage}"
            )
        return params
    if estimator.n_components == 1:
        return None
    k = int(estimator.n_components)
    prior = mixture_prior(found.prior, k)
    options = {"n_classes": len(found.classes), "n_components": k, "seed": seed}
    mixtures = fit_mixtures(found.data, prior, **options)
    report(mixtures, "mixtures within classes")
    return mixtures.params


def learn_metrics(
    estimator: Any, found: ClassFit, seed: int
) -> tuple[LocalMahalanobis, list[LocalMahalanobis]]:
    """Return the metric of the densities, and one a posterior draw; input units."""
    expected, n_draws = estimator.rule == "expected_bias", int(estimator.n_draws)
    rule: Any = "min_norm" if expected else estimator.rule
    drawn: list[LocalMahalanobis] = []
    with jax.enable_x64(True):
        params = _point_densities(estimator, found, seed)
        if params is None:
            base = student_metric(found.posterior, rule=rule)
        else:
            base = to_metric(params, rule=rule)
        if n_draws:
            draws = draw(jax.random.key(seed), found.posterior, n_draws)
            if expected:
                base = expected_bias_metric(draws, base)
            else:
                drawn = drawn_metrics(draws, base)
    scale, offset = found.scaler.scale, found.scaler.mean
    back: list[LocalMahalanobis] = [
        to_numpy(metric).rescaled(scale, offset) for metric in (base, *drawn)
    ]
    return back[0], back[1:]
