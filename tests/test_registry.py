"""Nothing can be forgotten: every model is registered, tested and checked."""

from pathlib import Path

import pytest

from probmetric.checks.check import Check
from probmetric.registry import MODELS

ROOT = Path(__file__).parents[1]
STORIES = sorted(p.stem for p in (ROOT / "probmetric" / "models").glob("[!_]*.py"))


@pytest.mark.parametrize("story", STORIES)
def test_every_generative_story_is_registered(story):
    # A learner may use several files with its name as prefix.
    modules = {
        spec.model.__module__.split(".")[-1]
        for spec in MODELS.values()
        if spec.model is not None
    }
    assert any(story == m or story.startswith(m + "_") for m in modules), (
        f"models/{story}.py belongs to no entry of registry.MODELS"
    )


@pytest.mark.parametrize("name", list(MODELS))
def test_every_entry_has_its_name_and_its_own_tests(name):
    assert MODELS[name].name == name
    found = list((ROOT / "tests" / "inference").glob(f"test_{name}*.py"))
    assert found, f"tests/inference/test_{name}.py is missing"


@pytest.mark.parametrize("name", list(MODELS))
def test_every_entry_claims_something_exact(name):
    exact = [c for c in MODELS[name].checks if c.kind == "exact"]
    assert exact, f"{name}: no exact check"
    names = [c.name for c in MODELS[name].checks]
    assert len(names) == len(set(names)), f"{name}: two checks of one name"


def test_an_exact_check_without_a_control_cannot_be_made():
    with pytest.raises(ValueError, match="controls: wanted at least one"):
        Check("claim", "exact", lambda p: {}, lambda p: {})
