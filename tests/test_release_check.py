"""The release check: what it installs, what it finds, and that a failure is one."""

import sys
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import release_check as tool


def test_lowest_versions_are_the_bounds_of_the_project():
    project = tomllib.loads((tool.ROOT / "pyproject.toml").read_text())["project"]
    pins = tool.lowest()
    needs = {*project["dependencies"], *project["optional-dependencies"]["cli"]}
    assert {pin.replace("==", ">=") for pin in pins} == needs
    assert all("==" in pin and ">" not in pin for pin in pins)


def test_this_python_is_found_and_one_that_is_not_there_is_not():
    version = "{}.{}".format(*sys.version_info)
    assert tool.find(version) is not None
    assert tool.find("3.99") is None


def test_what_needs_a_checkout_is_left_out_and_nothing_else(tmp_path):
    written = {
        "tests/test_a.py": "from tools import x\n",
        "tests/b/test_b.py": "def f():\n    import benchmarks.x\n",
        "tests/test_c.py": "ROOT = Path(__file__).parents[1]\n",
        "tests/test_d.py": "import toolshed\nfrom probmetric import benchmark\n",
    }
    for name, text in written.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert tool.apart(tmp_path) == [
        "tests/b/test_b.py",
        "tests/test_a.py",
        "tests/test_c.py",
    ]
    every = list((tool.ROOT / "tests").rglob("test_*.py"))
    assert len(tool.apart(tool.ROOT)) < 0.15 * len(every)


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Nothing is built or installed: what is asked of pip and pytest is noted."""
    import io
    import tarfile

    asked = []

    def run(*words, cwd=None, **variables):
        asked.append([str(word) for word in words])
        if "build" in asked[-1]:
            dist = Path(asked[-1][asked[-1].index("--outdir") + 1])
            dist.mkdir()
            (dist / "p.whl").write_bytes(b"")
            with tarfile.open(dist / "p.tar.gz", "w:gz") as archive:
                info = tarfile.TarInfo("p/probmetric/x.py")
                archive.addfile(info, io.BytesIO())
        if tool.PROBE in asked[-1]:
            return "3.12"
        return "site-packages\n1 passed"

    monkeypatch.setattr(tool, "run", run)
    return asked


def test_what_has_no_interpreter_is_said_and_bounds_are_tried_once(built, tmp_path):
    how = ("lowest", "newest")
    given = Namespace(python=("3.12", "3.13"), resolutions=how, tests=("tests",))
    found = {
        name: (outcome, said) for name, outcome, said in tool.check(given, tmp_path)
    }
    passed = "passed", "1 passed; 0 files need a checkout"
    assert found["Python 3.12, lowest dependencies"] == passed
    assert found["Python 3.12, newest dependencies"] == passed
    assert found["Python 3.13, newest dependencies"] == ("not run", "no interpreter")
    pinned = [words for words in built if any(w.startswith("jax==") for w in words)]
    assert len(pinned) == 2
    assert not [words for words in built if any(str(w).endswith("url") for w in words)]


def test_a_failing_part_fails_the_check(built, tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise RuntimeError("2 failed")

    monkeypatch.setattr(tool, "tested", fails)
    assert tool.main(["--python", "3.12", "--with", "newest"]) == 1
    assert (
        "FAILED  Python 3.12, newest dependencies: 2 failed" in capsys.readouterr().out
    )
