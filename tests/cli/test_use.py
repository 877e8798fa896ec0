"""``neighbors``, ``evaluate`` and ``report``: what is stored is put to use."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric import LCA
from probmetric.cli import evaluate as cli_evaluate
from probmetric.datasets import loading as datasets
from probmetric.evaluation import verification, verification_intervals
from probmetric.evaluation.cross_validate import EUCLID
from probmetric.evaluation.evaluate import evaluate
from probmetric.neighbors.table import neighbor_table
from probmetric.posterior.metric import PosteriorMetric
from probmetric.storage.draws_file import save_draws
from tests.cli.runs import NAMES, refused, run, table, write_data


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with data, a fitted metric, and draws of one."""
    folder = tmp_path_factory.mktemp("work")
    write_data(folder)
    done = run("fit", "lda", "--data", folder / "data.csv", "--out", folder / "fit")
    assert done.exit_code == 0, done.output
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
    done = run("fit", "rca", "--data", data, "--store-votes", "--out", out)
    assert done.exit_code == 0, done.output
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
    assert "metric must be a Mahalanobis metric to store votes" in told


@pytest.mark.long
def test_novel_queries_and_unknown_classes_are_counted(work, tmp_path):
    held = table(40, seed=3).drop(columns="item")
    held.loc[:9, NAMES] += 40.0
    held.loc[:9, "kind"] = "new"
    held.to_csv(tmp_path / "held.csv", index=False)
    metric = ("--metric", metric_of(work), "--data", work / "data.csv")
    how = ("--queries", tmp_path / "held.csv", "-k", 2, "--novelty", 0.05)
    done = run("neighbors", *metric, *how)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    X = datasets.load(work / "data.csv").X
    knn = pm.KNeighborsClassifier(pm.load_metric(metric_of(work)))
    knn.fit(X, np.arange(60) % 2)
    p = np.repeat(knn.typicality(held[NAMES].to_numpy()), 2)
    np.testing.assert_allclose(found["typicality"], p, rtol=1e-12)
    assert found["novel"].tolist() == (p <= 0.05).tolist()
    assert found["novel"][:20].all()
    words = (*metric, "--test", tmp_path / "held.csv")
    done = run("evaluate", *words, "--novelty", 0.05, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    figures = pd.read_csv(tmp_path / "run" / "evaluation.csv").set_index("method")
    learned = figures.drop(EUCLID).iloc[0]
    assert learned["caught"] == 1
    assert learned["false_alarms"] == np.mean(p[20::2] <= 0.05)
    assert "typicality" in pd.read_csv(tmp_path / "run" / "predictions.csv")
    assert "--novelty" in refused("evaluate", *words)
    line = refused("neighbors", *metric, "--novelty", 0.05)
    assert "--novelty requires --queries" in line


@pytest.mark.long
def test_a_page_to_explore_is_written_once(work, tmp_path):
    out = tmp_path / "page.html"
    given = ("--draws", work / "draws.nc", "--data", work / "data.csv", "-k", 4)
    done = run("explore", *given, "--out", out)
    assert done.exit_code == 0, done.output
    page = out.read_text(encoding="utf-8")
    assert '"k":4' in page
    assert all(name in page for name in NAMES)
    line = refused("explore", *given, "--out", out)
    assert "Add --force" in line
    line = refused("explore", *given, "--out", tmp_path / "page.txt")
    assert "--out must end in .html, got 'page.txt'" in line


def test_a_stored_posterior_is_taken_as_a_metric_file(work, tmp_path):
    metric = pm.load_metric(metric_of(work))
    posterior = PosteriorMetric([metric, metric], "prediction")
    pm.save_metric(posterior, tmp_path / "m.npz")
    done = run("neighbors", "--metric", tmp_path / "m.npz", "--data", work / "data.csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    assert (found["probability"] == 1).all()


@pytest.mark.long
def test_a_metric_that_is_no_distance_has_no_distance_column():
    from tests.metric_kinds import build

    X = np.random.default_rng(0).normal(size=(9, 3))
    assert "distance" not in neighbor_table(build("PairSimilarity"), X, 2)
    assert "distance" in neighbor_table(build("ClassDistribution"), X, 2)


def test_evaluate_on_a_test_file_gives_the_figures_of_evaluate(
    work, tmp_path, rendered
):
    held = tmp_path / "held.csv"
    table(40, seed=3).drop(columns="item").to_csv(held, index=False)
    done = run(
        *("evaluate", "--metric", metric_of(work), "--data", work / "data.csv"),
        *("--test", held, "--out", tmp_path / "run"),
    )
    assert done.exit_code == 0, done.output
    assert "log_loss" in done.stdout
    data, test = datasets.load(work / "data.csv"), datasets.load(held)
    metric = pm.load_metric(metric_of(work))
    classifier = pm.KNeighborsClassifier(metric).fit(data.X, data.labels)
    wanted = evaluate(test.X, test.labels, classifier=classifier)
    said = json.loads((tmp_path / "run" / "summary.json").read_text())
    found = said["figures"]["metric.npz"]
    assert found.keys() == wanted.keys()
    np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-9)
    frame = pd.read_csv(tmp_path / "run" / "evaluation.csv")
    assert frame["method"].tolist() == ["Euclidean, standardized", "metric.npz"]
    stated = pd.read_csv(tmp_path / "run" / "predictions.csv")
    own = stated[stated["method"] == "metric.npz"]
    assert own["row"].tolist() == list(range(40))
    assert (own["truth"] == own["predicted"]).mean() == pytest.approx(
        wanted["accuracy"]
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Are the probabilities calibrated?" in page
    assert "<h1>metric.npz evaluated on data.csv</h1>" in page
    assert "evaluated on 40 points of held.csv" in page
    assert "95% Wilson intervals" in page


@pytest.mark.long
def test_folds_of_a_metric_that_saw_them_are_told_to_be_too_good(work, tmp_path):
    words = ("--data", work / "data.csv", "--label", "kind", "--folds", 2)
    done = run(
        *("evaluate", "--metric", metric_of(work), *words, "--out", tmp_path / "run")
    )
    assert done.exit_code == 0, done.output
    assert "was learned from the same points" in done.stderr
    assert "was learned from the same" in (tmp_path / "run" / "report.html").read_text()
    refit = run("evaluate", "--model", "lda", *words)
    assert refit.exit_code == 0, refit.output
    assert "note" not in refit.stderr


@pytest.mark.long
def test_a_model_is_learned_without_the_points_held_out(work, monkeypatch):
    seen = []
    real = cli_evaluate.fit_named

    def watched(estimator, data):
        seen.append({tuple(row) for row in data.X})
        return real(estimator, data)

    monkeypatch.setattr(cli_evaluate, "fit_named", watched)
    words = ("--data", work / "data.csv", "--folds", 3, "--set", "n_components=1")
    assert run("evaluate", "--model", "lda", *words).exit_code == 0
    data = datasets.load(work / "data.csv")
    assert [len(rows) for rows in seen] == [40, 40, 40]
    everyone = {tuple(row) for row in data.X}
    assert set.union(*(everyone - rows for rows in seen)) == everyone


@pytest.fixture(scope="module")
def voices(tmp_path_factory):
    """Forty sources of three rows, sources without order, and a similarity of them."""
    folder = tmp_path_factory.mktemp("voices")
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(40, 2)) * [3.0, 1.0]
    X = np.repeat(mean, 3, axis=0) + 0.5 * rng.normal(size=(120, 2))
    names = np.char.add("s", np.repeat(np.arange(40), 3).astype(str))
    frame = pd.DataFrame(X, columns=["f1", "f2"]).assign(who=names)
    frame.to_csv(folder / "new.csv", index=False)
    mixed = frame.assign(who=rng.permutation(names))
    mixed.to_csv(folder / "mixed.csv", index=False)
    frame.assign(who=frame["f1"] > 0).to_csv(folder / "two.csv", index=False)
    frame.assign(who=np.arange(120)).to_csv(folder / "alone.csv", index=False)
    frame.assign(who=[None, *names[1:]]).to_csv(folder / "hole.csv", index=False)
    frame.assign(f1=np.nan).to_csv(folder / "lacking.csv", index=False)
    frame.rename(columns={"f1": "pitch"}).to_csv(folder / "other.csv", index=False)
    between, noise = np.diag([9.0, 1.0])[None], 0.25 * np.eye(2)[None]
    metric = pm.metric.PairSimilarity(np.zeros(1), np.zeros((1, 2)), between, noise)
    pm.save_metric(metric, folder / "m.npz", feature_names=["f1", "f2"])
    pm.save_metric(pm.Mahalanobis(np.eye(2)), folder / "plain.npz")
    return folder


def test_pairs_of_sources_are_judged_as_in_python(voices, tmp_path, rendered):
    words = ("--data", voices / "new.csv", "--groups", "who")
    words = (*words, "--metric", voices / "m.npz", "--out", tmp_path / "run")
    done = run("evaluate", *words)
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(voices / "new.csv")
    X, who = frame[["f1", "f2"]].to_numpy(), frame["who"].to_numpy()
    metric = pm.load_metric(voices / "m.npz")
    wanted = evaluate(X, who, metric=metric)
    i, j = np.triu_indices(120, 1)
    ratios, same = metric.log_ratio(X[i], X[j]), who[i] == who[j]
    limits = verification_intervals(ratios, same, np.c_[who[i], who[j]])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    page = (tmp_path / "run" / "report.html").read_text()
    row = pd.read_csv(tmp_path / "run" / "evaluation.csv").set_index("method")
    for cost, (low, high) in limits._asdict().items():
        found = summary["figures"]["m.npz"][cost]
        assert found == pytest.approx(wanted[cost], rel=1e-9)
        ends = summary["intervals"]["m.npz"][cost]
        assert ends == pytest.approx([float(low), float(high)], rel=1e-9)
        columns = [cost, f"{cost}_lower", f"{cost}_upper"]
        assert row.loc["m.npz", columns].tolist() == pytest.approx([found, *ends])
        said = f"{found:.4f} [{low:.4f}, {high:.4f}]"
        assert said in done.stdout
        assert said in page
    assert summary["figures"]["Euclidean, standardized"]["cllr"] is None
    assert (
        "40 sources: 120 same-source pairs, 7,020 different-source pairs" in done.stdout
    )
    assert "Errors at each threshold" in page
    assert re.search(r"40</b>\s*<span>sources", page)
    assert "misses: one source called two" in page
    stated = pd.read_csv(tmp_path / "run" / "predictions.csv")
    again = verification(stated["m.npz"], stated["same"])
    assert again.eer == pytest.approx(wanted["eer"], rel=1e-9)
    (tmp_path / "run" / "report.html").unlink()
    assert run("report", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text() == page


@pytest.mark.filterwarnings("default:Cllr is")
def test_sources_without_order_are_not_told_apart(voices):
    metric = ("--metric", voices / "m.npz", "--groups", "who")
    done = run("evaluate", "--data", voices / "mixed.csv", *metric)
    assert done.exit_code == 0, done.output
    assert "Cllr is 13" in done.stderr
    (line,) = [at for at in done.stdout.splitlines() if at.startswith("eer ")]
    eer, low, high = map(float, re.findall(r"\d\.\d+", line)[-3:])
    assert 0.4 < eer <= 0.5
    assert low < 0.5 == high
    true = run("evaluate", "--data", voices / "new.csv", *metric).stdout
    (line,) = [at for at in true.splitlines() if at.startswith("eer ")]
    assert float(re.findall(r"\d\.\d+", line)[-3]) < 0.2


def test_a_distance_has_every_cost_but_that_of_ratios(voices):
    words = ("--data", voices / "new.csv", "--groups", "who")
    done = run("evaluate", *words, "--metric", voices / "plain.npz")
    assert done.exit_code == 0, done.output
    assert re.search(r"cllr +– +–", done.stdout)
    wide = pd.read_csv(voices / "new.csv").assign(more=1.0)
    wide.to_csv(voices / "wide.csv", index=False)
    words = ("--data", voices / "wide.csv", "--groups", "who")
    line = refused("evaluate", *words, "--metric", voices / "plain.npz")
    assert line.endswith("wide.csv, got 3")
    assert re.search(r"eer +0\.\d+ \[.*\] +0\.\d+ \[", done.stdout)


@pytest.mark.long
def test_report_writes_the_page_again_and_nothing_but_it(work, tmp_path, rendered):
    out = tmp_path / "run"
    done = run("fit", "lda", "--data", work / "data.csv", "--out", out)
    assert done.exit_code == 0
    page = (out / "report.html").read_text()
    (out / "report.html").write_text("old")
    assert run("report", out).exit_code == 0
    assert (out / "report.html").read_text() == page
    (out / "report.html").unlink()
    assert run("report", out).exit_code == 0
    (out / "report.html").unlink()  # It was there.
    (out / "report.html").mkdir()
    assert "--out must be a file name" in refused("report", out)


@pytest.mark.long
def test_report_writes_an_explorer_of_a_fit_and_leads_to_it(work, tmp_path):
    pytest.importorskip("plotly")
    out, data = tmp_path / "run", tmp_path / "data.csv"
    data.write_bytes((work / "data.csv").read_bytes())
    run("fit", "lda", "--data", data, "--out", out)
    assert "explorer.html" not in (out / "report.html").read_text()
    assert run("report", out, "--explore").exit_code == 0
    page = (out / "explorer.html").read_text()
    assert "Plotly" in page
    assert "<title>data.csv under metric.npz</title>" in page
    assert 'href="explorer.html"' in (out / "report.html").read_text()
    assert run("report", out).exit_code == 0  # Not asked for: it may be of another fit.
    assert "explorer.html" not in (out / "report.html").read_text()
    data.unlink()
    wanted = "--explore requires the data of the run"
    assert wanted in refused("report", out, "--explore")
    assert (out / "explorer.html").read_text() == page


TEXT = ("--sep", ";", "--decimal", ",", "--encoding", "latin-1", "--drop", "when")


@pytest.mark.long
def test_a_table_of_a_spreadsheet_serves_every_command(tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "run"
    frame = table().drop(columns="item").assign(when="1.2.2020")
    frame = frame.rename(columns={"mass": "höhe"})[[*frame.columns[:2], "höhe", "kind"]]
    frame.insert(0, "when", "1.2.2020")
    frame.to_csv(data, index=False, sep=";", decimal=",", encoding="latin-1")
    done = run("fit", "lda", "--data", data, "--out", out, *TEXT)
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text()
    again = run("report", out, "--force")
    assert again.exit_code == 0, again.output
    assert "left out" not in page
    assert (out / "report.html").read_text() == page
    metric = ("--metric", out / "metric.npz")
    found = run("neighbors", *metric, "--data", data, "--queries", data, *TEXT)
    assert found.exit_code == 0, found.output
    folds = run("evaluate", "--model", "lda", "--data", data, "--folds", "2", *TEXT)
    assert folds.exit_code == 0, folds.output
    test = run("evaluate", *metric, "--data", data, "--test", data, *TEXT)
    assert test.exit_code == 0, test.output
    drawn = run(
        *("sample", "lca", "--method", "laplace", "--draws", "20"),
        *("--set", "n_components=2"),
        *("--data", data, "--out", tmp_path / "draws", *TEXT),
    )
    assert drawn.exit_code == 0, drawn.output


def test_columns_too_many_are_named_with_the_options_that_leave_them_out(
    work, tmp_path
):
    two = table().assign(extra=1.0)
    two.to_csv(tmp_path / "two.csv", index=False)
    words = ("neighbors", "--metric", metric_of(work), "--data", tmp_path / "two.csv")
    line = refused(*words)
    assert re.search(r"with 'item', 'kind', 'extra'\. .*--features.*--drop", line), line
    assert "'item', 'extra'" in refused(*words, "--label", "kind")
    done = run(*words, "--label", "kind", "--drop", "item", "--drop", "extra")
    assert done.exit_code == 0, done.output


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
