"""A fit of ``LCA`` from anchors: which settings go with it, and its link.

The derivation is ``probmetric.inference.lca.anchors``.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from probmetric.data.scaling import Scaler
from probmetric.estimators.lca.link import FITS
from probmetric.inference.lca.anchors.fit import DEFAULT, Anchored, fit_anchors
from probmetric.inference.lca.anchors.rows import Reader
from probmetric.inference.lca.recipe import WITHIN, Recipe
from probmetric.metric.link import AnyLink

MOST_PAIRS = 50_000
"""Pairs that a link is fitted to; of more, so many at random."""


def check_anchors(estimator: Any, lam: float | str, w: Any) -> None:
    """Raise for settings that anchors do not support, with the reason."""
    e = estimator
    if e.pairs != "nearest":
        raise ValueError(f"pairs must be 'nearest' with n_anchors, got {e.pairs!r}")
    if e.per_anchor:
        raise ValueError("per_anchor must be False with n_anchors, got True")
    if isinstance(e.prior_mean, str) and e.prior_mean in WITHIN:
        raise ValueError(
            "prior_mean must be 'auto', 'identity', 'pca' or a matrix with n_anchors, "
            f"got {e.prior_mean!r}, which needs all rows"
        )
    if lam in ("cv", "evidence"):
        raise ValueError(
            f"regularization must be 'auto' or a number with n_anchors, got {lam!r}. "
            "In cross-validation each point has fewer candidates for its pairs, which "
            "changes distances and P(same). Use 'auto'."
        )
    if e.link_pairs != "fitted":
        raise ValueError(
            f"link_pairs must be 'fitted' with n_anchors, got {e.link_pairs!r}"
        )
    if w is not None:
        raise ValueError(
            "sample_weight must be None with n_anchors, got weights. Remove rows of "
            "weight 0 before fit"
        )


def from_anchors(
    estimator: Any, reader: Reader, recipe: Recipe, lam: float | str, w: Any = None
) -> Anchored:
    """Fit from anchors, with the settings of an estimator."""
    check_anchors(estimator, lam, w)
    state = estimator.random_state
    if not isinstance(state, int | np.integer):
        state = check_random_state(state).randint(2**31)
    number = estimator.n_anchors or min(int(reader.counts.sum()), DEFAULT)
    return fit_anchors(reader, recipe, lam, number, int(state))


def store(estimator: Any, found: Anchored, scaler: Scaler) -> Any:
    """Store a fit from anchors in input units, with its calibrated link."""
    e = estimator
    e._store(found.fitted, scaler)
    e._link = link_of(e, found) or e._link
    vars(e).pop("_codes", None)
    e.n_anchors_ = len(found.anchors.row)
    e.matrix_error_ = found.error / np.outer(e._taught, e._taught)
    return e


def link_of(estimator: Any, found: Anchored) -> AnyLink | None:
    """Return the link of the pairs of each half, or None to use the model's link."""
    if estimator.link == "model":
        return None
    squared, y = found.squared, found.y
    if not 0 < y.sum() < len(y):
        warnings.warn(
            "LCA: the pairs for calibration have only one label, so P(same) is not "
            "calibrated. Add rows, or set link='model'.",
            stacklevel=3,
        )
        return None
    if len(y) > MOST_PAIRS:
        kept = np.random.default_rng(0).choice(len(y), MOST_PAIRS, replace=False)
        squared, y = squared[kept], y[kept]
    kind = "calibrated" if estimator.link == "auto" else estimator.link
    return FITS[kind](squared, y, "nearest")
