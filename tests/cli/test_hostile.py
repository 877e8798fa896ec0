"""Hostile words and damaged files: exit code 2 and one line, or a finite answer.

Hypothesis draws the word or the damage; the draws are the same in every run.
"""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import probmetric as pm
from tests.cli.runs import refused, run, write_data

RANDOM = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
NO_FILES = (
    *("", ".", "..", "/", "~", "~no_such_user/a", "no/such/file", "a" * 300, "é" * 200),
    *("-", "[a", "**", "a\nb", "\x1b[31m", "\u202e", "/dev/null/a", "http://a.b/c"),
)
NUMBERS = ("-1", "0", "nan", "inf", "1e400", "2.5", "a", "", "9" * 40, "0x10", "1,5")
DAMAGED = ("data.csv", "data.npz", "data.parquet", "metric.npz", "summary.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write data, a metric and a run of ``fit``."""
    folder = tmp_path_factory.mktemp("hostile")
    write_data(folder)
    pm.save_metric(pm.Mahalanobis(np.eye(3)), folder / "metric.npz")
    done = run("fit", "lda", "--data", folder / "data.csv", "--out", folder / "run")
    assert done.exit_code == 0, done.output
    return folder


def commands(folder, data, metric, out):
    """Return a command that reads data, a metric or a run, by name."""
    return {
        "fit": ["fit", "lda", "--data", data, "--out", out],
        "neighbors": ["neighbors", "--metric", metric, "--data", data],
        "evaluate": ["evaluate", "--metric", metric, "--data", data],
        "queries": [
            *("neighbors", "--metric", folder / "metric.npz"),
            *("--data", folder / "data.csv", "--queries", data),
        ],
    }


@pytest.mark.parametrize("name", ["fit", "neighbors", "evaluate", "queries"])
@pytest.mark.parametrize("word", NO_FILES)
def test_data_that_is_no_file_is_refused(name, word, folder, tmp_path):
    metric = folder / "metric.npz"
    assert refused(*commands(folder, word, metric, tmp_path / "out")[name])


@pytest.mark.parametrize("name", ["neighbors", "evaluate"])
@pytest.mark.parametrize("word", NO_FILES)
def test_a_metric_that_is_no_file_is_refused(name, word, folder, tmp_path):
    data = folder / "data.csv"
    assert refused(*commands(folder, data, word, tmp_path / "out")[name])


@pytest.mark.parametrize("word", NUMBERS)
@pytest.mark.parametrize(
    "command",
    [
        ["neighbors", "--metric", "metric.npz", "--data", "data.csv", "-k"],
        ["evaluate", "--metric", "metric.npz", "--data", "data.csv", "--folds"],
        ["fit", "lda", "--data", "data.csv", "--out", "out", "--set", "n_components="],
        ["sample", "lda", "--data", "data.csv", "--out", "out", "--draws"],
    ],
    ids=lambda command: command[0],
)
def test_a_number_out_of_range_is_refused(command, word, folder, monkeypatch):
    monkeypatch.chdir(folder)
    *words, last = command
    last = [last + word] if "=" in last else [last, word]
    assert run(*words, *last).exit_code == 2


def answer(done):
    """Check how a command ended; True if it answered with finite numbers."""
    assert done.exit_code in (0, 2), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if done.exit_code == 2:
        assert len(done.stderr.strip()) < 1000
        assert "Traceback" not in done.output
        return False
    if done.stdout.startswith("query,"):
        table = pd.read_csv(io.StringIO(done.stdout), na_filter=False)
        numbers = table.drop(columns="label", errors="ignore").to_numpy(float)
        assert np.isfinite(numbers).all()
    return True


def damage(data, how, place, value):
    """Return bytes that are cut, changed, removed or repeated at a place."""
    at = int(place * len(data))
    return {
        "cut": data[:at],
        "one byte": data[:at] + bytes([value]) + data[at + 1 :],
        "zeros": data[:at] + bytes(50) + data[at + 50 :],
        "dropped": data[:at] + data[at + 50 :],
        "repeated": data[:at] + data[at : at + 50] + data[at:],
    }[how]


@pytest.mark.long
@pytest.mark.parametrize("name", DAMAGED)
@RANDOM
@given(
    st.sampled_from(["cut", "one byte", "zeros", "dropped", "repeated"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 255),
)
def test_a_damaged_file_is_refused_or_read(name, folder, how, place, value):
    source = folder / ("run" if name == "summary.json" else "") / name
    broken = folder / "broken"
    broken.mkdir(exist_ok=True)
    for file in (folder / "run").iterdir() if name == "summary.json" else ():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / name).write_bytes(damage(source.read_bytes(), how, place, value))
    data, metric = folder / "data.csv", folder / "metric.npz"
    if name == "summary.json":
        command = ["report", broken]
    elif name == "metric.npz":
        command = ["neighbors", "--metric", broken / name, "--data", data]
    else:
        command = ["neighbors", "--metric", metric, "--data", broken / name]
    answer(run(*command))
