"""Draws of a fitted LCA in input units, and metrics made of them.

The draws are those of ``inference.lca.draws``. With features standardised as
(x - mean)/s, M in input units is diag(1/s) M diag(1/s).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from probmetric.arguments import check_choice
from probmetric.data.containers import Pairs
from probmetric.estimators._labelled import report
from probmetric.estimators.lca.settings import recipe_of
from probmetric.inference.lca import draws as lca_draws
from probmetric.inference.lca.recipe import Fitted, Recipe, solve
from probmetric.inference.sampling.target import Draws
from probmetric.linalg import psd_factor
from probmetric.metric import Link, Mahalanobis
from probmetric.models.lca import LCAParams, LCAPrior

__all__ = ["Problem", "draw", "metrics", "problem_at", "usable"]


class Problem(NamedTuple):
    """A posterior and its mode, in standardised units; ``scale`` leads back."""

    pairs: Pairs
    prior: LCAPrior
    learning_rate: float
    params: LCAParams
    scale: Float[np.ndarray, "d"]


def draw(problem: Problem, method: str, **options: Any) -> Draws:
    """Draw M, b and log σ² of a problem, M in input units.

    Parameters
    ----------
    problem : Problem
    method, **options
        As for ``probmetric.inference.lca.draws.draw``.
    """
    check_choice("method", method, tuple(lca_draws.METHODS))
    drawn = lca_draws.draw(lca_draws.Problem(*problem[:4]), method, **options)
    M = drawn.values["M"] / np.outer(problem.scale, problem.scale)
    return drawn._replace(values={**drawn.values, "M": M})


def metrics(drawn: Draws) -> list[Mahalanobis]:
    """Return one metric a draw, chains joined."""
    M, b = (
        np.asarray(drawn.values[name]).reshape(-1, *drawn.values[name].shape[2:])
        for name in ("M", "b")
    )
    with jax.enable_x64(True):
        # M = WᵀW has rounding-level negative eigenvalues when p < d.
        factors = jax.vmap(lambda m: psd_factor(m, tol=1e-10))(jnp.asarray(M))
    half = np.asarray(0.5)
    return [
        Mahalanobis(factor, Link(np.asarray(own), half))
        for factor, own in zip(np.asarray(factors), b, strict=True)
    ]


def usable(estimator: Any) -> Any:
    """Raise for fits that have no posterior of one metric."""
    check_is_fitted(estimator)
    if estimator.per_anchor:
        raise ValueError("per_anchor: expected False for draws, got True")
    if np.isinf(estimator.regularization_):
        raise ValueError(
            "regularization: expected a finite λ for draws, got the fit of "
            "regularization='cv', which chose no learning (λ = inf)"
        )
    return estimator


def problem_at(estimator: Any, pairs: Pairs, rate: float, lam: float | None) -> Problem:
    """Return the mode at a learning rate and λ, refitted where they are not the fit's.

    The prior stays that of the fit but for λ.
    """
    fitted: Fitted = usable(estimator).fitted_
    prior: LCAPrior = fitted.prior
    if lam is not None:
        prior = prior._replace(lam=np.asarray(lam))
    params = fitted.fit.params
    same = rate == fitted.learning_rate and float(prior.lam) == float(fitted.prior.lam)
    if not same or pairs is not fitted.pairs:
        recipe: Recipe = recipe_of(estimator, pairs.X.shape[1])[0]
        fit = solve(pairs, prior, recipe, rate, params)
        report(fit, type(estimator).__name__)
        params = fit.params
    return Problem(pairs, prior, rate, params, np.asarray(estimator.scale_))
