"""Learn a metric inside ``fit`` of a nearest-neighbor estimator.

Cross-validation of the estimator then refits the metric in every fold. A learner is any
object with ``fit`` and ``get_metric``. For draws it also needs ``posterior_metric``.
"""

import warnings
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from probmetric.arguments import check_choice
from probmetric.data.chunked import Chunked, chunked
from probmetric.data.factors import factors_of, places_of
from probmetric.data.inputs import as_sklearn, check_numeric
from probmetric.data.unlabeled import WARN
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import (
    check_columns,
    check_fitted_columns,
    with_factors,
)
from probmetric.metric.protocol import MetricDraws
from probmetric.registry import fit_labels
from probmetric.typing import ArrayLike


def draws_of(metric: object) -> list[Dissimilarity]:
    """Return the draws of a posterior, or a list with the single metric."""
    if isinstance(metric, MetricDraws):
        return metric.metrics()
    if not isinstance(metric, Dissimilarity):
        raise ValueError(
            "metric must be a Metric, a PosteriorMetric, a learner or None, got "
            f"{type(metric).__name__}. To average votes over draws, pass "
            "posterior_metric('prediction')."
        )
    return [metric]


def metric_for(
    metric: object,
    draws: str | None,
    X: ArrayLike | Chunked,
    labels: ArrayLike | None,
    n_features: int,
    w: ArrayLike | None = None,
) -> tuple[Any, Any]:
    """Return the metric or draws to use, and the fitted learner (or None).

    ``draws`` is the argument of the learner's ``posterior_metric``. If ``draws`` is
    None, ``get_metric`` is used. If ``metric`` is None, the Euclidean distance is used.
    ``w`` are weights of the points.
    """
    if hasattr(metric, "fit") and not isinstance(metric, type):
        name = type(metric).__name__
        if draws is None:
            method = getattr(metric, "get_metric", None)
            if method is None or _needs_arguments(method):
                raise ValueError(
                    f"metric must be a learner with a method get_metric(), got {name}"
                )
            learner = _fitted(metric, X, labels, w)
            return learner.get_metric(), learner
        check_choice("draws", draws, ("prediction", "intervals"))
        if not hasattr(metric, "posterior_metric"):
            raise ValueError(
                f"draws must be None for {name}, which has no posterior, got {draws!r}"
            )
        learner = _fitted(metric, X, labels, w)
        posterior = learner.posterior_metric(draws)
        if not isinstance(posterior, MetricDraws):
            raise ValueError(
                f"draws must be 'prediction' for {name}, got {draws!r}, which has "
                "refits instead of draws. Use draws='prediction'."
            )
        return posterior, learner
    if draws is not None:
        raise ValueError(
            f"draws must be None unless metric is a learner, got {draws!r}"
        )
    check_columns(metric, X=X)
    if metric is not None:
        return metric, None
    unit, columns = np.ones(n_features), getattr(X, "columns", ())
    for block in places_of(factors_of(X), columns):
        unit[block] = np.sqrt(0.5)  # Levels are 1 apart.
    return Mahalanobis(np.diag(unit)), None


def _fitted(
    learner: object,
    X: ArrayLike | Chunked,
    labels: ArrayLike | None,
    w: ArrayLike | None = None,
) -> Any:
    """Fit a clone of a learner, without repeating a warning about labels."""
    new: Any = clone(learner)
    if getattr(new, "unlabeled", None) == WARN:
        new.set_params(unlabeled=None)
    if w is not None and has_fit_parameter(new, "sample_weight"):
        return new.fit(X, labels, sample_weight=w)
    return fit_labels(new, X, labels)


def _needs_arguments(method: Callable[..., object]) -> bool:
    free = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    return any(
        p.default is Parameter.empty and p.kind not in free
        for p in signature(method).parameters.values()
    )


@chunked("X")
def warn_of_training_data(
    Q: Float[np.ndarray, "m d"],
    y: ArrayLike | None,
    X: Float[np.ndarray, "n d"],
    labels: np.ndarray,
    codes: Int[np.ndarray, "n"] | None = None,
) -> None:
    """Warn if rows and labels are the training data in the same order."""
    if np.array_equal(Q, X) and np.array_equal(
        np.asarray(y), labels if codes is None else labels[codes]
    ):
        warnings.warn(
            f"score: the metric was learned from these {len(X)} rows, so the score is "
            "too high. Score other rows, or use cross_val_score.",
            stacklevel=3,
        )


def queries_of(estimator: BaseEstimator, X: ArrayLike) -> Float[np.ndarray, "m d"]:
    """Check and return the queries of a fitted estimator."""
    check_is_fitted(estimator)
    X = with_factors(estimator, X)
    check_numeric(X)
    check_fitted_columns(estimator, X)
    return np.asarray(as_sklearn(estimator, X, reset=False))
