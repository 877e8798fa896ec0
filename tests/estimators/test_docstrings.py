"""Docstrings of learners describe all settings and all parameters of methods."""

import inspect
import re

import pytest

import probmetric as pm
from probmetric.estimators._docstrings import complete
from tests.learners import ESTIMATORS

METHODS = "fit", "fit_pairs", "sample", "posterior_metric", "same_probability"
CASES = [
    (name, method)
    for name in (*ESTIMATORS, "TripletEmbedding")
    for method in (None, *METHODS)
    if method is None or hasattr(getattr(pm, name), method)
]


def described(docstring):
    """Return the names in the section Parameters."""
    text = inspect.cleandoc(docstring)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.S | re.M)
    entries = re.split(r"\n(?=\S)", section[1]) if section else []
    return {n for e in entries for n in e.split("\n")[0].split(" :")[0].split(", ")}


@pytest.mark.parametrize("name, method", CASES)
def test_every_parameter_is_described(name, method):
    thing = getattr(pm, name)
    thing = thing if method is None else getattr(thing, method)
    parameters = set(inspect.signature(thing).parameters) - {"self"}
    assert parameters <= described(thing.__doc__)
    if method is None:
        assert described(thing.__doc__) <= parameters


def test_a_description_of_the_learner_takes_precedence_over_the_shared_one():
    text = "Fit.\n\nParameters\n----------\ny : special\n\nRaises\n------\nValueError"
    shared = "Shared.\n\nParameters\n----------\nX : points\ny : labels\nz : other"
    assert complete(text, ["X", "y"], shared) == (
        "Fit.\n\nParameters\n----------\nX : points\ny : special\n\n"
        "Raises\n------\nValueError"
    )
    assert (
        complete("Fit.", ["z"], shared) == "Fit.\n\nParameters\n----------\nz : other"
    )
