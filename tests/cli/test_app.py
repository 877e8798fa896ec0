"""The command line: exit codes, sentences instead of tracebacks, whole files."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from probmetric.cli import validate as cli_validate
from tests.cli.runs import ran

COMMANDS = ("validate", "fit", "sample", "next", "neighbors", "explore", "evaluate")
COMMANDS += ("report", "")
HELP = """
import contextlib, io, json, sys
import probmetric.cli.app
for command in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            probmetric.cli.app.app([*command.split(), "--help"])
        except SystemExit as left:
            code = left.code
    heavy = {"jax", "numpy", "pandas", "sklearn", "matplotlib", "rich"}
    print(json.dumps([code, said.getvalue(), sorted(heavy & set(sys.modules))]))
"""


@pytest.fixture(scope="module")
def helped():
    """Return what came of asking each command for help, in one process."""
    words = [sys.executable, "-c", HELP, json.dumps(COMMANDS)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = map(json.loads, done.stdout.splitlines())
    return dict(zip(COMMANDS, told, strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_shown_without_loading_anything_heavy(command, helped):
    code, said, heavy = helped[command]
    assert code == 0
    assert heavy == []  # Else of this command, or of one before it.
    assert command in said
    assert "Exit code" in said or not command


def test_the_page_of_a_learners_own_checks_is_made_again(tmp_path):
    ran("validate", "pair_lda", "--quick", "--out", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "1 of 1 exact claims agree" in page
    ran("report", tmp_path, "--force")
    assert (tmp_path / "report.html").read_text() == page


def test_the_error_rate_is_shared_in_proportion_to_tests(monkeypatch):
    """2, 1 and 0 tests share 1%; without any slow check 1, 1 and 0 do."""
    names = {"two": [(1, 0), (1, 1)], "one": [(1, 0), (0, 0)], "none": [(0, 0)]}
    specs = {
        name: SimpleNamespace(checks=[SimpleNamespace(tests=t, slow=s) for t, s in of])
        for name, of in names.items()
    }
    monkeypatch.setattr(cli_validate, "MODELS", specs)
    found = cli_validate._shares([*names], quick=False)
    assert found == pytest.approx({"two": 0.02 / 3, "one": 0.01 / 3, "none": 0.01 / 3})
    found = cli_validate._shares([*names], quick=True)
    assert found == pytest.approx({"two": 0.005, "one": 0.005, "none": 0.005})
