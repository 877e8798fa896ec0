"""Check whether a learner with its settings can read data on disk in chunks."""

from typing import Any

from probmetric.estimators._settings import check_settings
from probmetric.large import anchors, gaussian_classes, lda, two_stage
from probmetric.large.source import Source
from probmetric.registry import takes_groups

CHECKS = {
    "GLML.fit": gaussian_classes.check_glml,
    "GaussianClasses.fit": gaussian_classes.check,
    "LCA.fit": anchors.check,
    "PairLDA.fit": lda.check_pair_lda,
    "TwoStageMixture.fit": two_stage.check,
    "_TiedClasses.fit": lda.check,
}
"""Checks of settings by the method that ``large.source.IMPLEMENTATIONS`` replaces."""


def refusal(estimator: Any, source: Source) -> str | None:
    """Return why an estimator does not fit data on disk, or None if it does."""
    name = type(estimator).__name__
    if not getattr(estimator, "_streams", False):
        return (
            f"model must support data read in chunks, got {name}, which needs all rows "
            "in memory"
        )
    try:
        check_settings(estimator)
        CHECKS[type(estimator).fit.__qualname__](estimator, source)
    except ValueError as error:
        return str(error)
    return None


def fit_rows(estimator: Any, source: Source) -> Any:
    """Fit an estimator to a dataset on disk, whose labels are classes or groups."""
    if takes_groups(estimator):
        return estimator.fit(source, groups="label" if source.labeled else None)
    return estimator.fit(source, y=None)
