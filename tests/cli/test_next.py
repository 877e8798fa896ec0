"""``probmetric next``: the questions are Python's, and their table is read again."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli.next import unasked
from probmetric.storage.draws_file import load_draws, posterior_of, save_draws
from tests.cli.runs import no_debris, ran, refused, run

SITES = ["rain", "pH"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Twenty sites, forty judged pairs, draws of them, and pairs to choose among."""
    folder, rng = tmp_path_factory.mktemp("next"), np.random.default_rng(0)
    X = rng.random((20, 2))
    pairs = rng.permutation(np.stack(np.triu_indices(20, 1), 1))
    same = (np.abs(X[pairs[:, 0], 0] - X[pairs[:, 1], 0]) < 0.3).astype(int)
    known = pd.DataFrame(pairs[:40], columns=["i", "j"]).assign(y=same[:40])
    pd.DataFrame(X, columns=SITES).to_csv(folder / "sites.csv", index=False)
    known.to_csv(folder / "known.csv", index=False)
    asked = pd.DataFrame(pairs[30:140], columns=["i", "j"])  # Of which ten are known.
    asked.to_csv(folder / "asked.csv", index=False)
    words = "--data", folder / "sites.csv", "--answers", folder / "known.csv"
    method = "--method", "laplace", "--draws", 60, "--out", folder / "draws"
    done = run("sample", "lca", *words, *method)
    assert done.exit_code in (0, 1), done.output  # 1: a note on k-hat.
    # Most of what a question costs is to read draws: only what is asked of them, but
    # in one test, which takes the file as it was written.
    draws = load_draws(folder / "draws" / "draws.nc")
    draws = draws.drop_nodes(draws.children.keys() - {"posterior"})
    save_draws(draws, folder / "draws" / "few.nc")
    return folder, X, pairs


def given(folder):
    """Return what every call has: the data and the draws."""
    return "--data", folder / "sites.csv", "--draws", folder / "draws" / "few.nc"


def python(folder, X, rows, n, *rule, max_draws=200, **more):
    """Return the questions that Python chooses from the same draws."""
    draws = load_draws(folder / "draws" / "few.nc")
    posterior = posterior_of(draws, max_draws=max_draws)
    result = pm.next_pairs(posterior, rows, n, *rule, X=X, **more)
    return rows[result.indices], result.scores.sum()


@pytest.mark.parametrize(
    ("criterion", "n", "seed"), [("information", 20, 2), ("disagreement", 9, 0)]
)
def test_the_questions_are_those_of_python(world, tmp_path, criterion, n, seed):
    folder, X, pairs = world
    out = tmp_path / "new.csv"
    words = "--candidates", folder / "asked.csv", "--answers", folder / "known.csv"
    more = "--n", n, "--criterion", criterion, "--seed", seed, "--out", out
    done = ran("next", *given(folder), *words, *more)
    found = pd.read_csv(out)
    assert [*found.columns] == ["i", "j", "y"]
    assert found.y.isna().all()
    want, nats = python(folder, X, pairs[40:140], n, criterion, seed=seed)
    np.testing.assert_array_equal(found[["i", "j"]], want)
    unit = f", {nats:.3g} nats, " if criterion == "information" else ", "
    assert f"{n} of 100 pairs by {criterion}{unit}under " in done.output
    assert no_debris(tmp_path)
    # Negative controls: by the other rule, or among all, known ones too.
    (rule,) = {"information", "disagreement"} - {criterion}
    other, _ = python(folder, X, pairs[40:140], n, rule, seed=seed)
    every, _ = python(folder, X, pairs[30:140], n, criterion, seed=seed)
    assert not np.array_equal(other, want)
    if criterion == "information":  # Of so many the answers are drawn.
        assert not np.array_equal(every, want)
        drawn, _ = python(folder, X, pairs[40:140], n, criterion, seed=0)
        assert not np.array_equal(drawn, want)


def test_pairs_are_drawn_by_a_seed_where_none_are_given(world, tmp_path):
    folder = world[0]
    words = *given(folder), "-n", 5, "--random", 50, "--max-draws", 20
    first, again, other = (
        run("next", *words, "--seed", seed).stdout for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    found = pd.read_csv(io.StringIO(first))
    assert len({frozenset(pair) for pair in found[["i", "j"]].to_numpy()}) == 5
    # All pairs, where there are no more than are asked for, and none of those known.
    known = "--answers", folder / "known.csv", "--max-draws", 20
    done = ran("next", *given(folder), *known, "-n", 150)
    rows = pd.read_csv(io.StringIO(done.stdout))[["i", "j"]].to_numpy()
    known = pd.read_csv(folder / "known.csv")[["i", "j"]].to_numpy()
    asked, old = ({frozenset(pair) for pair in part} for part in (rows, known))
    assert len(asked) == 150 == 20 * 19 // 2 - len(old)
    assert not asked & old


@pytest.mark.long
def test_next_filled_in_is_learned_from(world, tmp_path):
    folder, X, _ = world
    out = tmp_path / "new.csv"
    known = "--answers", folder / "known.csv"
    ran("next", *given(folder), *known, "--out", out)
    # Not yet answered, they are no answers.
    sites = "--data", folder / "sites.csv"
    words = *sites, "--answers", out, "--out", tmp_path / "run"
    assert "y must" in refused("sample", "lca", *words)
    new = pd.read_csv(out)
    near = np.abs(X[new.i, 0] - X[new.j, 0]) < 0.3
    both = pd.concat(
        [pd.read_csv(folder / "known.csv"), new.assign(y=near.astype(int))]
    )
    both.to_csv(out, index=False)
    draws = "--method", "laplace", "--draws", 20
    done = run("sample", "lca", *words, *draws)
    assert done.exit_code in (0, 1), done.output
    said = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert said["data"]["answers"]["n"] == 50
    # And so on.
    draws = "--draws", tmp_path / "run" / "draws.nc"
    done = ran("next", *sites, *draws, "--answers", out, "-n", 3)
    assert len(done.stdout.splitlines()) == 4


def test_text_of_another_form_is_written_in_that_form(world, tmp_path):
    folder, X, _ = world
    frame = pd.DataFrame(X, columns=SITES).assign(place="a")
    form = {"sep": ";", "decimal": ",", "encoding": "utf-16", "index": False}
    frame.to_csv(tmp_path / "sites.csv", **form)
    words = "--sep", ";", "--decimal", ",", "--encoding", "utf-16", "--drop", "place"
    out = "--out", tmp_path / "new.csv"
    draws = "--draws", folder / "draws" / "draws.nc"
    points = "--data", tmp_path / "sites.csv"
    ran("next", *points, *draws, *words, *out)
    # Read with the same options it is a table of what not to ask.
    again = ran("next", *points, *draws, *words, "--answers", out[1])
    old = pd.read_csv(out[1], sep=";", encoding="utf-16")
    new = pd.read_csv(io.StringIO(again.stdout), sep=";")
    assert not len(old.merge(new, on=["i", "j"]))


def test_draws_of_triplets_are_refused(world, tmp_path):
    folder = world[0]
    draws = load_draws(folder / "draws" / "few.nc")
    draws.attrs["learner"] = "triplet_comparisons"
    save_draws(draws, tmp_path / "draws.nc")
    words = "--data", folder / "sites.csv", "--draws", tmp_path / "draws.nc"
    said = refused("next", *words)
    assert "--draws must come from a learner of pairs" in said
    assert "triplet_comparisons" in said


def test_a_pair_is_the_same_in_both_orders():
    rows = np.array([[0, 1], [2, 1], [1, 0], [1, 2], [3, 0], [0, 3], [4, 0]])
    assert unasked(rows, np.empty((0, 2), int)).tolist() == [0, 1, 4, 6]
    assert unasked(rows, np.array([[1, 2], [4, 0]])).tolist() == [0, 4]
