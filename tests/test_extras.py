"""Without an extra the rest works, and what needs it names it."""

import subprocess
import sys

import pytest

# As if they were not installed: find_spec and import both find nothing.
WITHOUT = (
    "import sys\nfor name in ('jinja2', 'matplotlib', 'plotly', 'typer'):\n"
    "    sys.modules[name] = None\n"
)


def run_without(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True
    )


def test_the_command_without_its_extra_is_one_sentence():
    done = run_without("from probmetric.__main__ import main; main()")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "probmetric requires typer, which is missing: install the extra 'cli' "
        "(in a checkout: pip install '.[cli]')\n"
    )


@pytest.mark.long
def test_learners_and_every_public_name_need_no_extra():
    done = run_without(
        "import numpy as np, probmetric as pm\n"
        "for name in pm.__all__:\n"
        "    getattr(pm, name)\n"
        "X, y = pm.datasets.load('iris')\n"
        "lda = pm.LDA(prior_strength=1).fit(X, y)\n"
        "pm.KNeighborsClassifier(lda.get_metric(), 5).fit(X, y).predict_proba(X[:2])\n"
        "for use, extra in ((lambda: pm.plots.embedding, 'plots'),\n"
        "                   (lambda: pm.explore(lda, X, y), 'explore')):\n"
        "    try:\n"
        "        use()\n"
        "    except ModuleNotFoundError as error:\n"
        "        assert f'extra {extra!r}' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError(extra)\n"
        "assert not hasattr(pm.plots, 'no_such_figure')\n"
    )
    assert done.returncode == 0, done.stderr
