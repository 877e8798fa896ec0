"""Answers on the command line: what is learned is what Python learns from them."""

import json

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli.answers import Answered, Table, figures_of, read_table
from probmetric.evaluation import answer_scores
from probmetric.names import Reading
from probmetric.storage.draws_file import load_draws, posterior_of
from tests.cli.runs import assert_same_metric, ran, refused, run

SITES = ["rain", "pH"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Twenty-one sites, what pairs of them share, triplets, and the paths of tables."""
    folder, rng = tmp_path_factory.mktemp("answers"), np.random.default_rng(0)
    X = rng.random((21, 2))
    i, j = np.triu_indices(21, 1)
    trials = rng.integers(5, 20, len(i))
    shared = rng.binomial(trials, np.exp(-0.2 - 2 * np.abs(X[i, 0] - X[j, 0])))
    counts = pd.DataFrame({"i": i, "j": j, "y": shared, "trials": trials})
    asked = np.stack([rng.permutation(21)[:3] for _ in range(200)])
    d = np.sum((X[asked] - X[asked[:, :1]]) ** 2, -1)
    triplets = pd.DataFrame(asked, columns=["anchor", "near", "far"])
    triplets["y"] = (d[:, 1] < d[:, 2]).astype(int)
    pairs = counts.assign(y=(rng.random(len(i)) < shared / trials).astype(int))
    pairs = pairs.drop(columns="trials").assign(weight=1.0 + np.arange(len(i)) % 2)
    tables = {"counts": counts, "triplets": triplets, "pairs": pairs}
    paths = {name: folder / f"{name}.csv" for name in [*tables, "sites"]}
    for name, frame in tables.items():
        frame.to_csv(paths[name], index=False)
    pd.DataFrame(X, columns=SITES).to_csv(paths["sites"], index=False)
    return X, tables, paths


def learned(paths, out, model, answers, *more, command="fit"):
    """Run a command on answers about sites; return the folder."""
    words = () if model == "triplet_embedding" else ("--data", paths["sites"])
    given = "--answers", paths[answers], "--out", out
    ran(command, model, *words, *given, *more)
    return out


def of_pairs(learner, X, table):
    """Fit to pairs in Python."""
    learner.set_params(preprocessor=X)
    more = {"trials": table.trials} if "trials" in table else {}
    more |= {"sample_weight": table.weight} if "weight" in table else {}
    return learner.fit_pairs(table[["i", "j"]].to_numpy(), table.y, **more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "make", "answers"),
    [
        ("gdm", pm.GDM, "counts"),
        ("lca", pm.LCA, "counts"),
        ("point_effects", pm.PointEffectsLCA, "pairs"),
        ("pair_lda", pm.PairLDA, "pairs"),
        ("eig_dml", pm.EigDML, "pairs"),
        ("hierarchical_lca", pm.HierarchicalLCA, "pairs"),
    ],
)
def test_pairs_and_counts_are_learned_from_as_in_python(
    world, tmp_path, model, make, answers
):
    X, tables, paths = world
    stored = pm.load_metric(learned(paths, tmp_path, model, answers) / "metric.npz")
    direct = of_pairs(make(), X, tables[answers]).get_metric()
    assert_same_metric(stored, direct)
    said = json.loads((tmp_path / "summary.json").read_text())
    assert said["data"]["features"] == SITES
    assert said["data"]["answers"]["n"] == len(tables[answers])
    assert said["arguments"]["preprocessor"] == "None"
    page = (tmp_path / "report.html").read_text()
    assert "The learned metric" in page
    assert "pairs" in page


@pytest.mark.long
def test_triplets_are_learned_from_as_in_python(world, tmp_path):
    X, tables, paths = world
    rows, y = tables["triplets"][["anchor", "near", "far"]], tables["triplets"].y
    out = learned(paths, tmp_path / "points", "TripletMetric", "triplets")
    direct = pm.TripletMetric(preprocessor=X).fit_triplets(rows.to_numpy(), y)
    np.testing.assert_array_equal(
        pm.load_metric(out / "metric.npz").factor, direct.components_
    )
    out = learned(paths, tmp_path / "objects", "triplet_embedding", "triplets")
    placed = pm.TripletEmbedding().fit(rows.to_numpy(), y)
    np.testing.assert_array_equal(
        pm.load_metric(out / "metric.npz").factor, placed.embedding_.T
    )
    assert "Coordinates of the objects" in (out / "report.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize("model", ["triplet_comparisons", "triplet_embedding"])
def test_draws_of_answers_are_those_of_python(world, tmp_path, model):
    X, tables, paths = world
    rows, y = tables["triplets"][["anchor", "near", "far"]].to_numpy(), "y"
    words = "--method", "laplace", "--draws", 20
    out = learned(paths, tmp_path, model, "triplets", *words, command="sample")
    y = tables["triplets"].y
    if model == "triplet_embedding":
        direct = pm.TripletEmbedding().fit(rows, y)
    else:
        direct = pm.TripletMetric(preprocessor=X).fit_triplets(rows, y)
    drawn = direct.sample("laplace", n_draws=20, n_chains=1, seed=0)
    found = load_draws(out / "draws.nc")
    np.testing.assert_array_equal(found["posterior"]["M"], drawn["posterior"]["M"])
    assert posterior_of(found).n_draws == 20
    ran("report", out)


def test_a_label_column_of_the_points_is_no_feature(world, tmp_path):
    X, _, paths = world
    named = pd.DataFrame(X, columns=SITES).assign(place=list("abc") * 7)
    named.to_csv(tmp_path / "named.csv", index=False)
    given = {**paths, "sites": tmp_path / "named.csv"}
    label = "--label", "place"
    out = learned(given, tmp_path / "run", "pair_lda", "pairs", *label)
    said = json.loads((out / "summary.json").read_text())
    assert said["data"]["features"] == SITES


@pytest.fixture(scope="module")
def halves(world, tmp_path_factory):
    """Every other row of the tables, to learn from and to judge by."""
    folder = tmp_path_factory.mktemp("halves")
    paths = {}
    for name, frame in world[1].items():
        for half, some in ("learn", frame[::2]), ("judge", frame[1::2]):
            paths[name, half] = folder / f"{name}_{half}.csv"
            some.to_csv(paths[name, half], index=False)
    return paths


def judged(out):
    """Return the figures of what was judged, the constant's, and the notes."""
    said = json.loads((out / "summary.json").read_text())
    base, own = said["figures"].values()
    return own, base, said["notes"]


@pytest.mark.long
def test_answers_held_out_judge_a_metric_as_in_python(world, halves, tmp_path):
    X, tables, paths = world
    sites, fitted, out = ("--data", paths["sites"]), tmp_path / "fit", tmp_path / "out"
    learn, judge = halves["counts", "learn"], halves["counts", "judge"]
    ran("fit", "gdm", *sites, "--answers", learn, "--out", fitted)
    metric = "--metric", fitted / "metric.npz"
    ran("evaluate", *sites, "--answers", judge, *metric, "--out", out)
    table = tables["counts"]
    model = of_pairs(pm.GDM(), X, table[::2])
    P = model.same_probability(table[["i", "j"]].to_numpy()[1::2])
    rest = table[1::2]
    own, base, notes = judged(out)
    want = answer_scores(P, rest.y, trials=rest.trials)
    np.testing.assert_allclose([own[k] for k in want], list(want.values()), rtol=1e-9)
    share = rest.y.sum() / rest.trials.sum()
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    np.testing.assert_allclose(base["log_loss"], entropy)
    assert notes == []
    assert "log loss" in (out / "report.html").read_text()
    # A learner with --test is the same; of what it learned from, it is said.
    answers = "--answers", learn
    again = run(
        "evaluate", *sites, *answers, "--model", "gdm", "--test", judge,
        "--out", tmp_path / "again",
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    np.testing.assert_allclose(
        judged(tmp_path / "again")[0]["log_loss"], own["log_loss"], rtol=1e-9
    )
    seen = run("evaluate", *sites, *answers, *metric)
    assert "learned from the same judgments" in seen.output


@pytest.mark.long
def test_triplets_held_out_judge_draws_of_objects(world, halves, tmp_path):
    tables = world[1]
    words = "--method", "laplace", "--draws", 20, "--out", tmp_path / "draws"
    learn = "--answers", halves["triplets", "learn"]
    ran("sample", "triplet_embedding", *learn, *words)
    draws = "--draws", tmp_path / "draws" / "draws.nc"
    out, judge = tmp_path / "out", halves["triplets", "judge"]
    ran("evaluate", "--answers", judge, *draws, "--out", out)
    M = np.asarray(load_draws(draws[1])["posterior"]["M"])[0]
    rest = tables["triplets"][1::2]
    a, p, q = rest[["anchor", "near", "far"]].to_numpy().T
    d2 = np.diagonal(M, axis1=1, axis2=2)
    t = (d2[:, q] - 2 * M[:, a, q]) - (d2[:, p] - 2 * M[:, a, p])
    P = (1 / (1 + np.exp(-t))).mean(0)
    own, base, _ = judged(out)
    want = answer_scores(P, rest.y)
    for name in ("accuracy", "log_loss", "brier"):
        np.testing.assert_allclose(own[name], want[name], rtol=1e-6)
    np.testing.assert_allclose([base["accuracy"], base["ece"]], [0.5, 0], atol=1e-12)
    # Exchanged throughout, they are the same answers.
    turned = rest.rename(columns={"near": "far", "far": "near"}).assign(y=1 - rest.y)
    turned.to_csv(tmp_path / "turned.csv", index=False)
    ran(
        "evaluate",
        "--answers",
        tmp_path / "turned.csv",
        *draws,
        "--out",
        out,
        "--force",
    )
    for name, value in judged(out)[0].items():
        np.testing.assert_allclose(value, own[name], rtol=1e-6)


@pytest.mark.long
def test_answers_in_folds_judge_a_learner_and_what_has_no_probability_is_ranked(
    world, halves, tmp_path
):
    sites = "--data", world[2]["sites"]
    asked = *sites, "--answers", halves["pairs", "judge"], "--model", "pair_lda"
    ran("evaluate", *asked, "--folds", 2, "--out", tmp_path)
    own, _, notes = judged(tmp_path)
    assert own["log_loss"] is None
    assert own["roc_auc"] > 0.6
    assert any("judgments share rows" in said for said in notes)
    assert "ROC-AUC" in (tmp_path / "report.html").read_text()


@pytest.mark.long
def test_quadruplets_are_learned_from_and_judge(world, tmp_path):
    X, _, paths = world
    rng = np.random.default_rng(2)
    rows = np.stack([rng.permutation(21)[:4] for _ in range(200)])
    d = np.linalg.norm(X[rows[:, ::2]] - X[rows[:, 1::2]], axis=-1)
    columns = ["anchor", "near", "other", "far"]
    table = pd.DataFrame(rows, columns=columns).assign(y=(d[:, 0] < d[:, 1]) * 1)
    path = tmp_path / "quadruplets.csv"
    table.to_csv(path, index=False)
    given = {**paths, "quadruplets": path}
    out = learned(given, tmp_path / "fit", "TripletMetric", "quadruplets")
    direct = pm.TripletMetric(preprocessor=X).fit_triplets(rows, table.y)
    factor = pm.load_metric(out / "metric.npz").factor
    np.testing.assert_array_equal(factor, direct.components_)
    asked = "--data", paths["sites"], "--answers", path
    metric = "--metric", out / "metric.npz"
    ran("evaluate", *asked, *metric, "--out", tmp_path / "out")
    want = answer_scores(direct.triplet_probability(rows), table.y)
    own, base, _ = judged(tmp_path / "out")
    np.testing.assert_allclose(own["log_loss"], want["log_loss"], rtol=1e-6)
    np.testing.assert_allclose(base["log_loss"], np.log(2))


def test_named_objects_and_columns_of_other_programs_are_read(tmp_path):
    rng = np.random.default_rng(0)
    numbers = np.stack([rng.permutation(5)[:3] for _ in range(40)])
    names = np.array(["ant", "bee", "cow", "dog", "eel"])
    columns = {"plain.csv": (numbers, ["anchor", "near", "far"])}
    columns["named.csv"] = names[numbers], ["head", "winner", "loser"]
    columns["other.csv"] = names[numbers[:9]], ["anchor", "positive", "negative"]
    for file, (rows, header) in columns.items():
        pd.DataFrame(rows, columns=header).to_csv(tmp_path / file, index=False)
    found = {}
    for kind in ("plain", "named"):
        out = tmp_path / kind
        words = "--answers", tmp_path / f"{kind}.csv", "--out", out
        ran("fit", "triplet_embedding", *words)
        found[kind] = pm.load_metric(out / "metric.npz")
    np.testing.assert_array_equal(found["plain"].factor, found["named"].factor)
    assert found["named"].feature_names_in_ == tuple(names)
    metric = "--metric", tmp_path / "named" / "metric.npz"
    ran("evaluate", *metric, "--answers", tmp_path / "other.csv")
    # Objects of a test table have the numbers of the fit, also if some are absent.
    rows = numbers[(numbers > 0).all(1)]
    pd.DataFrame(names[rows], columns=["anchor", "near", "far"]).to_csv(
        tmp_path / "absent.csv", index=False
    )
    words = "--model", "triplet_embedding", "--answers", tmp_path / "named.csv"
    out = tmp_path / "judged"
    ran("evaluate", *words, "--test", tmp_path / "absent.csv", "--out", out)
    table = pd.read_csv(out / "predictions.csv")
    table = table[table["method"] == "triplet_embedding"]
    learner = pm.TripletEmbedding().fit(names[numbers])
    np.testing.assert_allclose(table["P"], learner.triplet_probability(names[rows]))
    assert table["anchor"].tolist() == names[rows[:, 0]].tolist()
    # New objects cannot be predicted, so no note recommends them.
    done = run("evaluate", *words, "--folds", 2, "--out", tmp_path / "folds")
    assert done.exit_code == 0, done.output
    assert not any("share rows" in said for said in judged(tmp_path / "folds")[2])
    unknown = pd.DataFrame([["ant", "fox", "bee"]], columns=columns["other.csv"][1])
    unknown.to_csv(tmp_path / "unknown.csv", index=False)
    said = refused("evaluate", *metric, "--answers", tmp_path / "unknown.csv")
    assert "--answers must contain only objects of the fit, got 'fox'" in said
    data = (
        "--data",
        "iris",
        "--answers",
        tmp_path / "named.csv",
        "--out",
        tmp_path / "x",
    )
    said = refused("fit", "triplet_comparisons", *data)
    assert "--answers must contain row numbers of iris" in said


@pytest.mark.long
def test_odd_one_out_responses_are_learned_and_evaluated_by_name(tmp_path):
    rng, names = np.random.default_rng(0), np.array(list("abcdefg"))
    place = np.arange(7.0)
    rows = np.stack([rng.permutation(7)[:3] for _ in range(150)])
    gaps = np.abs(place[rows[:, [1, 2, 0]]] - place[rows[:, [2, 0, 1]]])
    odd = gaps.argmin(1)  # Opposite the shortest side.
    last = np.stack([np.roll(row, 2 - k) for row, k in zip(rows, odd, strict=True)])
    columns = ["object1", "object2", "odd"]
    paths = tmp_path / "learn.csv", tmp_path / "judge.csv"
    for path, half in zip(paths, (last[:100], last[100:]), strict=True):
        frame = pd.DataFrame(names[half], columns=columns)
        frame.to_csv(path, index=False)
    frame.assign(rt=1).to_csv(tmp_path / "timed.csv", index=False)
    timed = read_table(str(tmp_path / "timed.csv"), Reading(drop=["rt"]))
    assert (timed.kind, timed.rows.shape) == ("odd_one_out", (50, 3))
    rates = "--set", "n_components=1", "--set", "lapse_rate=0.1"
    model = "--answers", paths[0], *rates
    ran("fit", "triplet_embedding", *model, "--out", tmp_path / "fit")
    direct = pm.TripletEmbedding(1, odd_one_out=True, lapse_rate=0.1).fit(
        names[last[:100]]
    )
    stored = tmp_path / "fit" / "metric.npz"
    np.testing.assert_array_equal(pm.load_metric(stored).factor, direct.embedding_.T)
    words = "evaluate", "--answers", paths[1], "--metric", stored
    ran(*words, "--out", tmp_path / "out")
    own, base, _ = judged(tmp_path / "out")
    P = direct.triplet_probability(names[last[100:]])
    np.testing.assert_allclose(own["log_loss"], -np.log(P).mean(), rtol=1e-6)
    np.testing.assert_allclose(own["accuracy"], direct.score(names[last[100:]]))
    assert own["accuracy"] > 0.8
    np.testing.assert_allclose([base["accuracy"], base["log_loss"]], [1 / 3, np.log(3)])
    ran("report", tmp_path / "out")
    short = "--method", "laplace", "--draws", 20, "--out", tmp_path / "drawn"
    ran("sample", "triplet_embedding", *model, *short)
    draws = "--draws", tmp_path / "drawn" / "draws.nc", "--out", tmp_path / "again"
    ran(*words[:3], *draws)
    M = np.asarray(load_draws(draws[1])["posterior"]["M"])[0]
    d2 = np.diagonal(M, axis1=1, axis2=2)
    a, b, c = last[100:].T
    D = [d2[:, i] + d2[:, j] - 2 * M[:, i, j] for i, j in ((a, b), (b, c), (c, a))]
    shares = np.exp(-np.array(D))
    P = (0.9 * shares[0] / shares.sum(0) + 0.1 / 3).mean(0)
    loss = judged(tmp_path / "again")[0]["log_loss"]
    np.testing.assert_allclose(loss, -np.log(P).mean(), rtol=1e-6)
    # A learned rate is part of the stated probabilities, also of a stored metric.
    learned = direct.set_params(lapse_rate="auto").fit(names[last[:100]])
    P = learned.triplet_probability(names[last[100:]])
    auto = *model[:4], "--set", "lapse_rate=auto"
    ran("fit", "triplet_embedding", *auto, "--out", tmp_path / "auto")
    stored = "--metric", tmp_path / "auto" / "metric.npz", "--out", tmp_path / "stored"
    tested = "--model", "triplet_embedding", *auto, "--test", paths[1], "--out"
    ran(*words[:3], *stored)
    ran("evaluate", *tested, tmp_path / "refit")
    for folder in ("stored", "refit"):
        loss = judged(tmp_path / folder)[0]["log_loss"]
        np.testing.assert_allclose(loss, -np.log(P).mean(), rtol=1e-6)
    # Raters of the table differ in sharpness, and so do their probabilities.
    who = np.where(np.arange(150) % 3, "b", "a")
    for path, part in zip(paths, (slice(100), slice(100, None)), strict=True):
        pd.read_csv(path).assign(rater=who[part]).to_csv(path, index=False)
    direct = pm.TripletEmbedding(1, odd_one_out=True, lapse_rate=0.1)
    direct.fit(names[last[:100]], raters=who[:100])
    P = direct.triplet_probability(names[last[100:]], who[100:])
    tested = "--model", "triplet_embedding", *model, "--test", paths[1], "--out"
    assert run("evaluate", *tested, tmp_path / "rated").exit_code == 0
    loss = judged(tmp_path / "rated")[0]["log_loss"]
    np.testing.assert_allclose(loss, -np.log(P).mean(), rtol=1e-6)
    out = "--out", tmp_path / "raters"
    assert run("fit", "triplet_embedding", *model, *out).exit_code == 0
    summary = json.loads((out[1] / "summary.json").read_text())
    assert [*summary["sharpness"]] == ["a", "b"]
    said = refused("fit", "gdm", *model[:2], "--out", tmp_path / "none")
    assert "--answers must not contain odd_one_out for GDM" in said


def test_names_of_raters_are_whole_and_none_is_missing(tmp_path):
    rows = pd.DataFrame([[0, 1, 2]] * 3, columns=["anchor", "near", "far"])
    path = tmp_path / "t.csv"
    for given, wanted in ((["anna", "amy", "x"], None), ([1, 20, 3], ["1", "20", "3"])):
        rows.assign(rater=given).to_csv(path, index=False)
        found = read_table(str(path)).values["raters"]
        assert found.tolist() == (wanted or given)
    rows.assign(rater=["anna", None, "x"]).to_csv(path, index=False)
    with pytest.raises(ValueError, match="missing value in column rater, row 1 of"):
        read_table(str(path))


def test_even_scores_count_half_where_there_are_no_probabilities():
    """The nearest pair is predicted: half, right and wrong."""
    table = Table("triplets", np.eye(3, dtype=int), {"y": np.ones(3)}, "t.csv")
    score = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    found = figures_of(Answered(None, (), "t", table, {}), None, score)
    assert found == {"accuracy": 0.5}


def test_a_fold_may_lack_an_object(tmp_path):
    rng = np.random.default_rng(2)
    asked = [rng.permutation(6)[:3].tolist() for _ in range(40)] + [[0, 1, 6]]
    table = pd.DataFrame(asked, columns=["anchor", "near", "far"])
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("--model", "triplet_embedding", "--answers", tmp_path / "t.csv")
    ran("evaluate", *words, "--folds", 2, "--out", tmp_path / "run")
    assert len(pd.read_csv(tmp_path / "run" / "predictions.csv")) == 82
