"""``sample_weight`` of ``LCA.fit``: a pair has the product of its points' weights."""

from functools import partial

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weights_not_overwritten,
    check_sample_weights_shape,
)

import probmetric as pm
from tests.dump import assert_refused

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 3))
Y = np.arange(30) % 2
X[:, 0] += 1.5 * Y
TIMES = RNG.integers(1, 4, 30)
GIVEN = {"prior_mean": 0.5 * np.eye(3), "regularization": 2.0, "standardize": False}


def copies_of_pairs(times):
    """Return pairs of repeated rows, but for a row with its own copies."""
    row = np.repeat(np.arange(30), times)
    i, j = np.triu_indices(len(row), 1)
    i, j = row[i], row[j]
    i, j = i[i != j], j[i != j]
    return X[np.stack([i, j], 1)], (Y[i] == Y[j]).astype(int)


def test_whole_weights_are_repeated_rows_but_for_pairs_of_copies():
    model = pm.LCA(pairs="all", learning_rate=0.1, tol=1e-10, **GIVEN)
    weighted = model.fit(X, Y, sample_weight=TIMES)
    found = weighted.get_mahalanobis_matrix(), weighted.intercept_
    repeated = model.fit_pairs(*copies_of_pairs(TIMES))
    expected = repeated.get_mahalanobis_matrix(), repeated.intercept_
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    plain = model.fit(X, Y).get_mahalanobis_matrix()  # The negative control.
    assert np.abs(plain - expected[0]).max() > 1e-3


@pytest.mark.parametrize("pairs", ["nearest", "impostors", "all"])
def test_points_of_weight_zero_are_not_there(pairs):
    w = np.where(np.arange(30) % 5, 1.0, 0.0)
    found = pm.LCA(pairs=pairs).fit(X, Y, sample_weight=w)
    alone = pm.LCA(pairs=pairs).fit(X[w > 0], Y[w > 0])
    np.testing.assert_allclose(found.components_, alone.components_, rtol=1e-12)
    assert found.intercept_ == pytest.approx(alone.intercept_, rel=1e-12)
    np.testing.assert_array_equal(found.mean_, alone.mean_)
    assert found.learning_rate_ == pytest.approx(alone.learning_rate_)


def test_a_common_weight_is_so_much_more_data_under_the_same_prior():
    plain = pm.LCA().fit(X, Y)
    ones = pm.LCA().fit(X, Y, sample_weight=np.ones(30))
    np.testing.assert_allclose(ones.components_, plain.components_, rtol=1e-12)
    assert ones.intercept_ == pytest.approx(plain.intercept_, rel=1e-12)
    doubled = pm.LCA(tol=1e-10).fit(X, Y, sample_weight=[2] * 30)
    rate = 2 * plain.learning_rate_
    expected = pm.LCA(learning_rate=rate, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(doubled.components_, expected.components_, rtol=1e-6)
    assert abs(doubled.components_ - plain.components_).max() > 1e-3


@pytest.mark.parametrize(
    "check", [check_sample_weights_shape, check_sample_weights_not_overwritten]
)
def test_scikit_learns_checks_on_copies_pass_where_pairs_are_not_all_of_copies(check):
    check("LCA", pm.LCA(pairs="all"))
    with pytest.raises(ValueError, match="one pair with y = 1 must have two different"):
        check("LCA", pm.LCA())


@pytest.mark.long
def test_draws_are_of_the_weighted_posterior():
    model = pm.LCA(pairs="all", learning_rate=0.1, tol=1e-10, **GIVEN)
    draws = model.fit(X, Y, sample_weight=TIMES).sample("laplace", n_draws=50)
    mean = draws["posterior"]["M"].mean(("chain", "draw"))
    other = model.fit_pairs(*copies_of_pairs(TIMES)).sample("laplace", n_draws=50)
    expected = other["posterior"]["M"].mean(("chain", "draw"))
    np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-5)
    assert model.posterior_metric("prediction", draws=draws, n_draws=3)


def test_what_counts_points_alike_is_refused():
    fitted = pm.LCA().fit(X, Y, sample_weight=TIMES)
    for purpose in ("prediction", "intervals"):
        with pytest.raises(
            ValueError, match=r"^draws must be passed after a fit with sample_weight"
        ):
            fitted.posterior_metric(purpose)
    with pytest.raises(ValueError, match=r"^fit must not use sample_weight"):
        pm.check_model(fitted)
    with pytest.raises(ValueError, match=r"^regularization.* sample_weight"):
        pm.LCA(regularization="cv").fit(X, Y, sample_weight=TIMES)


WRONG = [
    TIMES[:-1],
    -TIMES,
    0 * TIMES,
    np.where(TIMES > 1, np.nan, 1),
    1e200 * TIMES,
    ["a"] * 30,
]


def test_bad_weights_are_refused_by_name():
    calls = [partial(pm.LCA().fit, X, Y, sample_weight=w) for w in WRONG]
    assert_refused(calls, "estimators/lca_weights.txt")


def test_a_class_without_weight_is_refused():
    with pytest.raises(ValueError, match=r"^y must have at least 2 classes"):
        pm.LCA().fit(X, Y, sample_weight=Y)
