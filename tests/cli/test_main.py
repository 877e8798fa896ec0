"""``python -m probmetric`` and ``python -m probmetric.cli`` are the command."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from probmetric import __version__
from probmetric.cli import app
from probmetric.names import Reading

MODULES = ["probmetric", "probmetric.cli", "probmetric.cli.app"]


def run_module(module, *words):
    """Run a module as users do, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)], capture_output=True, text=True
    )


@pytest.mark.parametrize("module", MODULES)
def test_a_module_shows_the_help_of_the_command(module):
    done = run_module(module, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: probmetric [OPTIONS] COMMAND")
    assert run_module(module, "--version").stdout == f"probmetric {__version__}\n"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_validates_the_model_that_is_named(module):
    done = run_module(module, "validate", "no_such")
    assert done.returncode == 2
    assert "got 'no_such'" in done.stderr


@pytest.mark.parametrize(
    "name",
    ["validate", "fit", "sample", "next", "neighbors", "explore", "evaluate", "report"],
)
def test_the_options_of_a_command_are_the_keywords_of_its_file(name):
    # `report --force`, of 0.1, is taken and not needed.
    dropped = {"every", "quiet"} | ({"force"} if name == "report" else set())
    if name == "fit":  # How many processes run it, and how often: the launcher's.
        dropped |= {"processes", "restarts"}
    if name in ("evaluate", "neighbors"):
        dropped |= {"processes"}
    asked = set(inspect.signature(getattr(app, name)).parameters) - dropped
    file, work = ("report", name) if name == "explore" else (name, "run")
    run = getattr(import_module(f"probmetric.cli.{file}"), work)
    taken = set(inspect.signature(run).parameters)
    if "how" in taken:  # How rows are read: one object of eight options.
        taken = taken - {"how"} | set(Reading._fields)
        if name not in ("fit", "neighbors", "evaluate"):  # Read no rows in parts.
            taken -= {"dtype"}
        if name not in ("fit", "sample", "evaluate"):  # Read no labels.
            taken -= {"unlabeled"}
    assert taken == asked
