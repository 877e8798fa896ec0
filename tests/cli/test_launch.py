"""``--processes``: the same files, in one folder, from any number of processes."""

import json
import shutil
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


def several(*words):
    """Run the command line in processes of its own."""
    command = [sys.executable, "-m", "probmetric", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT)


def fit(data, out, *words):
    words = ("--data", data, "--out", out, "--set", "n_anchors=80", *words)
    return several("fit", "lca", *words)


def factor(out):
    return np.asarray(pm.load_metric(out / "metric.npz").factor)


@pytest.fixture(scope="module")
def one(data, tmp_path_factory):
    """Return the folder of a fit of this process, and its passes."""
    folder = tmp_path_factory.mktemp("one")
    words = ("--set", "n_anchors=80", "--checkpoint", folder / "ck")
    done = run("fit", "lca", "--data", data, "--out", folder / "run", *words)
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.long
def test_two_processes_go_on_from_the_first_pass_of_one(one, data, tmp_path):
    """They make the others themselves, and learn the same metric."""
    shutil.copytree(one / "ck", tmp_path / "ck")
    first, *others = sorted((tmp_path / "ck").glob("pass_*.npz"))
    wanted, read = [path.read_bytes() for path in others], first.stat().st_mtime_ns
    assert others
    for path in others:
        path.unlink()
    words = ("--processes", "2", "--checkpoint", tmp_path / "ck", "--resume")
    two = fit(data, tmp_path / "two", *words)
    assert two.returncode == 0, two.stderr
    assert "[Gloo]" not in two.stdout
    assert two.stdout.count("Wrote") == 1
    assert factor(tmp_path / "two").tobytes() == factor(one / "run").tobytes()
    assert first.stat().st_mtime_ns == read
    assert [path.read_bytes() for path in others] == wanted
    assert no_debris(tmp_path)
    said = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert said["model"] == "lca"
    asked = f"probmetric fit lca --data {data} --out {tmp_path / 'two'} --set n_anch"
    assert said["asked"].startswith(asked)
    assert said["asked"] in (tmp_path / "two" / "report.html").read_text()


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
    words = [command, "--metric", tmp_path / "metric.npz", "--data", tmp_path / "rows"]
    words += [ask, tmp_path / "held", "--label", "kind", "--out"]
    outs = [tmp_path / f"out{size}{ending}" for size in (1, 2)]
    alone = run(*words, outs[0])
    assert alone.exit_code == 0, alone.output
    two = several(*words, outs[1], "--processes", 2)
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("Wrote") == alone.stdout.count("Wrote") == 1
    said = [
        [path.read_text() for path in ([out] if ending else sorted(out.glob("*.csv")))]
        for out in outs
    ]
    assert said[0] == said[1]
    assert all(said[0])
    assert no_debris(tmp_path)


@pytest.mark.slow
def test_passes_of_another_run_end_all_with_one_sentence(one, data, tmp_path):
    words = ("--checkpoint", one / "ck", "--processes", "2", "--resume")
    other = fit(data, tmp_path / "b", *words, "--seed", "1")
    assert other.returncode == 2
    assert other.stderr.count("got another run: pass 0 has other parameters") == 1
    words = ("--data", data, "--checkpoint", one / "ck")
    said = refused("fit", "lca", "--out", tmp_path / "b", *words)
    assert "checkpoint must be an empty folder" in said


def test_to_resume_needs_a_checkpoint(data, tmp_path):
    said = refused("fit", "lca", "--data", data, "--out", tmp_path, "--resume")
    assert "--resume requires --checkpoint" in said
