"""``python -m probmetric`` and ``python -m probmetric.cli`` are the command."""

import inspect
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from probmetric import __version__
from probmetric.cli.options import (
    DataSpec,
    Evaluate,
    Fit,
    Neighbors,
    Next,
    Sample,
    Validate,
    expand,
)
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


def test_every_reading_option_reaches_the_reader():
    given = {
        "sep": ";",
        "decimal": ",",
        "encoding": "latin-1",
        "unlabeled": "-1",
        "thousands": ".",
    }
    listed = {"drop": ("a",), "features": ("b", "c"), "na": ("?",)}
    options = Fit(
        model="lda",
        out=Path("out"),
        label="kind",
        groups="item",
        **given,
        **{name: list(names) for name, names in listed.items()},
    )
    how = Reading(**given, **listed)
    assert options.spec("d.csv") == DataSpec("d.csv", "kind", "item", how)
    of_the_metric = {"feature_names", "handle_unknown"}
    assert set(given) | set(listed) | of_the_metric == set(Reading._fields)


@pytest.mark.parametrize("kind", [Fit, Sample, Neighbors, Evaluate, Next, Validate])
def test_a_command_has_the_fields_of_its_options_as_parameters(kind):
    """Defaults too; fields of the class come before those of its bases."""
    received = []
    command = expand(kind, received.append)
    parameters = inspect.signature(command).parameters
    assert set(parameters) == {field.name for field in fields(kind)}
    assert list(parameters)[-1] == "quiet"
    for field in fields(kind):
        missing = field.default is MISSING
        default = inspect.Parameter.empty if missing else field.default
        assert parameters[field.name].default == default
    needed = [name for name, p in parameters.items() if p.default is p.empty]
    paths = ("out", "draws")
    required = {name: Path(name) if name in paths else name for name in needed}
    command(**required, label="kind")
    assert received == [kind(**required, label="kind")]
