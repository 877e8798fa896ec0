"""Shared fixtures. Annotations are checked at run time here, at no cost to users."""

import json
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("probmetric", "beartype.beartype")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def x64():
    """Compute a test in float64, without touching the global flag."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def golden():
    """Read golden vectors by the name of their file, made by independent methods."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text())
