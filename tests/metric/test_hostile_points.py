"""What is no set of points is refused by name, by every method of every kind.

Asked in a process of its own: the type checker of the tests would refuse it before.
"""

import json
import re
import subprocess
import sys

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


def asked(metric, method, given):
    """Ask a method whose last argument is what is given."""
    single = method in ("dissimilarity", "__call__")
    first = () if method in ONE else (X[0] if single else X,)
    return getattr(metric, method)(*first, given)


def calls():
    """Give every call that has to be refused, by its name."""
    for name in NAMES:
        metric = build(name)
        for method in METHODS:
            for what, given in NOT_POINTS.items():
                if not hasattr(metric, method):
                    continue
                if what == "other rows" and method not in MATCHING:
                    continue
                if what == "another axis" and method in ("transform", *MATCHING):
                    continue  # Any leading axes, as far as they go.
                yield (
                    f"{name}.{method}, {what}",
                    lambda m=metric, f=method, g=given: asked(m, f, g),
                )


def refusals():
    """Return what every call says, and what it is of."""
    said = {}
    for name, call in calls():
        try:
            said[name] = f"no refusal: {call()!r}"
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    said["control"] = f"no refusal: {asked(build('Mahalanobis'), 'pairwise', X)!r}"
    return said


@pytest.mark.long
def test_what_is_no_set_of_points_is_refused_by_name():
    code = (
        "import json; from tests.metric.test_hostile_points import refusals; "
        "print(json.dumps(refusals()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("control").startswith("no refusal")
    assert len(said) > 150
    named = re.compile(r"ValueError: (X|Y|B|P|v)(:| must) .*, got ")
    unnamed = {name: text for name, text in said.items() if not named.match(text)}
    assert not unnamed


def test_lists_are_points():
    metric = pm.Mahalanobis(np.diag([3.0, 4.0]))
    assert metric.pairwise([[0, 0]], [[1, 1]]).tolist() == [[25.0]]
