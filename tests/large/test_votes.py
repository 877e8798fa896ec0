"""Votes of neighbors among rows that are read in parts: those of rows in memory."""

import numpy as np
import pytest
from sklearn.base import clone

import probmetric as pm
from probmetric.large import votes as source_votes
from probmetric.metric import Mahalanobis
from probmetric.neighbors import neighbor_table
from probmetric.neighbors import votes as votes_module
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import build


def data(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    centre = np.unique(y, return_inverse=True)[1]
    return rng.normal(size=(n, d)) + centre[:, None], y


def draws():
    factors = np.random.default_rng(1).normal(size=(3, 3, 3))
    return PosteriorMetric(list(map(Mahalanobis, factors)), purpose="intervals")


def on_disk(X, y, folder, groups=90):
    pd = pytest.importorskip("pandas")
    names = [f"v{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(kind=y)
    frame.to_parquet(folder / "rows.parquet", row_group_size=groups)
    return pm.open(folder / "rows.parquet", label="kind")


@pytest.mark.long
@pytest.mark.parametrize("prior_weight", ["loo", 0.7])
@pytest.mark.parametrize("name", ["Mahalanobis", "LocalMahalanobis"])
def test_predictions_are_those_of_rows_in_memory(name, prior_weight, tmp_path):
    X, y = data()
    knn = pm.KNeighborsClassifier(
        build(name), 7, votes="count", prior_weight=prior_weight
    )
    whole = clone(knn).fit(X[:300], y[:300])
    parts = clone(knn).fit(on_disk(X[:300], y[:300], tmp_path))
    assert parts.prior_weight_ == whole.prior_weight_
    np.testing.assert_allclose(parts.loo_scores_, whole.loo_scores_, rtol=1e-12)
    np.testing.assert_array_equal(parts.classes_, whole.classes_)
    assert list(parts.feature_names_in_) == ["v0", "v1", "v2"]
    frame = dict(zip(parts.feature_names_in_, X[300:].T, strict=True))
    Q = pytest.importorskip("pandas").DataFrame(frame)
    np.testing.assert_array_equal(parts.predict_proba(Q), whole.predict_proba(X[300:]))
    for a, b in zip(parts.kneighbors(Q), whole.kneighbors(X[300:]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_learner_learns_from_the_source(tmp_path):
    X, y = data()
    knn = pm.KNeighborsClassifier(pm.LDA(prior_strength=64), votes="count")
    parts = clone(knn).fit(pm.open(X[:300], label=y[:300]))
    whole = clone(knn).fit(X[:300], y[:300])
    np.testing.assert_allclose(
        parts.learner_.get_metric().factor,
        whole.learner_.get_metric().factor,
        rtol=1e-9,
        atol=1e-12,
    )
    assert parts.score(X[300:], y[300:]) == whole.score(X[300:], y[300:])


def test_draws_vote_in_turn():
    X, y = data()
    knn = pm.KNeighborsClassifier(draws(), votes="count", prior_weight=1.0)
    np.testing.assert_array_equal(
        clone(knn).fit(pm.open(X[:300], label=y[:300])).predict_proba(X[300:]),
        clone(knn).fit(X[:300], y[:300]).predict_proba(X[300:]),
    )


def test_the_prior_is_chosen_by_a_sample_with_the_counts_of_all(monkeypatch):
    X, y = data()
    monkeypatch.setattr(source_votes, "TUNED", 150)
    source = pm.open(X, label=y)
    found = pm.KNeighborsClassifier(votes="count").fit(source)
    some = source_votes.sampled(source, 150)
    votes = votes_module.count_votes(
        [Mahalanobis(np.eye(3))],
        some.X,
        X,
        np.unique(y, return_inverse=True)[1],
        5,
        3,
        some.rows,
    )
    codes = np.searchsorted(found.classes_, some.labels)
    own = np.arange(150)
    for column, a in enumerate(votes_module.PRIOR_WEIGHTS["count"]):
        prior = np.array([np.mean(np.delete(y, r) == y[r]) for r in some.rows])
        P = (5 * votes[own, codes] + a * prior) / (5 + a)
        np.testing.assert_allclose(
            found.loo_scores_[0, 0, column], np.log(P).mean(), rtol=1e-12
        )


@pytest.mark.parametrize(
    "change, said",
    [
        ({"votes": "soft"}, "votes .*got 'soft'"),
        ({"n_neighbors": 1000}, "n_neighbors .*got 1000"),
        ({"metric": Mahalanobis(np.eye(2))}, "X must have 2 features, as"),
    ],
)
def test_what_cannot_be_is_said(change, said):
    X, y = data(50)
    knn = pm.KNeighborsClassifier(votes="count").set_params(**change)
    with pytest.raises(ValueError, match=said):
        knn.fit(pm.open(X, label=y))


def test_labels_weights_and_queries_that_do_not_fit_are_refused():
    X, y = data(50)
    knn = pm.KNeighborsClassifier(votes="count")
    with pytest.raises(ValueError, match="label must be a column of"):
        knn.fit(pm.open(X))
    with pytest.raises(ValueError, match=r"weight .*got a dataset"):
        knn.fit(pm.open(X, label=y, weight=np.ones(50)))
    with pytest.raises(ValueError, match="y must be None for data on disk"):
        knn.fit(pm.open(X, label=y), y)
    with pytest.raises(ValueError, match="queries must be an array, got data on disk"):
        knn.fit(pm.open(X, label=y)).kneighbors()


@pytest.mark.long
@pytest.mark.parametrize("name", ["Mahalanobis", "PairSimilarity"])
@pytest.mark.parametrize("labeled", [True, False])
def test_a_table_of_a_source_is_that_of_arrays(name, labeled):
    X, y = data()
    metric = build(name)
    label = y if labeled else None
    source = pm.open(X, label=label)
    found = neighbor_table(metric, source, 4, queries=X[:9])
    wanted = neighbor_table(metric, X, 4, queries=X[:9], labels=label)
    pytest.importorskip("pandas").testing.assert_frame_equal(found, wanted)
    with pytest.raises(ValueError, match=r"queries .*got None"):
        neighbor_table(metric, source, 4)


def test_a_table_under_draws_has_their_probability():
    X = data()[0]
    posterior = draws()
    found = neighbor_table(posterior, pm.open(X), 4, queries=X[:9])
    wanted = neighbor_table(posterior, X, 4, queries=X[:9])
    pytest.importorskip("pandas").testing.assert_frame_equal(found, wanted)
