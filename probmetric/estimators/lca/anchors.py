"""Fit ``LCA`` from anchors, and check the settings that anchors support.

The derivation is ``probmetric.inference.lca.anchors``.
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from probmetric.data.scaling import Scaler
from probmetric.inference.lca.anchors.fit import DEFAULT, Anchored, fit_anchors
from probmetric.inference.lca.anchors.rows import Reader
from probmetric.inference.lca.recipe import WITHIN, Recipe


def check_anchors(estimator: Any, lam: float | str, w: Any) -> None:
    """Raise ValueError for settings that anchors do not support."""
    e = estimator
    if e.pairs != "nearest":
        raise ValueError(
            "pairs must be 'nearest' if n_anchors is set or the rows are on disk, got "
            f"{e.pairs!r}"
        )
    if isinstance(e.prior_mean, str) and e.prior_mean in WITHIN:
        raise ValueError(
            "prior_mean must be 'auto', 'identity', 'pca' or a matrix if n_anchors is "
            f"set or the rows are on disk, got {e.prior_mean!r}, which requires all "
            "rows in memory. Use 'auto'."
        )
    if lam in ("cv", "evidence"):
        raise ValueError(
            "regularization must be 'auto' or a number if n_anchors is set or the rows "
            f"are on disk, got {lam!r}. Use 'auto'."
        )
    if w is not None:
        raise ValueError(
            "sample_weight must be None if n_anchors is set or the rows are on disk, "
            "got weights. Remove rows of weight 0 before fit"
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
    """Store a fit from anchors in input units."""
    e = estimator
    e._store(found.fitted, scaler)
    vars(e).pop("_codes", None)
    e.n_anchors_ = len(found.anchors.row)
    e.matrix_error_ = found.error / np.outer(e._taught, e._taught)
    return e
