"""What a nearest-neighbour classifier accepts: each refusal names the argument."""

from typing import Any

import numpy as np

from probmetric.metric import Metric
from probmetric.neighbors.tuning import PRIOR_WEIGHTS

__all__ = ["check_arguments", "common_type", "draws_of", "grid"]


def check_arguments(classifier: Any, n: int) -> None:
    """Say which argument is wrong, what was wanted and what came."""
    if classifier.votes not in PRIOR_WEIGHTS:
        raise ValueError(f"votes: wanted 'soft' or 'count', got {classifier.votes!r}")
    k = classifier.n_neighbors
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"n_neighbors: wanted a whole number from 1, got {k!r}")
    if classifier.votes == "count" and k > n:
        raise ValueError(
            f"n_neighbors: wanted at most the number of samples, {n} samples "
            f"(n_samples = {n}), got {k}"
        )
    _number("bandwidth", classifier.bandwidth, 0.0, np.inf, open_left=True)
    most = 1.0 if classifier.votes == "soft" else np.inf
    _number("prior_weight", classifier.prior_weight, 0.0, most)
    if not 0 <= classifier.reject_below <= 1:
        raise ValueError(
            f"reject_below: wanted a probability, got {classifier.reject_below!r}"
        )
    if classifier.reject_below > 0:
        common_type(classifier.classes_, classifier.reject_label)


def draws_of(metric: Any) -> list[Metric]:
    """Return the draws of a posterior, or the one metric."""
    if hasattr(metric, "metrics"):
        return metric.metrics()
    if not isinstance(metric, Metric):
        raise ValueError(
            "metric: wanted a Metric, a PosteriorMetric or None, got "
            f"{type(metric).__name__}"
        )
    return [metric]


def grid(value: str | float, default: tuple[float, ...]) -> tuple[float, ...]:
    """Return the values to try: the default under "loo", else the one given."""
    return default if isinstance(value, str) else (float(value),)


def _number(
    name: str, value: Any, least: float, most: float, *, open_left: bool = False
) -> None:
    """Refuse what is neither "loo" nor a number in [least, most)."""
    if isinstance(value, str):
        fits = value == "loo"
    else:
        fits = (least < value if open_left else least <= value) and value < most
    if not fits:
        left = "(" if open_left else "["
        raise ValueError(
            f"{name}: wanted 'loo' or a number in {left}{least}, {most}), got {value!r}"
        )


def common_type(classes: np.ndarray, label: Any) -> np.dtype:
    """Return the type of an array of classes and the label of abstention."""
    given = np.asarray(label)
    kinds = {
        "number" if a.dtype.kind in "iufb" else a.dtype.kind for a in (classes, given)
    }
    if label is None or given.ndim or len(kinds) > 1 or label in classes:
        raise ValueError(
            f"reject_label: wanted a label beside the classes {classes.tolist()} and "
            f"of their kind, got {label!r}"
        )
    return np.result_type(classes, given)
