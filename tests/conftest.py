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

# In users' processes 5,000 and 20. Programs that are let go of are most often asked for
# again by another test; that they are let go of, test_compilation asks.
compilation.MOST_MAPS, compilation.LOOK_EVERY = 40_000, 200

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
    """Let go of compiled programs before there are too many.

    XLA maps memory for each, Linux allows a process 65530 maps, and beyond them the
    compiler dies of a segmentation fault in whatever test comes next. Public functions
    do so too, but not all that tests call.
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
