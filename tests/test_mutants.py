"""The mutation script: what it draws, what it changes, and what it finds killed."""

import ast
import json

import pytest

from tools.mutants import Checkout, Mutant, map_tests, read_list, run, table, verdict
from tools.mutations import SEED, counted, draw, everything, find, in_text, mutated

FORMULAS = '''"""Toy formulas, 1 + 1."""

import numpy as np

SCALE = 3.0
MAX_STEPS = 50


def area(r: "Float[2 + 3]", tol: float = 1e-3, weight: float = 0.5) -> float:
    """Return 3 r ** 2."""
    if r < 0:
        raise ValueError(f"r: expected r >= {1 - 1}, got " + str(r))
    small = r <= 10 * tol
    return weight * SCALE * r**2 + 0.0 * small


class Ball:
    def gram(self, w, X):
        inner = lambda a: -np.sum(w * a, axis=0) / np.sum(w)
        return np.linalg.solve(X.T @ X, X.reshape(3 + 4, -1).T) - inner(X[:2])
'''
OTHER = FORMULAS.replace("SCALE * r**2", "r * SCALE").replace("Ball", "Box")
TESTS = """from probmetric.models.formulas import area


def test_area_is_a_number():
    assert isinstance(area(1.0), float)


def test_area_of_two_is_six():
    assert area(2.0) == 6.0
"""


def of_text(text):
    """Return the mutants of one module's text."""
    return counted(in_text(text))


def the(found, operator, before):
    """Return the only mutant with this operator and this expression."""
    same = [m for m in found if (m.operator, m.before) == (operator, before)]
    assert len(same) == 1
    return same[0]


@pytest.fixture
def checkout(tmp_path):
    """Return a toy checkout: one module, a test file of it, and one of nothing."""
    root = tmp_path / "toy"
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "probmetric/__init__.py": "",
        "probmetric/models/formulas.py": FORMULAS,
        "tests/test_area.py": TESTS,
        "tests/test_nothing.py": "def test_nothing():\n    assert True\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Checkout(root, tmp_path / "kept")


def test_a_draw_is_the_same_in_every_order_of_the_files(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(FORMULAS)
    two.write_text(OTHER)
    there, back = (counted(everything(files)) for files in ([one, two], [two, one]))
    assert len(there) > 40
    assert draw(there, 20) == draw(reversed(list(back)), 20)
    assert {m: s.file for m, s in there.items()} == {m: s.file for m, s in back.items()}


def test_another_seed_draws_others():
    mutants = of_text(FORMULAS)
    assert draw(mutants, 5) != draw(mutants, 5, seed=SEED + 1)


def test_a_mutant_that_vanishes_leaves_the_rest_of_a_draw():
    mutants = of_text(FORMULAS)
    drawn = draw(mutants, 10)
    again = draw(set(mutants) - {drawn[3]}, 10)
    assert again[:9] == drawn[:3] + drawn[4:]


@pytest.mark.parametrize(
    "mutant", of_text(FORMULAS), ids=lambda m: f"{m.operator}: {m.before}"
)
def test_a_mutant_changes_exactly_one_expression_and_compiles(mutant):
    """All but the one expression is as it was, to the letter."""
    site = of_text(FORMULAS)[mutant]
    text = mutated(FORMULAS, site)
    compile(text, "mutant", "exec")
    old, new = FORMULAS.splitlines(), text.splitlines()
    line = site.node.lineno - 1
    assert len(old) == len(new)
    assert [
        i for i, pair in enumerate(zip(old, new, strict=True)) if len(set(pair)) > 1
    ]
    assert [*old[:line], *old[line + 1 :]] == [*new[:line], *new[line + 1 :]]
    start, end = site.node.col_offset, site.node.end_col_offset
    rest = old[line][:start], old[line][end:]
    assert new[line].startswith(rest[0])
    assert new[line].endswith(rest[1])
    middle = new[line][start : len(new[line]) - len(rest[1])]
    assert ast.unparse(ast.parse(middle)) == mutant.after
    assert ast.unparse(ast.parse(old[line][start:end])) == mutant.before


def test_the_operators_reach_what_they_name():
    found = {(m.operator, m.before, m.after) for m in of_text(FORMULAS)}
    wanted = [
        ("constant + 1", "3.0", "4.0"),
        ("constant * 2", "0.5", "1.0"),
        ("exponent", "r ** 2", "r ** 3"),
        ("drop exponent", "r ** 2", "r"),
        ("+ to -", *(f"weight * SCALE * r ** 2 {s} 0.0 * small" for s in "+-")),
        ("drop weight", "w * a", "a"),
        ("axis", "np.sum(w * a, axis=0)", "np.sum(w * a, axis=1)"),
        ("sum to mean", "np.sum(w)", "np.mean(w)"),
        ("sign", "-np.sum(w * a, axis=0)", "np.sum(w * a, axis=0)"),
        ("/ to *", "-np.sum(w * a, axis=0) / np.sum(w)")
        + ("-np.sum(w * a, axis=0) * np.sum(w)",),
        ("drop transpose", "X.T", "X"),
        ("swap arguments", "X.T @ X", "X @ X.T"),
    ]
    assert not set(wanted) - found


def test_each_rule_leaves_out_what_it_names():
    rules = {(site.rule, mutant.before) for mutant, site in in_text(FORMULAS)}
    assert ("annotation", "2 + 3") not in rules  # a string: no expression at all
    assert {
        ("setting", "50"),
        ("setting", "0.001"),
        ("setting", "10 * tol"),
        ("setting", "r <= 10 * tol"),
        ("refusal", "r < 0"),
        ("text", "1 - 1"),
        ("shape", "3 + 4"),
    } <= rules
    kept = {mutant.before for mutant in of_text(FORMULAS)}
    assert not kept & {before for rule, before in rules if rule}


def test_a_mutant_is_found_where_its_function_has_moved():
    mutant = the(of_text(FORMULAS), "/ to *", "-np.sum(w * a, axis=0) / np.sum(w)")
    assert find(mutant, of_text(FORMULAS)) == mutant
    assert find(mutant, of_text(OTHER)).function == "Box.gram"
    assert find(mutant, of_text("x = 2 * y")) is None


def test_a_mutant_with_two_places_is_not_guessed():
    mutant = the(of_text("def f(a):\n    return a * 7"), "constant + 1", "a * 7")
    twice = "def g(a):\n    return a * 7\ndef h(a):\n    return a * 7"
    assert find(mutant, of_text(twice)) is None


@pytest.mark.long
def test_the_map_says_which_test_file_executes_a_function(checkout):
    known = map_tests(checkout)
    name = ["probmetric/models/formulas.py", "area"]
    assert name in known["tests/test_area.py"]["functions"]
    assert name not in known["tests/test_nothing.py"]["functions"]


@pytest.mark.long
def test_a_wrong_formula_is_killed_and_an_equivalent_one_survives(
    checkout, monkeypatch, tmp_path
):
    """The negative control: adding or subtracting 0.0 is the same."""
    found = of_text(FORMULAS)
    wrong = the(found, "exponent", "r ** 2")
    same = the(found, "+ to -", "weight * SCALE * r ** 2 + 0.0 * small")
    untested = the(found, "sum to mean", "np.sum(w)")
    listed = [{"id": m.id, **m._asdict()} for m in (wrong, same, untested)]
    stored = {"seed": SEED, "mutants": listed, "equivalent": {}, "moved": {}}
    path = tmp_path / "list.json"
    path.write_text(json.dumps(stored))
    monkeypatch.setattr("tools.mutants.LIST", path)
    run(checkout, None, 1, False)
    lines = [json.loads(x) for x in checkout.results.read_text().splitlines()]
    assert [line["status"] for line in lines] == ["killed", "survived", "survived"]
    assert lines[0]["test"] == "tests/test_area.py::test_area_of_two_is_six"
    assert [line["files"] for line in lines] == [1, 1, 0]
    assert (checkout.root / "probmetric/models/formulas.py").read_text() == FORMULAS
    text = table(read_list(path), {line["id"]: line for line in lines})
    assert "1 killed, 2 survived" in text
    assert "0.333" in text


def test_an_argued_equivalent_leaves_the_score_and_a_killed_one_does_not():
    two = [Mutant("f", "s", "a", after, "o") for after in "bc"]
    stored = {"seed": 1, "mutants": two, "moved": {}}
    stored["equivalent"] = {mutant.id: "said so" for mutant in two}
    records = {two[0].id: {"status": "killed", "test": "t"}}
    records[two[1].id] = {"status": "survived", "test": ""}
    assert "1 equivalent, 1 killed" in table(stored, records)
    assert "equivalent): 1.000" in table(stored, records)


def test_a_mutant_without_a_result_leaves_the_score_open():
    """What a guess does not kill is neither killed nor survived."""
    two = [Mutant("f", "s", "a", after, "o") for after in "bc"]
    stored = {"seed": 1, "mutants": two, "moved": {}, "equivalent": {}}
    text = table(stored, {two[0].id: {"status": "killed", "test": "t"}})
    assert "between 0.500 and 1.000, as 1 have no result yet" in text


def test_more_than_a_tenth_of_equivalents_is_refused(tmp_path):
    stored = read_list()
    said = {mutant.id: "said so" for mutant in stored["mutants"][:7]}
    listed = [mutant._asdict() for mutant in stored["mutants"]]
    path = tmp_path / "list.json"
    path.write_text(json.dumps({**stored, "mutants": listed, "equivalent": said}))
    with pytest.raises(ValueError, match="expected at most 6 mutants, got 7"):
        read_list(path)


def test_a_run_without_tests_is_no_verdict():
    assert verdict(0, "") == ("survived", "")
    with pytest.raises(RuntimeError, match="exit code 5"):
        verdict(5, "no tests ran")


def test_the_stored_list_is_sixty_mutants_of_the_seed_that_is_written_down():
    stored = read_list()
    assert stored["seed"] == SEED
    assert len(stored["mutants"]) == len(set(stored["mutants"])) == 60
    assert draw(stored["mutants"], 60) == stored["mutants"]
