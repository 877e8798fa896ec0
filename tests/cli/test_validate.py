"""``validate``: all that a run prints and writes, with claims written by hand.

Read against the tables of ``tests.report.test_validate``.
"""

import warnings

import pytest

from probmetric.checks.validation import Validation
from probmetric.cli import validate as cli_validate
from probmetric.inference.sampling.warnings import SamplingWarning
from tests.cli.world import said, written
from tests.expected import assert_expected
from tests.report.test_validate import claims, verdict


@pytest.fixture
def judged(monkeypatch):
    """Have the claims of two models judged as written; return the options given."""
    asked = {}

    def found(name, problem, *, break_, **options):
        asked[name] = {"problem": getattr(problem, "name", None), **options}
        own = claims() if name == "lca" else claims()[:2]
        control = {"control": "without it"} if break_ else {}
        rows = [
            j._replace(model=name, table=j.table.assign_attrs(**control)) for j in own
        ]
        return Validation(name, tuple(rows), break_)

    monkeypatch.setattr(cli_validate, "validate", found)
    models = {name: cli_validate.MODELS[name] for name in ("lca", "lda")}
    monkeypatch.setattr(cli_validate, "MODELS", models)
    return asked


def test_one_model_in_the_terminal_and_in_files(judged, tmp_path):
    text = said("validate", "lca", "--seed", 5, "--out", tmp_path / "run", code=1)
    text += written(tmp_path / "run")
    assert judged == {
        "lca": {"problem": None, "quick": False, "seed": 5, "alpha": 0.01}
    }
    assert_expected(text, "cli/validate.txt", OUT=tmp_path)


def test_all_models_in_the_terminal_and_in_files(judged, tmp_path):
    text = said("validate", "--all", "--quick", "--out", tmp_path / "all", code=1)
    text += written(tmp_path / "all")
    assert [*judged] == ["lca", "lda"]
    assert_expected(text, "cli/validate_all.txt", OUT=tmp_path)


def test_wrong_claims(judged):
    text = said("validate", "lda", "--break", code=0)
    assert_expected(text, "cli/validate_break.txt")


def test_a_model_against_its_data(judged, tmp_path, monkeypatch):
    """The verdict is a conflict, which counts only with --strict."""
    monkeypatch.setattr(cli_validate, "model_verdict", lambda *_: verdict())
    monkeypatch.setattr(cli_validate, "fit_named", lambda *_: None)
    words = "validate", "lda", "--data", "iris"
    assert_expected(said(*words, code=1), "cli/validate_data.txt", OUT=tmp_path)
    agree = lambda name, *_, **__: Validation(name, claims()[:1])  # noqa: E731
    monkeypatch.setattr(cli_validate, "validate", agree)
    said(*words, code=0)
    said(*words, "--strict", code=1)


@pytest.mark.filterwarnings("always")
def test_a_warning_is_a_note_for_readers(judged, monkeypatch):
    found = cli_validate.validate

    def warned(*arguments, **options):
        warnings.warn("R-hat above 1.01 for b", SamplingWarning, stacklevel=2)
        return found(*arguments, **options)

    monkeypatch.setattr(cli_validate, "validate", warned)
    text = said("validate", "lda", code=1)
    assert "note: R-hat above 1.01 for b" in text
    assert ".py" not in text
