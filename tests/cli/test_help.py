"""Help: -h, examples, and the width of the terminal; --quiet: only errors remain."""

import io
import re
import shlex

import pandas as pd
import pytest
import sklearn.datasets
import sklearn.utils
import typer.main

from probmetric.cli.app import app
from tests.cli.runs import NAMES, ran, refused, run, table

COMMANDS = ("fit", "sample", "next", "neighbors", "evaluate", "explore")
COMMANDS += ("report", "validate", "cache")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help_with_two_examples(command):
    words = [command] if command else []
    done = ran(*words, "-h")
    assert done.stdout == run(*words, "--help").stdout
    examples = re.findall(r"^ +probmetric (.*)$", done.stdout, re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        # Only what the command takes: parsed, it raises otherwise.
        name, *given = shlex.split(example)
        assert name == (command or name)
        known = typer.main.get_command(app).commands[name]
        known.make_context(name, given)


@pytest.fixture
def data(tmp_path):
    """A labeled table of which a fit has a note: a column counts its rows."""
    frame = table().drop(columns="item")
    frame.insert(0, "id", range(60))
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.long
def test_quiet_leaves_files_and_results_and_errors(data, tmp_path):
    loud = run("fit", "lda", "--data", data, "--out", tmp_path / "loud")
    assert "Fitting" in loud.stdout
    assert loud.stderr.count("note:") == 2
    out = tmp_path / "quiet"
    done = run("fit", "lda", "--data", data, "--out", out, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert (out / "metric.npz").is_file()
    again = "fit", "lda", "--data", data, "--out", out, "-q"
    assert "Add --force" in refused(*again)
    assert len(run(*again).output.splitlines()) == 1
    metric = "--metric", out / "metric.npz", "--data", data
    done = run("evaluate", *metric, "--folds", 2, "-q")
    assert "log_loss" in done.stdout
    assert done.stderr == ""
    done = run("neighbors", *metric, "-k", 1, "-q")
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 60
    assert run("report", out, "-q").output == ""
    assert "Wrote" in run("report", out).output  # Of the former command only.


@pytest.fixture
def openml(monkeypatch):
    """A data set of OpenML, and the number of times that it was fetched."""
    fetched = []

    def fetch(**which):
        fetched.append(which)
        frame = table().drop(columns="item")
        return sklearn.utils.Bunch(data=frame[NAMES], target=frame["kind"])

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return fetched


def test_a_report_does_not_fetch_data_from_openml(openml, tmp_path):
    out = tmp_path / "out"
    ran("fit", "lda", "--data", "openml:mine", "--out", out)
    assert len(openml) == 1
    assert "left out" not in (out / "report.html").read_text()  # It was at hand.
    ran("report", out)
    page = (out / "report.html").read_text()
    assert "Figures of the data are left out: openml:mine is not downloaded" in page
    assert "openml:mine is not downloaded" in refused("report", out, "--explore")
    assert len(openml) == 1
