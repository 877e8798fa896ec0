"""The one place where a model is registered.

Tests, ``validate``, the command line, the table of learners in the documentation and
the notebooks all read ``MODELS``. A missing field is a type error, not a surprise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from probmetric.inference.checks import Check, Problem

__all__ = ["MODELS", "ModelSpec"]


@dataclass(frozen=True)
class ModelSpec:
    """What the rest of the package needs to know of a model.

    Parameters
    ----------
    name : str
        Its name in every folder.
    data_kind : type
        One of the containers of ``probmetric.data``.
    params : type
        The ``Params`` NamedTuple.
    model : callable or None
        The NumPyro model ``model(data, prior, ...)``; None where there is none.
    simulate : callable or None
        ``simulate(key, params, data) -> data`` with fresh labels or observations.
    fit : callable
        ``fit(data, ...) -> Fit``: the default closed form.
    to_metric : callable
        ``to_metric(params) -> Metric``.
    metric_kind : type
        The class of that metric.
    toy : callable
        ``toy(seed) -> Problem``: a small simulated problem with true parameters.
    invariants : mapping of str to callable
        ``name -> f(problem) -> problem``: changes of a problem that must leave the
        learned metric unchanged (permuting points, translating inputs, ...).
    checks : tuple of Check
        What is claimed of it.
    from_labels : callable or None
        ``from_labels(X, y) -> Problem``: the fitted problem of a labelled data set,
        for ``validate --data``.
    summary : str
        One line for the table of learners.
    """

    name: str
    data_kind: type
    params: type
    model: Callable[..., None] | None
    simulate: Callable[..., Any] | None
    fit: Callable[..., Any]
    to_metric: Callable[[Any], Any]
    metric_kind: type
    toy: Callable[[int], Problem]
    invariants: Mapping[str, Callable[[Problem], Problem]]
    checks: tuple[Check, ...]
    from_labels: Callable[..., Problem] | None
    summary: str


MODELS: dict[str, ModelSpec] = {}
