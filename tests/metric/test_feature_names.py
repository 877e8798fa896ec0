"""A metric that knows what its features are called refuses frames of others."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.metric.feature_names import difference, named
from probmetric.neighbors import neighbor_table

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
X, y = pm.datasets.load("iris")
FRAME = pd.DataFrame(X, columns=pd.Index(NAMES))
TURNED = FRAME[NAMES[::-1]]
ORDER = (
    "must have the 4 features of the metric, got 4, in another order: "
    "'petal width' for 'sepal length', "
)


@pytest.fixture(scope="module")
def learner():
    return pm.LDA(prior_strength=1.0).fit(FRAME, y)


@pytest.fixture(scope="module")
def metric(learner):
    return learner.get_metric()


QUESTIONS = {
    "nearest": lambda m, F: pm.nearest(m, F, X, 2),
    "nearest to points": lambda m, F: pm.nearest(m, X, F, 2),
    "neighbor_table": lambda m, F: neighbor_table(m, F, 2),
    "transform": lambda m, F: m.transform(F),
    "pairwise": lambda m, F: m.pairwise(F, F),
    "distance": lambda m, F: m.distance(F, F),
    "evaluate": lambda m, F: pm.evaluate(F, y, metric=m),
    "KNeighborsClassifier": lambda m, F: pm.KNeighborsClassifier(metric=m).fit(F, y),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_columns_in_another_order_are_refused(metric, question):
    """Each question answers the frame it knows and arrays, and refuses the other."""
    ask = QUESTIONS[question]
    ask(metric, FRAME)
    ask(metric, X)
    with pytest.raises(ValueError, match=ORDER):
        ask(metric, TURNED)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_posterior_knows_the_names_too(unchecked, learner):
    """Without the annotations, which take arrays alone, as users call it."""
    tree = learner.sample(n_draws=3, n_chains=1)
    for p in (
        learner.posterior_metric("intervals", n_draws=3),
        pm.draws_to_metric(tree, "intervals", pairs_independent=True),
    ):
        for ask in (
            lambda F, p=p: p.pairwise(F, X),
            lambda F, p=p: p.interval(F, X[::-1]),
            lambda F, p=p: p.neighbor_probability(F, X, 2),
            lambda F, p=p: p.mean_metric().transform(F),
        ):
            np.asarray(ask(FRAME))
            with pytest.raises(ValueError, match=ORDER):
                ask(TURNED)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_refits_know_the_names_of_the_fit(unchecked):
    lca = pm.LCA().fit(FRAME, np.arange(len(FRAME)) % 2)
    wide = lca.posterior_metric("intervals")
    for ask in (
        lambda F: wide.interval(F, X[::-1]),
        lambda F: wide.neighbor_probability(F, X, 2),
        lambda F: wide.closer_probability(F, X[::-1], X),
        lambda F: neighbor_table(wide, F, 2),
    ):
        ask(FRAME)
        with pytest.raises(ValueError, match=ORDER):
            ask(TURNED)


COLUMNS = {
    "text": pd.Index(["d", "b", "a", "c"]),
    "numbers": pd.Index([7, 30, 2, 11]),
    "numbers from 0": pd.RangeIndex(4),
    "two levels": pd.MultiIndex.from_product([["a", "b"], [1, 2]]),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_any_type_are_remembered(unchecked, kind):
    """Learner, metric and classifiers refuse another order, and another name."""
    frame = FRAME.set_axis(COLUMNS[kind], axis=1)
    learner = pm.LDA(prior_strength=1.0).fit(frame, y)
    uses = {
        "learner": learner.transform,
        "metric": learner.get_metric().transform,
        "classifier": pm.KNeighborsClassifier().fit(frame, y).predict,
        "regressor": pm.KNeighborsRegressor().fit(frame, X[:, 0]).predict,
    }
    first, second, *others = frame.columns.tolist()
    turned = frame[[second, first, *others]]
    renamed = [first, second, others[0], ("b", 9) if kind == "two levels" else 99]
    other = FRAME.set_axis(pd.Index(renamed), axis=1)
    for use in uses.values():
        np.testing.assert_array_equal(use(frame), use(X))
        swap = f"in another order: {str(second)!r} for {str(first)!r}, {str(first)!r}"
        with pytest.raises(ValueError, match=re.escape(swap)):
            use(turned)
        changed = f"without {str(others[1])!r}, with {str(renamed[3])!r}"
        with pytest.raises(ValueError, match=re.escape(changed)):
            use(other)


def test_a_fit_without_names_forgets_those_of_the_last():
    pairs, same = np.stack([X[::2], X[1::2]], 1), np.arange(75) % 2
    frame = FRAME.set_axis([3, 1, 2, 0], axis=1)
    for again in (
        lambda learner: learner.fit(X, y),
        lambda learner: learner.fit_pairs(pairs, same),
    ):
        learner = pm.PairLDA(prior_strength=1.0).fit(frame, y)
        assert not again(learner).transform(frame[[0, 1, 2, 3]])[0].shape[1:]
        assert not hasattr(learner.get_metric(), "feature_names_in_")


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_frame_without_names_fits_any_text():
    learner = pm.LDA(prior_strength=1.0).fit(pd.DataFrame(X), y)
    expected = learner.transform(X)
    np.testing.assert_array_equal(learner.transform(FRAME), expected)
    np.testing.assert_array_equal(learner.get_metric().transform(FRAME), expected)


def test_files_and_pickles_keep_the_names(metric, tmp_path):
    pm.save_metric(metric, tmp_path / "metric.npz")
    for again in (
        pm.load_metric(tmp_path / "metric.npz"),
        pickle.loads(pickle.dumps(metric)),
    ):
        assert again.feature_names_in_ == tuple(NAMES)
        with pytest.raises(ValueError, match=ORDER):
            again.transform(TURNED)


def test_what_to_do_is_right(metric):
    """The message's own remedy gives the answer of the frame that was learned from."""
    with pytest.raises(ValueError, match=r"X\[list\(metric.feature_names_in_\)\]"):
        metric.transform(TURNED)
    again = metric.transform(TURNED[list(metric.feature_names_in_)])
    np.testing.assert_array_equal(again, metric.transform(X))


def test_without_names_places_count(metric):
    """A metric of arrays takes frames by place, as does one that was remade."""
    of_arrays = pm.LDA(prior_strength=1.0).fit(X, y).get_metric()
    remade = replace(metric, link=None)
    for unnamed in (of_arrays, remade):
        assert not hasattr(unnamed, "feature_names_in_")
        np.testing.assert_array_equal(
            unnamed.transform(TURNED), unnamed.transform(TURNED.to_numpy())
        )


def test_columns_that_differ_are_named_and_few():
    """Those in their places are left out, and of many five are enough."""
    wanted = [f"c{k}" for k in range(14)]
    turned = [*wanted[:12], "c13", "c12"]
    said = difference(wanted, turned)
    assert said.endswith("got 14, in another order: 'c13' for 'c12', 'c12' for 'c13'")
    assert difference(wanted, wanted[::-1]).endswith("'c9' for 'c4' and 9 more")
    said = difference(wanted, wanted[:12], "--data")
    assert said == "14 features of --data, got 12, without 'c12', 'c13'"
    assert difference(wanted, ["a"]).endswith("'c4' and 9 more, with 'a'")


def test_names_of_files_without_names_are_those_of_any():
    assert difference(["x0", "x1"], ["a", "b"]) == ""
    assert difference(["a", "b"], ["x0", "x1"]) == ""
    assert difference(["a", "b"], ["b", "a"]) != ""
    # Names of one's own that look like them are names.
    assert difference(["x0", "x1"], ["x1", "x0"]) != ""
    assert difference(["x1", "x2"], ["x2", "x1"]) != ""
    assert difference(["x1", "x2"], ["a", "b"]) != ""


def test_sources_are_checked(metric, tmp_path):
    np.save(tmp_path / "rows.npy", np.ascontiguousarray(X))
    FRAME.assign(kind=y).to_parquet(tmp_path / "rows.parquet")
    source = pm.open(tmp_path / "rows.parquet", label="kind")
    pm.nearest(metric, X[:2], source, 1)
    pm.nearest(metric, X[:2], pm.open(tmp_path / "rows.npy"), 1)
    other = named(replace(metric), NAMES[::-1])
    with pytest.raises(ValueError, match="points must have the 4 features"):
        pm.nearest(other, X[:2], source, 1)
