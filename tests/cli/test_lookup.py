"""What stands in a list is looked up before anything heavy is loaded."""

import json
import os
import subprocess
import sys

import pytest
import sklearn.datasets

from probmetric import names
from probmetric.cli.files import FILES
from probmetric.datasets.generators import GENERATORS
from probmetric.registry import MODELS, Place, learner_name
from tests.cli.runs import refused, run, write_data

HEAVY = ("arviz", "jax", "matplotlib", "numpyro", "pandas", "scipy", "sklearn")
WINE = ("--data", "wine", "--out", "OUT")
TYPOS = {
    "learner of fit": ("model must be one of", "fit", "lcaa", *WINE),
    "learner of evaluate": (
        *("model must be one of", "evaluate", "--model", "lcaa"),
        *("--data", "wine", "--folds", "2"),
    ),
    "learner without draws": ("a learner with draws", "sample", "pair_lda", *WINE),
    "registered model": ("model must be one of", "validate", "lcaa"),
    "no model": ("MODEL must be one of", "validate"),
    "method": ("--method must be one of", "sample", "lca", *WINE, "--method", "nut"),
    "data set of fit": (
        "data must be one of",
        "fit",
        "lda",
        "--data",
        "wein",
        *WINE[2:],
    ),
    "data set of evaluate": (
        *("data must be one of", "evaluate", "--model", "lda", "--data", "wein"),
        *("--folds", "2"),
    ),
    "test set of evaluate": (
        *("--test must be one of", "evaluate", "--model", "lda", "--data", "wine"),
        *("--test", "wein"),
    ),
    "data set of neighbors": (
        *("data must be one of", "neighbors", "--metric", "m.npz", "--data", "wein"),
    ),
    "candidates of next": (
        *(
            "--candidates must be an existing file",
            "next",
            "--draws",
            "d.nc",
            *WINE[:2],
        ),
        *("--candidates", "no.csv"),
    ),
    "folder of report": ("DIR must be the folder of a run", "report", "no_such_folder"),
    "file that exists, fit": ("Add --force", "fit", "lda", "--data", "wine", "FULL"),
    "file that exists, neighbors": (
        *("Add --force", "neighbors", "--metric", "m.npz", *WINE[:2]),
        *("--out", "FULL.csv"),
    ),
}


def loaded_by(commands, folder):
    """Run commands in one fresh process, each in a folder of its own, made before.

    Returns the exit code, what was said on standard error and the heavy modules loaded
    so far, of each.
    """
    code = (
        "import contextlib, io, json, os, sys\n"
        "from probmetric.cli.app import app\n"
        "for folder, words in json.loads(sys.stdin.read()):\n"
        "    os.chdir(folder)\n"
        "    code, said = 0, io.StringIO()\n"
        "    with contextlib.redirect_stderr(said):\n"
        "        try: app(words, prog_name='probmetric')\n"
        "        except SystemExit as left: code = left.code\n"
        f"    heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    print(json.dumps([code, said.getvalue(), heavy]))"
    )
    asked = [(str(folder / at), words) for at, words in commands]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()[-len(asked) :]]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each typo led to: its folder, exit code, error, and modules so far."""
    folder, commands = tmp_path_factory.mktemp("typos"), []
    places = {"OUT": ["out"], "FULL": ["--out", "full"], "FULL.csv": ["full.csv"]}
    for number, (_, *words) in enumerate(TYPOS.values()):
        full = folder / str(number) / "full"
        full.mkdir(parents=True)
        for name in {name for files in FILES.values() for name in files}:
            (full / name).write_text("mine")
        (folder / str(number) / "full.csv").write_text("mine")
        words = [part for word in words for part in places.get(word, [word])]
        commands.append((str(number), words))
    found = loaded_by(commands, folder)
    return {
        typo: (folder / at, *one)
        for typo, (at, _), one in zip(TYPOS, commands, found, strict=True)
    }


@pytest.mark.parametrize("typo", TYPOS)
def test_a_typo_is_told_before_anything_heavy_is_loaded(typo, told):
    folder, code, said, modules = told[typo]
    assert code == 2
    assert TYPOS[typo][0] in said
    assert len(said.splitlines()) == 1
    assert modules == []  # Else by this command, or by one before it.
    assert not (folder / "out").exists()


"""The argument that is named, and a command with a path in its place."""


def test_a_name_that_is_no_text_is_shown(tmp_path):
    data, out = tmp_path / "\udcfe.csv", tmp_path / "\udcff"
    write_data(tmp_path)["csv"].rename(data)
    done = run("fit", "lda", "--data", data, "--out", out)
    assert done.exit_code == 0, done.output
    assert "\\udcff/metric.npz" in done.stdout
    said = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert said["data"]["source"] == str(data)
    assert "\\udcfe.csv" in (out / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_may_not_be_entered_is_named(monkeypatch, tmp_path):
    def stat(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(
        ValueError, match=r"^--out must be a valid path.*Permission den"
    ):
        names.looked_up(tmp_path, "--out")


def test_a_pattern_may_be_longer_than_a_name():
    assert names.in_parts("[0-9]" * 60 + ".parquet")


def test_an_address_needs_the_library_of_its_protocol():
    said = refused("fit", "lda", "--data", "s3://rows/all.parquet", "--out", "out")
    assert "data must be readable, got" in said
    assert "s3fs" in said


@pytest.mark.parametrize("name", ["a\0.csv", "a" * 5000])
def test_a_path_that_cannot_be_looked_up_is_named(name):
    with pytest.raises(ValueError, match=r"^data must be a valid path") as error:
        names.existing(name)
    assert len(str(error.value)) < 250


@pytest.mark.long
def test_a_command_that_works_would_be_seen_to_load_them(tmp_path):
    """Nor is it the exit code: a setting out of its range is found after loading."""
    data = write_data(tmp_path)["csv"]
    words = ["fit", "lda", "--data", str(data), "--out", "out"]
    words += ["--set", "n_components=99"]
    ((code, said, modules),) = loaded_by([(".", words)], tmp_path)
    assert code == 2
    assert "n_components must be" in said
    assert {"jax", "pandas", "sklearn"} <= set(modules)


def test_the_names_are_those_of_what_loads_them():
    assert set(names.GENERATED) == set(GENERATORS)
    assert all(hasattr(sklearn.datasets, f"load_{name}") for name in names.STORED)


@pytest.mark.parametrize(
    "given, name",
    [
        ("LCA", "lca"),
        ("RCA", "rca"),
        ("TwoStageMixture", "two_stage"),
        ("glml", "glml"),
    ],
)
def test_a_learner_may_be_named_by_its_class(given, name):
    assert learner_name(given) == name


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_place_of_an_entry_holds_something(model):
    spec = MODELS[model]
    fields = [getattr(spec, field) for field in spec.__dataclass_fields__]
    assert not any(isinstance(value, Place) for value in fields)
    assert spec.class_names() >= {spec.estimator.__name__}
    assert hasattr(spec.estimator, "sample") == bool(spec.methods)
    assert bool(spec.methods) == (spec.metrics_of_draws is not None)
