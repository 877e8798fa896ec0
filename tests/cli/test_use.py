"""``neighbors``, ``evaluate`` and ``report``: what is stored is put to use."""

import io
import re

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric import LCA
from probmetric.cli import evaluate as cli_evaluate
from probmetric.datasets import loading as datasets
from probmetric.evaluation.cross_validate import EUCLID
from probmetric.neighbors.table import neighbor_table
from probmetric.posterior.metric import PosteriorMetric
from probmetric.storage.draws_file import save_draws
from tests.cli.runs import NAMES, ran, refused, run, table, write_data


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with data, a fitted metric, and draws of one."""
    folder = tmp_path_factory.mktemp("work")
    write_data(folder)
    ran("fit", "lda", "--data", folder / "data.csv", "--out", folder / "fit")
    loaded = datasets.load(folder / "data.csv")
    fitted = LCA(2).fit(loaded.frame, loaded.y)
    # Without densities of the draws: the fewer arrays, the sooner they are read.
    draws = fitted.sample("laplace", n_draws=20, n_chains=1, seed=0, log_prior=False)
    save_draws(draws, folder / "draws.nc")
    return folder


def metric_of(work):
    return work / "fit" / "metric.npz"


@pytest.mark.long
def test_stored_votes_give_p_same_of_neighbors(work, tmp_path):
    data, out = work / "data.csv", tmp_path / "fit"
    ran("fit", "rca", "--data", data, "--store-votes", "--out", out)
    metric = out / "metric.npz"
    queries = table(7, seed=5)[NAMES]
    queries.to_csv(tmp_path / "q.csv", index=False)
    asked = "--data", data, "--queries", tmp_path / "q.csv"
    made = pd.read_csv(io.StringIO(run("neighbors", "--metric", metric, *asked).stdout))
    loaded = datasets.load(data)
    knn = pm.KNeighborsClassifier(pm.RCA()).fit(loaded.X, loaded.labels)
    P = knn.predict_proba(queries.to_numpy())[made["query"]]
    wanted = P[np.arange(len(made)), (made["label"] == "b").astype(int)]
    np.testing.assert_allclose(made["same_probability"], wanted, rtol=1e-6)
    plain = pd.read_csv(
        io.StringIO(run("neighbors", "--metric", metric_of(work), *asked).stdout)
    )
    assert "same_probability" not in plain
    told = refused("fit", "glml", "--data", data, "--store-votes", "--out", out / "g")
    assert "metric must be a Mahalanobis metric to store" in told


@pytest.mark.long
def test_stored_refits_give_intervals_and_probabilities_of_neighbors(work, tmp_path):
    data, out = work / "data.csv", tmp_path / "fit"
    settings = "--set", "n_components=2"
    ran("fit", "lca", "--data", data, *settings, "--intervals", "--out", out)
    given = "--metric", out / "metric.npz", "--data", data
    found = pd.read_csv(io.StringIO(ran("neighbors", *given, "-k", 3).stdout))
    loaded = datasets.load(data)
    fitted = LCA(2, random_state=0).fit(loaded.frame, loaded.y)
    wide = fitted.posterior_metric("intervals")
    wanted = neighbor_table(wide, loaded.X, 3, labels=loaded.labels)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    q, near = loaded.X[found["query"]], loaded.X[found["neighbor"]]
    np.testing.assert_allclose(found["distance"], fitted.get_metric().distance(q, near))
    limits = wide.interval(q, near, prob=0.9)
    np.testing.assert_allclose([found["lower"], found["upper"]], limits)
    # Other commands use the fit.
    ran("evaluate", *given, "--folds", 2, "--out", tmp_path / "scores")
    queries = "--queries", data, "--novelty", 0.1
    assert "novel" in ran("neighbors", *given, *queries).stdout
    assert "refits" in (out / "report.html").read_text()


def test_intervals_require_a_fit_of_lca_to_class_labels(work, tmp_path):
    words = "--data", work / "data.csv", "--intervals", "--out", tmp_path / "x"
    line = refused("fit", "lda", *words)
    assert "got lda and" in line
    assert "data.csv. Omit --intervals." in line
    line = refused("fit", "lca", *words, "--store-votes")
    assert "--intervals cannot be combined with --store-votes." in line


def test_a_stored_posterior_is_taken_as_a_metric_file(work, tmp_path):
    metric = pm.load_metric(metric_of(work))
    posterior = PosteriorMetric([metric, metric], "intervals")
    pm.save_metric(posterior, tmp_path / "m.npz")
    done = ran("neighbors", "--metric", tmp_path / "m.npz", "--data", work / "data.csv")
    found = pd.read_csv(io.StringIO(done.stdout))
    assert (found["probability"] == 1).all()


@pytest.mark.long
def test_a_metric_that_is_no_distance_has_no_distance_column():
    from tests.metric_kinds import build

    X = np.random.default_rng(0).normal(size=(9, 3))
    assert "distance" not in neighbor_table(build("PairSimilarity"), X, 2)
    assert "distance" in neighbor_table(build("ClassDistribution"), X, 2)


@pytest.mark.long
def test_a_model_is_learned_without_the_points_held_out(work, monkeypatch):
    seen = []
    real = cli_evaluate.fit_named

    def watched(estimator, data):
        seen.append({tuple(row) for row in data.X})
        return real(estimator, data)

    monkeypatch.setattr(cli_evaluate, "fit_named", watched)
    words = ("--data", work / "data.csv", "--folds", 3, "--set", "n_components=1")
    ran("evaluate", "--model", "lda", *words)
    data = datasets.load(work / "data.csv")
    assert [len(rows) for rows in seen] == [40, 40, 40]
    everyone = {tuple(row) for row in data.X}
    assert set.union(*(everyone - rows for rows in seen)) == everyone


@pytest.mark.long
def test_report_writes_the_page_again_and_nothing_but_it(work, tmp_path, rendered):
    out = tmp_path / "run"
    ran("fit", "lda", "--data", work / "data.csv", "--out", out)
    page = (out / "report.html").read_text()
    (out / "report.html").write_text("old")
    ran("report", out)
    assert (out / "report.html").read_text() == page
    (out / "report.html").unlink()
    ran("report", out)
    (out / "report.html").unlink()  # It was there.
    (out / "report.html").mkdir()
    assert "--out must be a file name" in refused("report", out)


TEXT = ("--sep", ";", "--decimal", ",", "--encoding", "latin-1", "--drop", "when")


@pytest.mark.long
def test_a_table_of_a_spreadsheet_serves_every_command(tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "run"
    frame = table().drop(columns="item").assign(when="1.2.2020")
    frame = frame.rename(columns={"mass": "höhe"})[[*frame.columns[:2], "höhe", "kind"]]
    frame.insert(0, "when", "1.2.2020")
    frame.to_csv(data, index=False, sep=";", decimal=",", encoding="latin-1")
    ran("fit", "lda", "--data", data, "--out", out, *TEXT)
    page = (out / "report.html").read_text()
    ran("report", out, "--force")
    assert "left out" not in page
    assert (out / "report.html").read_text() == page
    metric = ("--metric", out / "metric.npz")
    ran("neighbors", *metric, "--data", data, "--queries", data, *TEXT)
    ran("evaluate", "--model", "lda", "--data", data, "--folds", "2", *TEXT)
    ran("evaluate", *metric, "--data", data, "--test", data, *TEXT)
    ran(
        *("sample", "lca", "--method", "laplace", "--draws", "20"),
        *("--set", "n_components=2"),
        *("--data", data, "--out", tmp_path / "draws", *TEXT),
    )


def test_columns_too_many_are_named_with_the_options_that_leave_them_out(
    work, tmp_path
):
    two = table().assign(extra=1.0)
    two.to_csv(tmp_path / "two.csv", index=False)
    words = ("neighbors", "--metric", metric_of(work), "--data", tmp_path / "two.csv")
    line = refused(*words)
    assert re.search(r"with 'item', 'kind', 'extra'\. .*--features.*--drop", line), line
    assert "'item', 'extra'" in refused(*words, "--label", "kind")
    ran(*words, "--label", "kind", "--drop", "item", "--drop", "extra")


def test_methods_keep_their_order_whatever_their_names():
    """The last one is the learned metric in the report."""
    frame = pd.DataFrame({"row": [0]})
    scored = [
        cli_evaluate.Scored(name, split, {"accuracy": score}, frame)
        for split, scores in enumerate(([0.5, 0.75], [0.25, 1.0]))
        for name, score in zip((EUCLID, "A.npz"), scores, strict=True)
    ]
    result = cli_evaluate._means(scored)
    assert list(result.summary["figures"]) == [EUCLID, "A.npz"]
    assert result.summary["figures"]["A.npz"] == {"accuracy": 0.875}
