"""Exact claims hold on data as they come: equal points, certain classes, many features.

Sampling has its own tests; here are the claims that need none.
"""

import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from probmetric import MODELS, validate

DATA = {"iris": load_iris, "breast cancer": load_breast_cancer}
# `make demo` judges LCA on Wine, and gates judge each model on a problem of its own.
# These take half a minute and more on any set.
STUDIES = {"dca_gm", "glml", "hierarchical_lca", "point_effects", "two_stage"}
CASES = [
    pytest.param(
        model, "iris", marks=pytest.mark.study if model in STUDIES else pytest.mark.long
    )
    for model in MODELS
    if model != "lca"
]
CASES += [
    pytest.param(model, "breast cancer", marks=pytest.mark.study)
    for model in ("hierarchical_lca", "glml", "two_stage")
]


@pytest.mark.parametrize(("model", "data"), CASES)
def test_exact_claims_hold(model, data):
    spec = MODELS[model]
    checks = [
        c
        for c in spec.checks
        if c.kind == "exact" and c.layer not in ("sampling", "sbc") and not c.slow
    ]
    X, y = DATA[data](return_X_y=True)
    found = validate(checks, spec.from_labels(X, y))
    assert found.exit_code == 0, found.summary().to_string()
