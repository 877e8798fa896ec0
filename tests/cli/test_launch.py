"""``--processes``: the same files, in one folder, from any number of processes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import probmetric as pm
from tests.cli.runs import NAMES, no_debris, refused, run, table
from tests.processes.several import LIMIT

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    table(400).drop(columns="item").to_csv(path, index=False)
    return path


def fit(data, out, *words):
    command = [sys.executable, "-m", "probmetric", "fit", "lca", "--data", str(data)]
    command += ["--out", str(out), "--set", "n_anchors=80", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT)


def factor(out):
    return np.asarray(pm.load_metric(out / "metric.npz").factor)


@pytest.mark.long
def test_two_processes_learn_the_metric_of_one(data, tmp_path):
    one = fit(data, tmp_path / "one", "--checkpoint", tmp_path / "ck")
    assert one.returncode == 0, one.stderr
    two = fit(data, tmp_path / "two", "--processes", "2")
    assert two.returncode == 0, two.stderr
    assert "[Gloo]" not in two.stdout
    assert two.stdout.count("Wrote") == 1
    assert factor(tmp_path / "two").tobytes() == factor(tmp_path / "one").tobytes()
    assert no_debris(tmp_path)
    assert json.loads((tmp_path / "two" / "summary.json").read_text())["model"] == "lca"
    # The passes of one process serve two.
    again = fit(
        data, tmp_path / "again", "--processes", "2", "--checkpoint", tmp_path / "ck",
        "--resume",
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert factor(tmp_path / "again").tobytes() == factor(tmp_path / "one").tobytes()


@pytest.mark.long
@pytest.mark.parametrize("command", ["evaluate", "neighbors"])
def test_two_processes_search_as_one(command, tmp_path):
    frame = table(400).drop(columns="item")
    for name, some in {"rows": frame[:300], "held": frame[300:]}.items():
        (tmp_path / name).mkdir()
        some.to_parquet(tmp_path / name / "0.parquet", row_group_size=30, index=False)
    metric = pm.metric.Mahalanobis(np.diag([1.0, 2.0, 0.5]))
    pm.save_metric(metric, tmp_path / "metric.npz", feature_names=NAMES)
    ask, ending = {"evaluate": ("--test", ""), "neighbors": ("--queries", ".csv")}[
        command
    ]
    said = []
    for size in (1, 2):
        out = tmp_path / f"out{size}{ending}"
        done = subprocess.run(
            [sys.executable, "-m", "probmetric", command,
             "--metric", tmp_path / "metric.npz", "--data", tmp_path / "rows",
             ask, tmp_path / "held", "--label", "kind", "--out", out,
             "--processes", str(size)],
            capture_output=True, text=True, timeout=3 * LIMIT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Wrote") == 1
        tables = [out] if ending else sorted(out.glob("*.csv"))
        said.append([path.read_text() for path in tables])
    assert said[0] == said[1]
    assert all(said[0])
    assert no_debris(tmp_path)


@pytest.mark.slow
def test_passes_of_another_run_end_all_with_one_sentence(data, tmp_path):
    words = ("--data", data, "--set", "n_anchors=80", "--checkpoint", tmp_path / "ck")
    done = run("fit", "lca", "--out", tmp_path / "a", *words)
    assert done.exit_code == 0, done.output
    words = ("--checkpoint", tmp_path / "ck", "--processes", "2", "--resume")
    other = fit(data, tmp_path / "b", *words, "--seed", "1")
    assert other.returncode == 2
    assert other.stderr.count("those of another: pass 0 has other parameters") == 1
    said = refused("fit", "lca", "--out", tmp_path / "b", "--data", data, *words[:2])
    assert "expected an empty folder, or to resume" in said


def test_to_resume_needs_a_checkpoint(data, tmp_path):
    said = refused("fit", "lca", "--data", data, "--out", tmp_path, "--resume")
    assert "--resume: expected --checkpoint" in said
