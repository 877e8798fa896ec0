"""Nothing can be forgotten: every model is registered, tested and checked."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from probmetric.checks import claims
from probmetric.checks.check import Check, by_algebra
from probmetric.registry import (
    MODELS,
    _spec,
    estimators,
    learner_name,
    method_of,
    model_of,
)

ROOT = Path(__file__).parents[1]
SHARED = {"distributions"}
STORIES = {p.stem for p in (ROOT / "probmetric" / "models").glob("[!_]*.py")} - SHARED


def room_of(spec):
    """The name that a model's files have in every folder."""
    return spec.params.__module__.split(".")[2]


def inference_of(spec):
    """The name of the folder or file of ``inference``."""
    source = spec.metrics_of_draws or spec.params
    return source.__module__.split(".")[2]


@pytest.mark.parametrize("story", sorted(STORIES))
def test_every_generative_story_is_registered(story):
    told = {s.model.__module__.split(".")[-1] for s in MODELS.values() if s.model}
    assert story in told, f"models/{story}.py belongs to no entry of registry.MODELS"


@pytest.mark.parametrize("name", list(MODELS))
def test_every_entry_has_its_name_and_its_own_tests(name):
    assert MODELS[name].name == name
    room, tests = inference_of(MODELS[name]), ROOT / "tests" / "inference"
    found = [*tests.glob(f"test_{room}.py"), *tests.glob(f"{room}/test_*.py")]
    assert found, f"tests/inference/{room}: no tests"


@pytest.mark.parametrize("name", list(MODELS))
def test_every_entry_claims_something_exact(name):
    exact = [c for c in MODELS[name].checks if c.kind == "exact"]
    assert exact, f"{name}: no exact check"
    names = [c.name for c in MODELS[name].checks]
    assert len(names) == len(set(names)), f"{name}: two checks of one name"


def test_the_entry_and_the_check_of_contributing_are_made():
    """What a reader copies is what ``_spec`` and ``Check`` take."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    check, entry = map(dedent, re.findall(r"```python\n(.*?)```", page, re.S))
    spec = eval(entry.strip().rstrip(","), {"_spec": _spec})
    assert spec.class_names() == {"Foo"}
    readers = ("foo", "points", "closed", "end", "by_scipy", "without_prior")
    names = {**vars(claims), "by_algebra": by_algebra, **dict.fromkeys(readers, dict)}
    exec(check, names)
    assert [(c.kind, len(c.controls)) for c in names["CHECKS"]] == 3 * [("exact", 1)]


def test_an_exact_check_without_a_control_cannot_be_made():
    with pytest.raises(ValueError, match="controls must contain at least one"):
        Check("claim", "exact", lambda p: {}, lambda p: {})


def test_every_name_of_a_learner_leads_to_its_model():
    """A variant (RCA) and the name of a class are taken where the model's name is."""
    for name, spec in MODELS.items():
        own = spec.estimators()
        for learner in {name, *own, *(estimators()[n].name for n in own)}:
            assert model_of(learner) == name
            assert model_of(learner_name(learner)) == name
    assert model_of("rca") == model_of("RCA") == "lda"
    assert method_of("RCA") == method_of("lda") == "exact"
    for lookup in (model_of, learner_name):
        with pytest.raises(ValueError, match=r"model must be one of .*, got 'Lda'"):
            lookup("Lda")


@pytest.mark.parametrize(
    ("near", "meant"),
    [("two-stage", "two_stage"), ("LCAClassifier", "lca"), ("PCA", None)],
)
def test_an_unknown_learner_is_an_error_that_suggests_a_near_name(near, meant):
    question = f". Did you mean {meant}?" if meant else f"got {near!r}"
    with pytest.raises(ValueError, match=f"got {near!r}") as caught:
        learner_name(near)
    assert str(caught.value).endswith(question)
