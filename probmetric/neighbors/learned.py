"""A metric that is learned inside ``fit``, from the points of that fit alone.

Who judges the neighbours by cross-validation then refits the metric in every fold. A
learner is anything with ``fit``, ``get_metric`` and, for draws, ``posterior_metric``.
"""

import warnings
from inspect import Parameter, signature
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from probmetric.arguments import check_choice
from probmetric.data.unlabeled import WARN
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws
from probmetric.registry import fit_labels
from probmetric.typing import ArrayLike


def draws_of(metric: Any) -> list[Dissimilarity]:
    """Return the draws of a posterior, or the one metric."""
    if isinstance(metric, MetricDraws):
        return metric.metrics()
    if not isinstance(metric, Dissimilarity):
        raise ValueError(
            "metric: expected a Metric, a PosteriorMetric, a learner or None, got "
            f"{type(metric).__name__}"
        )
    return [metric]


def metric_for(
    metric: Any, draws: str | None, X: Any, labels: Any, n_features: int
) -> tuple[Any, Any]:
    """Return the metric or draws to use, and the learner that was fitted for it.

    Parameters
    ----------
    metric : Metric, MetricDraws, learner or None
        A learner is cloned and fitted; None is the Euclidean distance.
    draws : {None, "prediction", "intervals"}
        What the learner's ``posterior_metric`` is asked for; None is its one metric.
    X, labels
        To learn from.
    n_features : int

    Returns
    -------
    metric, learner
        The second is None where nothing was learned.

    Raises
    ------
    ValueError
        For draws of what has none.
    """
    if hasattr(metric, "fit") and not isinstance(metric, type):
        name = type(metric).__name__
        if draws is None:
            asked = getattr(metric, "get_metric", None)
            if asked is None or _needs_more(asked):
                raise ValueError(
                    f"metric: expected a learner of one metric, got {name}"
                )
            learner = _fitted(metric, X, labels)
            return learner.get_metric(), learner
        check_choice("draws", draws, ("prediction", "intervals"))
        if not hasattr(metric, "posterior_metric"):
            raise ValueError(f"draws: expected None for {name}, which has none")
        learner = _fitted(metric, X, labels)
        return learner.posterior_metric(draws), learner
    if draws is not None:
        raise ValueError(
            f"draws: expected None without a learner as metric, got {draws!r}"
        )
    check_columns(metric, X=X)
    return (Mahalanobis(np.eye(n_features)) if metric is None else metric), None


def _fitted(learner: Any, X: Any, labels: Any) -> Any:
    """Fit a clone, without a second warning about labels that the caller checked."""
    fresh: Any = clone(learner)
    if getattr(fresh, "unlabeled", None) == WARN:
        fresh.set_params(unlabeled=None)
    return fit_labels(fresh, X, labels)


def _needs_more(method: Any) -> bool:
    """Say whether a method needs arguments, as that of a metric for each class."""
    given = signature(method).parameters.values()
    free = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    return any(p.default is Parameter.empty and p.kind not in free for p in given)


def warn_of_training_data(
    Q: Float[np.ndarray, "m d"],
    answers: ArrayLike,
    X: Float[np.ndarray, "n d"],
    labels: np.ndarray,
) -> None:
    """Warn if rows and labels to score are those of ``fit``, in their order.

    Equal rows are no sign of it: different people give the same answers.
    """
    if np.array_equal(Q, X) and np.array_equal(np.asarray(answers), labels):
        warnings.warn(
            f"score: X and y are the {len(X)} rows that the metric was learned from: "
            "the score is too good. Score other rows, or use cross_val_score",
            stacklevel=3,
        )
