"""What is no set of points is refused by name, by every method of every kind."""

from functools import partial

import numpy as np
import pytest

import probmetric as pm
from tests.metric_kinds import NAMES, build

X = np.random.default_rng(0).normal(size=(4, 3))
NOT_POINTS = {
    "words": X.astype(str),
    "a word": np.where(np.eye(4, 3) > 0, "a", X.astype(object)),
    "ragged": [[1.0, 2.0, 3.0], [1.0]],
    "nothing": None,
    "complex": X + 1j,
    "dates": np.zeros((4, 3), "datetime64[s]"),
    "another axis": X[None, None],
    "other features": X[:, :2],
    "other rows": X[:3],
}
ONE = ("transform", "matrix_at", "log_probability")
MATCHING = ("distance", "pair_score", "log_ratio", "same_probability")
METHODS = (*ONE, *MATCHING, "dissimilarity", "pairwise", "__call__")


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_set_of_points_is_refused_by_name(unchecked, name):
    """Without the checks of annotations, which refuse it first."""
    metric = build(name)
    for method in filter(partial(hasattr, metric), METHODS):
        single = method in ("dissimilarity", "__call__")
        first = () if method in ONE else (X[0] if single else X,)
        for what, given in NOT_POINTS.items():
            if what == "other rows" and method not in MATCHING:
                continue
            if what == "another axis" and method in ("transform", *MATCHING):
                continue  # Any leading axes, as far as they go.
            with pytest.raises(ValueError, match=r"^(X|Y|B|P|v)(:| must) .*, got "):
                getattr(metric, method)(*first, given)


def test_lists_are_points():
    metric = pm.Mahalanobis(np.diag([3.0, 4.0]))
    assert metric.pairwise([[0, 0]], [[1, 1]]).tolist() == [[25.0]]
