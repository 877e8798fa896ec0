"""The runner of planted faults: where it plants them, and which faults tests notice."""

import csv
import json
import sys

import pytest

from tools import mutants

MODULE = '''"""A toy formula."""


def area(r):
    """Return 3 r ** 2."""
    scale = 3.0
    return scale * r**2


class Ball:
    def area(self, r):
        return 12.0 * r**2
'''
TESTS = """from probmetric.models.formulas import area


def test_area_of_two_is_twelve():
    assert area(2.0) == 12.0
"""
BROKEN = """from probmetric.models.cube import volume


def test_volume_of_two_is_nine():
    assert volume(2.0) == 9.0
"""


def fault(name, function, before, after, statement="x"):
    texts = {"function": function, "statement": statement}
    return {"id": name, **texts, "before": before, "after": after, "occurrence": 0}


@pytest.fixture
def checkout(tmp_path):
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "probmetric/__init__.py": "",
        "probmetric/models/formulas.py": MODULE,
        "tests/models/test_formulas.py": TESTS,
        "probmetric/models/cube.py": "def volume(r):\n    return r**3\n",
        "tests/models/test_cube.py": BROKEN,
    }
    for name, text in files.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "toy"


@pytest.mark.long
def test_faults_are_planted_in_a_copy_and_noticed_or_not(checkout, monkeypatch):
    stored = {
        "mutants": [
            fault("a", "area", "r ** 2", "r ** 3", "return scale * r ** 2"),
            fault("b", "Ball.area", "12.0 * r ** 2", "12.0"),
            fault("c", "gone", "scale * r ** 2", "scale"),
            fault("d", "gone", "no_such", "1"),
            fault("e", "gone", "older", "1"),
            fault("f", "area", "3.0", "3.00"),
            fault("g", "volume", "r ** 3", "r ** 2"),
        ],
        "equivalent": {"f": "the same number"},
        "moved": {"e": ["area", "3.0", "4.0"]},
    }
    path, results = checkout / "list.json", checkout / "results.csv"
    path.write_text(json.dumps(stored))
    words = ["--files", 1, "--root", checkout, "--list", path, "--results", results]
    monkeypatch.setattr(sys, "argv", ["mutants", *map(str, words)])
    mutants.main()
    rows = list(csv.reader(results.read_text().splitlines()))
    assert {row[0]: row[1] for row in rows} == {
        "a": "killed",
        "b": "survived",
        "c": "killed",
        "d": "not found",
        "e": "killed",
        "f": "equivalent",
        "g": "fails anyway",
    }
    assert rows[0][2:] == [
        "probmetric/models/formulas.py",
        "tests/models/test_formulas.py::test_area_of_two_is_twelve",
    ]
    assert (checkout / "probmetric/models/formulas.py").read_text() == MODULE


def test_the_stored_list_is_complete_and_its_ids_differ():
    stored = json.loads((mutants.HERE / "mutants.json").read_text())
    names = [mutant["id"] for mutant in stored["mutants"]]
    assert len({*names}) == len(names) == 398
    assert {*stored["equivalent"], *stored["moved"]} <= {*names}
    for mutant in stored["mutants"]:
        assert mutant["before"] != mutant["after"]
