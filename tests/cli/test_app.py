"""The command line: exit codes, sentences instead of tracebacks, whole files."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from probmetric.checks import validation
from probmetric.checks.check import Check, uniform
from probmetric.checks.criticism import Finding
from probmetric.checks.uniformity import Ranks
from probmetric.cli import validate as cli_validate
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.registry import MODELS
from tests.cli.runs import run


def sampled(seed):
    rng = np.random.default_rng(seed)
    draws = {"a": (("chain", "draw", "i"), rng.normal(size=(4, 3000, 3)))}
    return xr.Dataset(draws)


def uniform_ranks(power):
    u = np.random.default_rng(3).random(400)
    return Ranks({"b": (100 * u**power).astype(int)}, 99)


def fake_checks(shift=0.0, bound=1.0):
    return [
        Check(
            "two is two",
            "exact",
            lambda problem: {"two": 2.0},
            lambda problem: {"two": 2.0 + shift},
            controls={"three": lambda problem: {"two": 3.0}},
        ),
        Check(
            "the mean is zero",
            "exact",
            lambda problem: {"a": np.zeros(3)},
            lambda problem: sampled(0),
            controls={"one": lambda problem: sampled(0) + 1},
            layer="sampling",
        ),
        Check(
            "near enough",
            "approximate",
            lambda problem: sampled(1),
            lambda problem: sampled(2),
            bound=bound,
        ),
        Check(
            "ranks are uniform",
            "exact",
            uniform,
            lambda problem: uniform_ranks(1.0),
            controls={"bent": lambda problem: uniform_ranks(2.0)},
            layer="sbc",
        ),
    ]


@pytest.fixture
def quick_checks(monkeypatch):
    """Replace LCA's checks by ones that take no time."""

    def use(shift=0.0, bound=1.0):
        def judged(name, problem, **options):
            return validation.validate(fake_checks(shift, bound), problem, **options)

        monkeypatch.setattr(cli_validate, "validate", judged)

    def criticize(fit, *, seed):
        bins = pd.DataFrame({"at": [0.1, 0.9], "observed": 0.9, "expected": 0.5})
        bins = bins.assign(low=0.4, high=0.6, pairs=20)
        said = "one said", "Do this"
        return [
            Finding("prior", 1.0, 0.5, 0.3, 0.05, *said),
            Finding("predictive", 9.0, 1e-4, 0.4, 0.05, *said, bins),
        ]

    monkeypatch.setattr("probmetric.checks.lca.criticism.criticize", criticize)
    use()
    return use


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


@pytest.mark.parametrize(
    "change, code, words",
    [
        ({}, 0, "3 of 3 exact claims agree; 1 of 1 approximations"),
        ({"shift": 1e-3}, 1, "2 of 3 exact claims agree"),
        ({"bound": 1e-9}, 1, "0 of 1 approximations"),
    ],
)
def test_exit_code_is_1_unless_all_claims_agree(quick_checks, change, code, words):
    quick_checks(**change)
    done = run("validate", "lca")
    assert done.exit_code == code
    assert words in done.output.strip().splitlines()[-1]


def test_wrong_formulas_exit_with_1_and_are_named(quick_checks):
    done = run("validate", "lca", "--break")
    assert done.exit_code == 1
    assert "wrong on purpose: three" in done.output
    assert "3 of 3 wrong claims rejected" in done.output


@pytest.mark.long
def test_the_files_are_written_and_can_be_read(quick_checks, tmp_path):
    done = run("validate", "lca", "--data", "iris", "--out", tmp_path / "a/b")
    assert done.exit_code == 0, done.output
    files = {path.name: path for path in (tmp_path / "a/b").iterdir()}
    wanted = {"agreement.csv", "report.html", "summary.json"}
    assert set(files) == wanted
    table = pd.read_csv(files["agreement.csv"])
    judged = table["kind"] == "model"
    assert set(table["verdict"][~judged]) == {"agree", "within"}
    assert list(table["entry"][judged]) == ["prior", "predictive"]
    assert list(table["verdict"][judged]) == ["adequate", "conflict"]
    assert list(table["error"][judged]) == [0.3, 0.4]
    assert table["problem"].unique() == ["iris"]
    page = files["report.html"].read_text()
    assert "3 of 3 exact claims agree" in page
    assert ">bound</th>" in page
    assert "<h1>lca validated on iris</h1>" in page
    above, below = page.split("Does the model fit the data?")
    assert "Conflict: the model would not have produced these data" in above
    assert "The next verdict is about the model" in above
    assert "Closed forms against independent references" in below
    assert "predictive, conflict: one said. Do this" in above
    assert "Do this" not in below
    why, last = done.output.strip().splitlines()[-2:]
    assert why == "predictive, conflict: one said. Do this"
    assert "report.html" in last
    assert "agree; the model: conflict" in last


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--break",), ("--data", "iris")])
def test_the_page_of_a_validation_is_made_again_from_its_folder(
    quick_checks, tmp_path, words, rendered
):
    run("validate", "lca", "--out", tmp_path, *words)
    page = (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    done = run("report", tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").read_text() == page


def test_the_page_of_a_learners_own_checks_is_made_again(tmp_path):
    done = run("validate", "pair_lda", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    assert "1 of 1 exact claims agree" in page
    assert run("report", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "report.html").read_text() == page


@pytest.mark.long
@pytest.mark.parametrize("name", ["agreement.csv", "summary.json"])
def test_a_validation_without_one_of_its_files_is_refused(quick_checks, tmp_path, name):
    run("validate", "lca", "--data", "iris", "--out", tmp_path)
    (tmp_path / name).unlink()
    done = run("report", tmp_path, "--force")
    assert done.exit_code == 2, done.output
    assert name in done.output.replace("\n", "")


@pytest.mark.filterwarnings("always")
def test_a_warning_is_a_note_for_readers(quick_checks, monkeypatch):
    judged = cli_validate.validate

    def warned(*arguments, **options):
        warnings.warn("R-hat above 1.01 for b", SamplingWarning, stacklevel=2)
        return judged(*arguments, **options)

    monkeypatch.setattr(cli_validate, "validate", warned)
    done = run("validate", "lca")
    assert done.exit_code == 0
    assert "note: R-hat above 1.01 for b" in done.output
    assert ".py" not in done.output


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


@pytest.fixture
def two_models(monkeypatch):
    """Register two models of the fake checks; a control of the second may be right."""

    def use(toothless):
        def judged(name, problem, **options):
            checks = fake_checks()
            if toothless and name == "second":
                right = {"right": lambda problem: {"two": 2.0}}
                checks[0] = replace(checks[0], controls=right)
            found = validation.validate(checks, problem, **options)
            named = tuple(j._replace(model=name) for j in found.judgements)
            return validation.Validation(name, named, found.broken)

        monkeypatch.setattr(cli_validate, "validate", judged)
        spec = MODELS["lca"]
        monkeypatch.setattr(cli_validate, "MODELS", {"first": spec, "second": spec})

    use(toothless=False)
    return use


def test_one_wrong_claim_that_gets_through_is_seen_among_all(two_models):
    assert run("validate", "--all", "--break").exit_code == 1
    two_models(toothless=True)
    done = run("validate", "--all", "--break")
    assert done.exit_code == 0
    assert "all: 5 of 6 wrong claims rejected: missed" in done.output
