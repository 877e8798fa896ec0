"""What importing the package does, and does not do."""

import json
import subprocess
import sys

import pytest

import probmetric as pm

HEAVY = {"arviz", "jax", "matplotlib", "numpy", "numpyro", "pandas", "sklearn", "typer"}


def run_python(code: str) -> dict:
    """Run code in a fresh interpreter; its last line of output is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_package_loads_nothing_heavy():
    loaded = run_python(
        "import json, sys, probmetric; dir(probmetric); print(json.dumps("
        "sorted({name.split('.')[0] for name in sys.modules})))"
    )
    assert not HEAVY & set(loaded)


@pytest.mark.long
def test_data_and_a_learner_load_nothing_that_only_results_need():
    loaded = run_python(
        "import json, sys, probmetric as pm\n"
        "pm.datasets.load('wine'), pm.LCA\n"
        "print(json.dumps(list(sys.modules)))"
    )
    late = {"arviz", "arviz_stats", "matplotlib", "sklearn.neighbors", "typer"}
    assert not late & set(loaded)


@pytest.mark.long
def test_importing_every_module_changes_no_configuration_of_jax():
    seen = run_python(
        "import json, os, jax, numpy, numpyro\n"
        "def state():\n"
        "    values = {k: repr(v) for k, v in jax.config.values.items()}\n"
        "    ours = {k: v for k, v in os.environ.items() if k[:3] in ('JAX', 'XLA')}\n"
        "    return [values, repr(numpy.geterr()), ours]\n"
        "before = state()\n"
        "import probmetric\n"
        "[getattr(probmetric, name) for name in probmetric.__all__]\n"
        "import probmetric.cli.app\n"
        "print(json.dumps([before, state()]))"
    )
    assert seen[0] == seen[1]


@pytest.mark.long
def test_importing_every_module_starts_no_device():
    live = run_python(
        "import json, probmetric, jax\n"
        "[getattr(probmetric, name) for name in probmetric.__all__]\n"
        "from jax._src import xla_bridge\n"
        "print(json.dumps(xla_bridge.backends_are_initialized()))"
    )
    assert live is False


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(pm, "no_such_name")
