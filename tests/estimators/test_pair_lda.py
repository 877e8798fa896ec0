"""``PairLDA``: scikit-learn's conventions, labels and pairs, and bad input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import check_estimator

from probmetric.data.pairs import all_pairs, nearest_pairs
from probmetric.estimators.pair_lda import PairLDA
from tests.estimators.data_checks import OF_TRANSFORMERS

X, y = load_wine(return_X_y=True)

MAY_SKIP = {"check_array_api_input"}  # needs SciPy's environment variable


def side_by_side(pairs):
    return np.stack([pairs.X[pairs.i], pairs.X[pairs.j]], 1)


@pytest.mark.long
@pytest.mark.parametrize("method", ["generalized", "kissme"])
def test_check_estimator_is_complete(method):
    estimator = PairLDA(method=method, prior_strength=9)
    records = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {
        r["check_name"]: r["exception"] for r in records if r["status"] == "failed"
    }
    assert not failed
    assert {r["check_name"] for r in records if r["status"] == "skipped"} <= MAY_SKIP
    assert len(records) > 40


@pytest.mark.long
@pytest.mark.parametrize("check", OF_TRANSFORMERS)
def test_the_choice_of_a_prior_takes_all_kinds_of_data(check):
    check("PairLDA", PairLDA())


@pytest.mark.parametrize("method", ["generalized", "kissme", "rca"])
def test_all_pairs_handed_in_give_the_fit_from_labels(method):
    pairs = all_pairs(X, y)
    for s in (0, 20):  # Of 178 points, or of so many of their pairs.
        labels = PairLDA(method=method, prior_strength=s).fit(X, y)
        handed = PairLDA(method=method, prior_strength=s * len(pairs.y) / 178)
        np.testing.assert_allclose(
            handed.fit_pairs(side_by_side(pairs), pairs.y).get_mahalanobis_matrix(),
            labels.get_mahalanobis_matrix(),
            rtol=1e-8,
        )


def test_integer_pairs_are_rows_of_the_preprocessor():
    pairs = nearest_pairs(X, y)
    index = np.stack([pairs.i, pairs.j], 1)
    by_row = PairLDA(preprocessor=X).fit_pairs(index, pairs.y)
    by_point = PairLDA().fit_pairs(side_by_side(pairs), 2 * pairs.y - 1)
    np.testing.assert_allclose(by_row.components_, by_point.components_, rtol=1e-9)
    np.testing.assert_allclose(
        by_row.pair_distance(index[:9]), by_point.pair_distance(side_by_side(pairs)[:9])
    )
    assert set(by_row.predict(index)) == {0, 1}
    assert set(by_point.predict(side_by_side(pairs))) == {-1, 1}


def test_far_pairs_score_lower():
    pairs = all_pairs(X, y)
    fitted = PairLDA(2).fit_pairs(side_by_side(pairs), pairs.y)
    assert fitted.score(side_by_side(pairs), pairs.y) > 0.95


def test_scale_of_a_column_changes_no_neighbor():
    scaled = X * np.where(np.arange(13) == 4, 1e3, 1.0)
    a, b = (PairLDA().fit(Z, y).transform(Z) for Z in (X, scaled))
    near = [NearestNeighbors(n_neighbors=5).fit(Z).kneighbors(Z)[1] for Z in (a, b)]
    np.testing.assert_array_equal(*near)


def test_metric_is_picklable_and_agrees():
    fitted = PairLDA(2).fit(X, y)
    metric = pickle.loads(pickle.dumps(fitted.get_metric()))
    pairs = np.stack([X[:9], X[100:109]], 1)
    np.testing.assert_allclose(
        metric.distance(X[:9], X[100:109]), fitted.pair_distance(pairs)
    )
    np.testing.assert_allclose(metric.matrix, fitted.get_mahalanobis_matrix())


def test_clone_refits_to_the_same():
    fitted = PairLDA(2, method="kissme", alpha=0.1).fit(X, y)
    np.testing.assert_array_equal(
        clone(fitted).fit(X, y).components_, fitted.components_
    )


def test_notes_form_is_refused_with_the_alpha_that_it_needs():
    with pytest.raises(ValueError, match="alpha must be above alpha_min") as error:
        PairLDA(method="notes").fit(X, y)
    least = float(str(error.value).split(" = ")[2].split(" for ")[0])
    fitted = PairLDA(method="notes", alpha=1.01 * least).fit(X, y)
    assert np.linalg.eigvalsh(fitted.get_mahalanobis_matrix())[0] > 0


BAD = {
    "method": ("fisher", "method: expected one of 'generalized'"),
    "weighting": ("sqrt", "weighting: expected one of 'log'"),
    "alpha": (-1.0, "alpha: expected a number in"),
    "prior_strength": (-1.0, "prior_strength: expected a number in"),
    "pairs": ("random", "pairs: expected one of 'nearest', 'impostors', 'all'"),
    "n_components": (14, "n_components: expected at most 13"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused_by_name(name):
    value, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        PairLDA(**{name: value}).fit(X, y)


def test_bad_pairs_are_refused():
    pairs = side_by_side(nearest_pairs(X, y))
    with pytest.raises(ValueError, match="pairs of both labels"):
        PairLDA().fit_pairs(pairs, np.ones(len(pairs)))
    with pytest.raises(ValueError, match="pairs must be finite numbers"):
        PairLDA().fit_pairs(pairs * np.nan, np.ones(len(pairs)))
    with pytest.raises(ValueError, match="sample_weight must be finite weights"):
        PairLDA().fit_pairs(
            pairs, np.arange(len(pairs)) % 2, sample_weight=-np.ones(len(pairs))
        )


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        *(("generalized", "all"), ("generalized", "nearest")),
        *(("generalized", "impostors"), ("kissme", "all"), ("rca", "nearest")),
    ],
)
def test_the_number_that_was_chosen_gives_the_same_fit(method, pairs):
    chosen = PairLDA(method=method, pairs=pairs).fit(X, y)
    assert chosen.prior_strength_ in (np.inf, 256, 64, 16, 4, 1)
    given = clone(chosen).set_params(prior_strength=chosen.prior_strength_).fit(X, y)
    np.testing.assert_array_equal(given.components_, chosen.components_)


def test_pairs_handed_in_choose_no_prior():
    pairs = all_pairs(X, y)
    fitted = PairLDA().fit_pairs(side_by_side(pairs), pairs.y)
    assert fitted.prior_strength_ == 0
    plain = PairLDA(prior_strength=0).fit(X, y)
    np.testing.assert_allclose(
        fitted.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), rtol=1e-8
    )


def test_the_notes_form_takes_a_prior_too():
    least = PairLDA(method="notes", alpha=100.0, prior_strength=0).fit(X, y)
    chosen = PairLDA(method="notes", alpha=100.0).fit(X, y)
    assert np.linalg.eigvalsh(chosen.get_mahalanobis_matrix())[0] > 0
    assert least.prior_strength_ == 0
