"""Estimators looked up by the name of their model, made and fitted."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from probmetric.datasets.loading import Dataset
from probmetric.estimators.dca_gm import DCAGM
from probmetric.estimators.eig_dml import EigDML
from probmetric.estimators.glml import GLML
from probmetric.estimators.lca.estimator import LCA
from probmetric.estimators.lda import LDA, RCA
from probmetric.estimators.mds import ClassicalMDS
from probmetric.estimators.pair_lda import PairLDA
from probmetric.estimators.two_stage.estimator import TwoStageMixture

__all__ = ["ESTIMATORS", "fit_named", "make", "need_sample"]

ESTIMATORS: dict[str, Any] = {
    "dca_gm": DCAGM,
    "eig_dml": EigDML,
    "glml": GLML,
    "lca": LCA,
    "lda": LDA,
    "mds": ClassicalMDS,
    "pair_lda": PairLDA,
    "rca": RCA,
    "two_stage": TwoStageMixture,
}


def make(
    model: str, settings: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Any:
    """Return an unfitted estimator.

    Parameters
    ----------
    model : str
        A key of ``ESTIMATORS``.
    settings : mapping of str, optional
        Arguments of its constructor.
    seed : int, default=0
        Its ``random_state``, where it has one that ``settings`` do not give.

    Raises
    ------
    ValueError
        For an unknown model or argument.
    """
    if model not in ESTIMATORS:
        raise ValueError(f"model: wanted one of {', '.join(ESTIMATORS)}, got {model!r}")
    known = ESTIMATORS[model]().get_params()
    settings = dict(settings or {})
    unknown = sorted(settings.keys() - known.keys())
    if unknown:
        raise ValueError(
            f"settings (--set): wanted arguments of {ESTIMATORS[model].__name__} "
            f"({', '.join(sorted(known))}), got {', '.join(unknown)}"
        )
    if "random_state" in known:
        settings = {"random_state": seed, **settings}
    return ESTIMATORS[model](**settings)


def need_sample(estimator: Any) -> None:
    """Raise for a learner that has no posterior to sample, naming those that have."""
    if not hasattr(estimator, "sample"):
        able = [name for name, kind in ESTIMATORS.items() if hasattr(kind, "sample")]
        raise ValueError(
            f"model: wanted a learner with draws, {', '.join(able)}, got "
            f"{type(estimator).__name__}, which has none"
        )


def fit_named(estimator: Any, data: Dataset) -> Any:
    """Fit an estimator to labelled data: by classes, or by groups where it takes them.

    Where it takes groups and the data name none, a class is a group.

    Raises
    ------
    ValueError
        For groups that the estimator does not take; and as its ``fit``.
    """
    if "groups" in signature(estimator.fit).parameters:
        groups = data.y if data.groups is None else data.groups
        return estimator.fit(data.frame, groups=groups)
    if data.groups is not None:
        raise ValueError(
            f"groups: wanted none for {type(estimator).__name__}, which learns from "
            "classes"
        )
    return estimator.fit(data.frame, data.y)
