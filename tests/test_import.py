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


@pytest.fixture(scope="module")
def imported():
    """Return what one process told of itself while it imported all there is.

    The modules loaded once data and a learner were, JAX's configuration before and
    after, and whether a device was started.
    """
    return run_python(
        "import json, os, sys, jax, numpy, numpyro\n"
        "def state():\n"
        "    values = {k: repr(v) for k, v in jax.config.values.items()}\n"
        "    ours = {k: v for k, v in os.environ.items() if k[:3] in ('JAX', 'XLA')}\n"
        "    return [values, repr(numpy.geterr()), ours]\n"
        "before = state()\n"
        "import probmetric as pm\n"
        "pm.datasets.load('wine'), pm.LCA\n"
        "modules = list(sys.modules)\n"
        "[getattr(pm, name) for name in pm.__all__]\n"
        "import probmetric.cli.app\n"
        "from jax._src import xla_bridge\n"
        "live = xla_bridge.backends_are_initialized()\n"
        "print(json.dumps({'modules': modules, 'states': [before, state()],"
        " 'live': live}))"
    )


@pytest.mark.long
def test_data_and_a_learner_load_nothing_that_only_results_need(imported):
    late = {"arviz", "arviz_stats", "matplotlib", "sklearn.neighbors", "typer"}
    assert "probmetric.estimators.lca.estimator" in imported["modules"]
    assert not late & set(imported["modules"])


@pytest.mark.long
def test_importing_every_module_changes_no_configuration_of_jax(imported):
    before, after = imported["states"]
    assert before == after


@pytest.mark.long
def test_importing_every_module_starts_no_device(imported):
    assert imported["live"] is False


@pytest.mark.long
def test_numpyro_is_whole_where_arviz_was_imported_before():
    whole = run_python(
        "import json, sys, arviz\n"
        "left = type(sys.modules.get('numpyro')).__name__\n"
        "import probmetric.inference.sampling.nuts\n"
        "parts = [m for m in sys.modules if m.startswith('numpyro.')]\n"
        "split = [m.rpartition('.') for m in parts]\n"
        "lost = [m for m, (a, _, b) in zip(parts, split)\n"
        "        if getattr(sys.modules[a], b, None) is not sys.modules[m]]\n"
        "print(json.dumps({'left': left, 'parts': len(parts), 'lost': lost}))"
    )
    if whole["left"] != "_LazyModule":
        pytest.skip("this ArviZ leaves no NumPyro that loads once it is used")
    assert whole["parts"] > 20
    assert not whole["lost"]


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(pm, "no_such_name")
