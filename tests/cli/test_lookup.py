"""What stands in a list is looked up before anything heavy is loaded."""

import json
import subprocess
import sys

import pytest
import sklearn.datasets

from probmetric import names
from probmetric.cli.files import FILES
from probmetric.datasets.generators import GENERATORS
from probmetric.registry import MODELS, Place
from tests.cli.runs import ran, refused, write_data

HEAVY = ("arviz", "jax", "matplotlib", "numpyro", "pandas", "scipy", "sklearn")
TYPOS = {
    "fit lcaa --data wine --out OUT": "model must be one of",
    "evaluate --model lcaa --data wine --folds 2": "model must be one of",
    "sample pair_lda --data wine --out OUT": "a learner with draws",
    "validate lcaa": "model must be one of",
    "validate": "MODEL must be one of",
    "sample lca --data wine --out OUT --method nut": "--method must be one of",
    "fit lda --data wein --out OUT": "data must be one of",
    "evaluate --model lda --data wein --folds 2": "data must be one of",
    "evaluate --model lda --data wine --test wein": "--test must be one of",
    "neighbors --metric m.npz --data wein": "data must be one of",
    "next --draws d.nc --data wine --candidates no.csv": "must be an existing file",
    "report no_such_folder": "DIR must be the folder of a fit, sample",
    "fit lda --data wine FULL": "Add --force",
    "neighbors --metric m.npz --data wine --out FULL.csv": "Add --force",
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
    for number, typo in enumerate(TYPOS):
        full = folder / str(number) / "full"
        full.mkdir(parents=True)
        for name in {name for files in FILES.values() for name in files}:
            (full / name).write_text("mine")
        (folder / str(number) / "full.csv").write_text("mine")
        words = [part for word in typo.split() for part in places.get(word, [word])]
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
    assert TYPOS[typo] in said
    assert len(said.splitlines()) == 1
    assert modules == []  # Else by this command, or by one before it.
    assert not (folder / "out").exists()


def test_a_name_that_is_no_text_is_shown(tmp_path):
    data, out = tmp_path / "\udcfe.csv", tmp_path / "\udcff"
    write_data(tmp_path)["csv"].rename(data)
    done = ran("fit", "lda", "--data", data, "--out", out)
    assert "\\udcff/metric.npz" in done.stdout
    said = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert said["data"]["source"] == str(data)
    assert "\\udcfe.csv" in (out / "report.html").read_text(encoding="utf-8")


def test_an_address_needs_the_library_of_its_protocol():
    said = refused("fit", "lda", "--data", "s3://rows/all.parquet", "--out", "out")
    assert "data must be readable, got" in said
    assert "s3fs" in said


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


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_place_of_an_entry_holds_something(model):
    spec = MODELS[model]
    fields = [getattr(spec, field) for field in spec.__dataclass_fields__]
    assert not any(isinstance(value, Place) for value in fields)
    assert spec.class_names() >= {spec.estimator.__name__}
    assert hasattr(spec.estimator, "sample") == bool(spec.methods)
    assert bool(spec.methods) == (spec.metrics_of_draws is not None)
