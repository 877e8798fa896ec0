"""The release check: what it installs, what it finds, and that a failure is one."""

import sys
import tomllib
from pathlib import Path

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
