"""Rows read in parts give what the same rows give when they are loaded."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric import provenance
from probmetric.cli import fit as cli_fit
from probmetric.cli import workers as cli_workers
from probmetric.large import rows as rows_in_parts
from probmetric.large.choose import sampled_rows
from probmetric.large.learners import refusal
from probmetric.registry import estimators, make
from probmetric.storage.metric_file import read_metric
from tests.cli.runs import NAMES, ran, refused, run, table
from tests.expected import assert_expected


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder of Parquet files, one of ``.npy`` files, and the same rows as CSV.

    Blocks of each are of the size between 33 and 64 that one program serves.
    """
    folder = tmp_path_factory.mktemp("rows")
    (folder / "rows").mkdir()
    frame = table(120).drop(columns="item")
    frame.to_csv(folder / "all.csv", index=False)
    frame.to_parquet(folder / "all.parquet", row_group_size=50)
    for k, some in enumerate((frame[:57], frame[57:])):
        some.to_parquet(folder / "rows" / f"{k}.parquet", row_group_size=40)
        np.save(folder / f"x{k}.npy", np.ascontiguousarray(some[NAMES]))
        np.save(folder / f"y{k}.npy", some["kind"].to_numpy(str))
    frame[NAMES].to_parquet(folder / "points.parquet")
    return folder


LDA = ("fit", "lda", "--set", "prior_strength=64")


def metric_of(folder):
    return read_metric(folder / "metric.npz").metric


@pytest.fixture(scope="module")
def loaded(work):
    ran(*LDA, "--data", work / "all.csv", "--out", work / "loaded")
    return metric_of(work / "loaded")


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("rows/*.parquet", "--label", "kind"),
        ("rows", "--label", "kind"),
        ("x*.npy", "--label", "y*.npy"),
        ("all.parquet", "--label", "kind"),
        ("all.parquet",),
    ],
    ids=["glob", "folder", "npy", "large", "large, last column"],
)
def test_a_fit_in_parts_is_that_of_rows_loaded(
    words, work, loaded, tmp_path, monkeypatch
):
    data, *label = words
    monkeypatch.setattr(rows_in_parts, "LARGE", 100)
    monkeypatch.setattr(cli_fit, "labeled", None)  # Called, it would fail.
    label = [work / w if w.endswith(".npy") else w for w in label]
    out = tmp_path / "out"
    ran(*LDA, "--data", work / data, *label, "--out", out)
    np.testing.assert_allclose(metric_of(out).factor, loaded.factor, rtol=1e-9)
    said = json.loads((out / "summary.json").read_text())
    assert said["data"]["n"] == 120
    assert list(said["data"]["classes"].values()) == [60, 60]
    whole = json.loads((work / "loaded" / "summary.json").read_text())
    assert said["training"]["learned"] == pytest.approx(whole["training"]["learned"])
    page = (out / "report.html").read_text()
    assert "left out" not in page
    ran("report", out)


@pytest.mark.long
def test_a_sample_is_looked_at_where_rows_are_many(work, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_fit, "MOST", 40)
    words = ("--data", work / "rows", "--label", "kind", "--out", tmp_path / "out")
    ran(*LDA, *words)
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert said["data"]["sampled"] == {"rows": 40, "most": 40}
    assert said["data"]["n"] == 120
    page = (tmp_path / "out" / "report.html").read_text()
    assert "use 40 rows, sampled by a hash" in page
    assert "left out" not in page


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [("--label", "kind", "--drop", "half"), ("--label", "kind", "--groups", "half")],
)
@pytest.mark.filterwarnings("ignore:Cllr is")  # Few sources.
def test_groups_in_parts_are_those_of_rows_loaded(words, tmp_path):
    frame = table(120).sample(frac=1, random_state=0)  # Groups lie in several parts.
    frame["half"] = frame.pop("item") % 2  # As many as labels, and others.
    (tmp_path / "rows").mkdir()
    frame.to_parquet(tmp_path / "rows" / "0.parquet", row_group_size=50, index=False)
    frame.to_csv(tmp_path / "all.csv", index=False)
    found = []
    for data in ("rows", "all.csv"):
        out = tmp_path / f"out_{data}"
        fit = "fit", "two_stage", "--data", tmp_path / data, "--out", out
        ran(*fit, *words, "--set", "tol=1e-4", "--set", "calibration=None")
        found.append((metric_of(out), json.loads((out / "summary.json").read_text())))
    (one, said), (other, wanted) = found
    for name in ("means", "between", "noise"):
        pair = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(*pair, rtol=1e-9, atol=1e-12)
    for name in ("groups", "classes", "n"):
        assert said["data"][name] == wanted["data"][name]
    assert said["training"]["learned"] == pytest.approx(wanted["training"]["learned"])


REFUSED = """lda --label kind
eig_dml --label kind
lca --groups kind
two_stage --groups sort
lda --set prior_strength=64
lda --set prior_strength=64 --drop kind
lda --set prior_strength=64 --label sort
lda --set prior_strength=64 --label kind --sep ;"""


def test_what_is_not_read_in_parts_is_said(work, tmp_path):
    rows = "--data", work / "rows/*.parquet", "--out", tmp_path / "out"
    lines = [refused("fit", *line.split(), *rows) for line in REFUSED.splitlines()]
    text = "\n".join(lines).replace("large_string", "string")  # By pandas' version.
    assert_expected(text, "cli/rows.txt", WORK=work, FOLDER=tmp_path)


def test_a_pattern_that_the_shell_expanded_is_to_be_quoted(work, tmp_path):
    found = sorted((work / "rows").glob("*.parquet"))
    assert len(found) > 1
    for words in (
        ("fit", "lda", "--data", *found, "--out", tmp_path),
        ("fit", "--data", *found, "lda", "--out", tmp_path),
        ("neighbors", "--metric", "m.npz", "--data", *found),
    ):
        done = run(*words)
        assert done.exit_code == 2
        said = re.sub(r"[\s│]+", "", done.stderr)
        assert "unexpectedextraargument" in said
        assert "putapatternoffilesinquotes:--data'FOLDER/*.parquet'" in said


def test_one_large_file_is_loaded_by_a_learner_of_all_rows(work, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_in_parts, "LARGE", 100)
    out = tmp_path / "out"
    ran("fit", "lda", "--data", work / "all.parquet", "--out", out)
    said = json.loads((out / "summary.json").read_text())
    assert "sampled" not in said["data"]


def test_every_learner_says_whether_it_streams(work):
    source = rows_in_parts.open_rows(str(work / "rows"), "kind")
    streams = {name for name in estimators() if refusal(make(name), source) is None}
    assert {"two_stage", "lca"} <= streams
    assert not streams & {"eig_dml", "mds", "dca_gm", "hierarchical_lca", "lda"}
    asked = make("lda", {"prior_strength": 3.0})
    assert refusal(asked, source) is None
    assert not hasattr(asked, "n_features_in_")


@pytest.mark.long
@pytest.mark.parametrize(
    "data", ["rows/*.parquet", "x*.npy", "all.parquet", "points.parquet"]
)
def test_neighbors_in_parts_are_those_of_points_loaded(
    data, work, loaded, tmp_path, monkeypatch
):
    monkeypatch.setattr(rows_in_parts, "LARGE", 100)
    table(7, seed=5)[NAMES].to_csv(tmp_path / "q.csv", index=False)
    metric = ("neighbors", "--metric", work / "loaded" / "metric.npz")
    asked = ("--queries", tmp_path / "q.csv", "-k", 3)
    label = [] if data[0] in "xp" else ["--label", "kind"]
    if data == "all.parquet":
        label = []
    parts = run(*metric, "--data", work / data, *asked, *label)
    whole = run(*metric, "--data", work / "all.csv", *asked)
    assert parts.exit_code == whole.exit_code == 0, parts.output
    found, wanted = (pd.read_csv(io.StringIO(r.stdout)) for r in (parts, whole))
    if data[0] in "xp":
        wanted = wanted.drop(columns="label")
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-12)


def test_neighbors_in_parts_need_queries_and_the_metrics_features(work, loaded):
    metric = ("neighbors", "--metric", work / "loaded" / "metric.npz")
    data = ("--data", work / "rows/*.parquet", "--label", "kind")
    assert "--queries is required" in refused(*metric, *data)
    queries = ("--queries", work / "x0.npy")
    ran(*metric, *data, *queries)
    said = refused(*metric, *data, "--drop", "mass", *queries)
    assert "without 'mass'" in said


@pytest.mark.long
@pytest.mark.parametrize("test", ["held.csv", "held*.parquet"])
def test_evaluate_in_parts_gives_the_figures_of_evaluate(test, work, loaded, tmp_path):
    held = table(40, seed=9).drop(columns="item")
    held.to_csv(work / "held.csv", index=False)
    held.to_parquet(work / "held0.parquet", row_group_size=15)
    metric = ("evaluate", "--metric", work / "loaded" / "metric.npz", "--label", "kind")
    words = ("--data", work / "rows/*.parquet", "--test", work / test)
    done = ran(*metric, *words, "--out", tmp_path / "out")
    assert "each neighbor has one vote" in done.stderr
    frame = pd.read_csv(work / "all.csv")
    knn = pm.KNeighborsClassifier(loaded, 5, votes="count")
    knn.fit(frame[NAMES].to_numpy(), frame["kind"].to_numpy())
    X, y = held[NAMES].to_numpy(), held["kind"].to_numpy()
    wanted = pm.evaluate(X, y, classifier=knn)
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert said["figures"]["metric.npz"] == pytest.approx(wanted, rel=1e-9)
    stated = pd.read_csv(tmp_path / "out" / "predictions.csv")
    stated = stated[stated["method"] == "metric.npz"]
    assert stated["row"].tolist() == list(range(40))
    assert (stated["truth"].to_numpy() == y).all()
    np.testing.assert_allclose(stated[["P(a)", "P(b)"]], knn.predict_proba(X))
    assert "One vote for each of the 5" in (tmp_path / "out/report.html").read_text()


def test_labels_that_are_numbers_are_those_of_a_table(work, loaded, tmp_path):
    number = {"a": 10, "b": 9}
    for name in ("held.csv", "more.parquet"):
        frame = table(60, seed=9).drop(columns="item")
        frame["kind"] = frame["kind"].map(number)
        if name.endswith("csv"):
            frame[:20].to_csv(tmp_path / name, index=False)
        else:
            (tmp_path / "parts").mkdir()
            frame.to_parquet(tmp_path / "parts" / name)
    metric = ("evaluate", "--metric", work / "loaded" / "metric.npz", "--label", "kind")
    words = ("--data", tmp_path / "parts", "--test", tmp_path / "held.csv")
    ran(*metric, *words, "--out", tmp_path / "out")
    stated = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert {"P(9)", "P(10)"} <= set(stated.columns)
    own = stated[stated["method"] == "metric.npz"]
    right = np.where(own["P(10)"] > own["P(9)"], 10, 9)
    assert (right == own["predicted"]).all()


@pytest.mark.long
def test_what_was_learned_stands_where_figures_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(cli_fit, "MOST", 30)
    frame = table(200).drop(columns="item")
    rare = np.setdiff1d(np.arange(200), sampled_rows(200, 30))[:3]
    frame["kind"] = np.where(np.isin(np.arange(200), rare), "b", "a")
    (tmp_path / "rows").mkdir()
    frame.to_parquet(tmp_path / "rows" / "0.parquet", row_group_size=50)
    out = tmp_path / "out"
    ran(*LDA, "--data", tmp_path / "rows", "--label", "kind", "--out", out)
    notes = json.loads((out / "summary.json").read_text())["notes"]
    assert any("no figures on training points" in note for note in notes)
    assert any(
        "rows were read in chunks: 200 rows with columns" in note for note in notes
    )
    assert metric_of(out).factor.shape[1] == len(NAMES)


@pytest.mark.slow
def test_two_workers_write_the_metric_of_one_process(work, loaded, tmp_path):
    pytest.importorskip("distributed")
    words = "--data", work / "rows", "--label", "kind", "--out", tmp_path / "out"
    done = ran(*LDA, *words, "--workers", 2)
    assert "dashboard: http://127.0.0.1:" in done.stderr
    np.testing.assert_allclose(
        metric_of(tmp_path / "out").factor, loaded.factor, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--workers", 2), "--workers requires distributed, .* extra 'dask'"),
        (("--workers", 2, "--scheduler", "tcp://h:1"), "cannot be combined with --sch"),
    ],
)
def test_workers_that_cannot_start_are_refused(
    words, wanted, work, tmp_path, monkeypatch
):
    monkeypatch.setattr(provenance, "find_spec", lambda name: None)
    data = "--data", work / "rows", "--label", "kind", "--out", tmp_path / "out"
    assert re.search(wanted, refused(*LDA, *data, *words))


def test_a_scheduler_that_does_not_answer_is_named(work, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cli_workers, "WAIT", 1)
    data = "--data", work / "rows", "--label", "kind", "--out", tmp_path / "out"
    said = refused(*LDA, *data, "--scheduler", "tcp://127.0.0.1:9")
    assert "--scheduler must be the address of a running Dask scheduler" in said
