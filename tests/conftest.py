"""Shared fixtures. Annotations are checked at run time here, at no cost to users.

Slow tests and gates are spared them by the Makefile: they call what faster tests have
checked, but for parts of ``checks``.
"""

import gc
import json
import os
from pathlib import Path

import jax
import pytest
from jaxtyping import config, install_import_hook

from tests.annotations import checked

if os.environ.get("JAXTYPING_DISABLE") != "1":
    install_import_hook("probmetric", f"{checked.__module__}.{checked.__name__}")
from probmetric import compilation

# Tests compile more small programs than users, which take fewer memory maps.
compilation.MOST_PROGRAMS = 250

# Commands of the tests leave the cache of who runs them alone, and that of JAX, which
# the Makefile sets up, as it is.
os.environ["PROBMETRIC_CACHE"] = "off"

# Collecting thousands of tests makes objects that all stay: there is nothing to free.
gc.disable()

GOLDEN = Path(__file__).parent / "golden"


def pytest_collection_finish(session):
    """Look at modules and tests no more, of which each full collection took .7 s.

    Python's default of 700 new objects between two looks is for small programs: one
    call of a traced function makes thousands.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps():
    """Clear JAX's caches before the process has too many memory maps.

    Public functions do so too, but tests also call others.
    """
    yield
    compilation.bound_programs()


@pytest.fixture
def x64():
    """Compute a test in float64, without touching the global flag."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """Leave annotations alone, as where the library is used."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def golden():
    """Read golden vectors by the name of their file, made by independent methods."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text())
