"""Help: -h, examples, and the width of the terminal; --quiet: only errors remain."""

import io
import re
import shlex

import pandas as pd
import pytest
import sklearn.datasets
import sklearn.utils
import typer.main

from probmetric.cli import fit as cli_fit
from probmetric.cli.app import app
from tests.cli.runs import NAMES, refused, run, table

COMMANDS = ("fit", "sample", "next", "neighbors", "evaluate", "explore")
COMMANDS += ("report", "validate", "cache")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help_with_two_examples(command):
    words = [command] if command else []
    done = run(*words, "-h")
    assert done.exit_code == 0
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


def test_quiet_keeps_the_verdict_of_a_validation():
    done = run("validate", "pair_lda", "--quick", "--quiet")
    assert done.exit_code == 0
    assert "Checking" not in done.output
    assert "of 1 exact claims agree" in done.output


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
    done = run("fit", "lda", "--data", "openml:mine", "--out", out)
    assert done.exit_code == 0, done.output
    assert len(openml) == 1
    assert "left out" not in (out / "report.html").read_text()  # It was at hand.
    assert run("report", out).exit_code == 0
    page = (out / "report.html").read_text()
    assert "Figures of the data are left out: openml:mine is not downloaded" in page
    assert "openml:mine is not downloaded" in refused("report", out, "--explore")
    assert len(openml) == 1


def test_a_report_is_made_of_the_data_of_the_run(data, tmp_path, monkeypatch):
    real = cli_fit.save_metric

    def gone(*given, **more):
        data.unlink()
        return real(*given, **more)

    monkeypatch.setattr(cli_fit, "save_metric", gone)
    run("fit", "lda", "--data", data, "--out", tmp_path / "out")
    assert "left out" not in (tmp_path / "out" / "report.html").read_text()


def test_the_last_column_is_named_where_it_is_no_label(tmp_path):
    frame = table().drop(columns="item")[["kind", *NAMES]]
    frame["mass"] = range(60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = "fit", "lda", "--data", tmp_path / "t.csv", "--out", tmp_path / "out"
    line = refused(*fit)
    assert "(--label 'kind')" in line
    assert "each class must have at least 2 rows" in refused(*fit, "--drop", "kind")
    assert "The label is the last column, 'mass' (no --label)" in refused(
        *fit, "--drop", "kind"
    )


def test_validate_reads_data_as_other_commands_do(tmp_path):
    frame = table().drop(columns="item").assign(when="2020-01-01")
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    words = "validate", "pair_lda", "--quick", "--label", "kind"
    line = refused("validate", "pair_lda", "--drop", "when")
    assert "--drop requires --data" in line
    assert "--sep ';'" in refused(*words, "--data", tmp_path / "t.csv")
    how = "--sep", ";", "--decimal", ",", "--drop", "when"
    done = run(*words, "--data", tmp_path / "t.csv", *how)
    assert done.exit_code == 0, done.output
