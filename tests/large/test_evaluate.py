"""Figures of rows in parts are those of the same points in memory; bounds are said."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import probmetric as pm
from probmetric.evaluation.evaluate import evaluate, retrieval
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.large.choose import sampled_rows
from probmetric.neighbors import KNeighborsClassifier
from tests.metric_kinds import build
from tests.oracles import retrieval_figures


def data(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])
    centre = 0.8 * np.unique(y, return_inverse=True)[1]
    return rng.normal(size=(n, d)) + centre[:, None], y


def on_disk(X, y, folder, w=None):
    names = [f"v{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(kind=y)
    if w is not None:
        frame["w"] = w
    frame.to_parquet(folder / "rows.parquet", row_group_size=70)
    weight = None if w is None else "w"
    return pm.open(folder / "rows.parquet", label="kind", weight=weight)


def near(found, wanted):
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", ["Mahalanobis", "LocalFisher", "PairSimilarity"])
@pytest.mark.filterwarnings("ignore:Cllr is")  # Few sources.
def test_a_metric_is_judged_as_in_memory(name, tmp_path):
    X, y = data()
    metric = build(name)
    near(
        evaluate(on_disk(X, y, tmp_path), metric=metric), evaluate(X, y, metric=metric)
    )


@pytest.mark.parametrize("bound", [{"max_queries": 40}, {"max_depth": 9}, {}])
def test_a_classifier_is_judged_as_in_memory(bound, tmp_path):
    X, y = data()
    fitted = LogisticRegression().fit(X, y)
    metric, bound = build("Mahalanobis"), {"max_pairs": 500, **bound}
    near(
        evaluate(
            on_disk(X, y, tmp_path), classifier=fitted, metric=metric, seed=2, **bound
        ),
        evaluate(X, y, classifier=fitted, metric=metric, seed=2, **bound),
    )


def test_a_classifier_of_named_columns_is_given_names(tmp_path):
    X, y = data()
    source = on_disk(X, y, tmp_path)
    knn = KNeighborsClassifier(votes="count", prior_weight=1.0).fit(source)
    found = evaluate(source, classifier=knn)
    near(
        found,
        evaluate(pd.DataFrame(X, columns=knn.feature_names_in_), y, classifier=knn),
    )


def test_rows_count_by_their_weights(tmp_path):
    X, y = data(120)
    fitted = LogisticRegression().fit(X, y)
    w = np.arange(120) % 3
    found = evaluate(on_disk(X, y, tmp_path, w), classifier=fitted)
    again = evaluate(np.repeat(X, w, 0), np.repeat(y, w), classifier=fitted)
    near(found, again)


@pytest.mark.parametrize("depth", [1, 7, 10_000])
def test_bounded_depth_is_the_definition_at_that_depth(depth):
    X, y = data(150)
    codes = np.unique(y, return_inverse=True)[1]
    metric = build("Mahalanobis")
    found = retrieval(metric, X, codes, max_depth=depth)
    D = np.array(metric.pairwise(X, X))
    np.fill_diagonal(D, np.inf)
    figures = np.zeros(3)
    for i in range(150):
        depth_i = min(depth, (codes == codes[i]).sum() - 1)
        hit = codes[np.argsort(D[i], kind="stable")[:depth_i]] == codes[i]
        precision = np.cumsum(hit) / np.arange(1, depth_i + 1)
        figures += [hit[0], hit.mean(), (hit * precision).mean()]
    wanted = dict(
        zip(("precision_at_1", "r_precision", "map_at_r"), figures / 150, strict=True)
    )
    if depth < 100:
        wanted["depth"] = depth
    else:
        assert wanted == pytest.approx(retrieval_figures(D, y))
    assert found == pytest.approx(wanted)


def test_asked_are_a_sample_and_it_is_said():
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    metric = build("Mahalanobis")
    found = retrieval(metric, X, codes, max_queries=50, seed=1)
    assert found.pop("queries") == 50
    D = np.array(metric.pairwise(X, X))
    np.fill_diagonal(D, np.inf)
    some = sampled_rows(300, 50, seed=1)
    hit = codes[D[some].argmin(1)] == codes[some]
    assert found["precision_at_1"] == pytest.approx(hit.mean())
    whole = retrieval(metric, X, codes)
    assert "queries" not in whole
    assert whole != pytest.approx(found)


def test_what_cannot_be_judged_is_said(tmp_path):
    X, y = data(40)
    source, metric = on_disk(X, y, tmp_path), build("Mahalanobis")
    with pytest.raises(ValueError, match="y must be None"):
        evaluate(source, y, metric=metric)
    few = LogisticRegression().fit(X[y != "c"], y[y != "c"])
    with pytest.raises(ValueError, match=r"one of 2 classes, got 'c' in row"):
        evaluate(source, classifier=few)
    with pytest.raises(ValueError, match=r"label must .* got none"):
        evaluate(pm.open(X[:3], label=np.arange(3)), metric=metric)
    with pytest.raises(ValueError, match="max_depth"):
        evaluate(X, y, metric=metric, max_depth=0)


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_pairs_of_many_points_are_pairs(n):
    i, j = chosen_pairs(n, 1000, 0, symmetric=True)
    assert ((0 <= i) & (i < j) & (j < n)).all()
    assert len(np.unique(j * n + i)) == 1000
