"""``EigDML``: scikit-learn's conventions, the certificate in input units, bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.pairs import nearest_pairs
from probmetric.estimators.eig_dml import EigDML

X, y = load_wine(return_X_y=True)


def side_by_side(pairs):
    return np.stack([pairs.X[pairs.i], pairs.X[pairs.j]], 1)


@pytest.fixture(scope="module")
def plain():
    """Return the optimum on Wine, which no prior mixes with anything."""
    return EigDML(solver="pdhg", prior_strength=0).fit(X, y)


def test_primal_is_the_nearest_far_pair_in_input_units(plain):
    standard = nearest_pairs((X - X.mean(0)) / X.std(0), y)
    pairs = np.stack([X[standard.i], X[standard.j]], 1)[standard.y == 0]
    nearest = np.min(plain.pair_distance(pairs) ** 2)
    np.testing.assert_allclose(nearest, plain.primal_, rtol=1e-7)


def test_close_pairs_sum_to_kappa_without_a_ridge():
    standard = nearest_pairs((X - X.mean(0)) / X.std(0), y)
    free = {"ridge": 0.0, "prior_strength": 0.0}
    fitted = EigDML(solver="pdhg", kappa=2.0, **free).fit(X, y)
    pairs = np.stack([X[standard.i], X[standard.j]], 1)[standard.y == 1]
    np.testing.assert_allclose(np.sum(fitted.pair_distance(pairs) ** 2), 2.0, rtol=1e-9)


def test_pairs_handed_in_calibrate_a_threshold():
    pairs = nearest_pairs(X, y)
    fitted = EigDML(solver="pdhg").fit_pairs(side_by_side(pairs), pairs.y)
    assert fitted.score(side_by_side(pairs), pairs.y) > 0.7
    np.testing.assert_allclose(fitted.far_weights_.sum(), 1)
    assert len(fitted.far_weights_) == np.sum(pairs.y == 0)


def test_early_stop_warns_and_still_bounds(plain):
    with pytest.warns(ConvergenceWarning, match="MAX_STEPS after 50 steps"):
        fitted = EigDML(max_iter=50, prior_strength=0).fit(X, y)
    assert fitted.primal_ <= plain.dual_
    assert fitted.dual_ >= plain.primal_


def test_a_number_mixes_the_optimum_with_euclid_of_the_same_trace(plain):
    mixed = clone(plain).set_params(prior_strength=89).fit(X, y)
    scale = np.outer(plain.scale_, plain.scale_)
    M = plain.get_mahalanobis_matrix() * scale  # standardized
    expected = (2 * M + np.trace(M) / 13 * np.eye(13)) / 3  # 178 points beside 89
    np.testing.assert_allclose(
        mixed.get_mahalanobis_matrix() * scale, expected, atol=1e-10 * np.trace(M)
    )
    assert (mixed.primal_, mixed.dual_) == (plain.primal_, plain.dual_)


def test_two_points_a_class_are_few_enough_to_learn_nothing():
    fitted = EigDML(solver="pdhg").fit(X[[0, 1, 60, 61]], y[[0, 1, 60, 61]])
    assert fitted.prior_strength_ == np.inf


TWINS = np.array(
    [[0.0, 1.0], [1.0, 0.0], [0.5, 3.0], [4.0, 2.0], [5.0, 1.0], [5.0, 1.0]]
)
CLASSES = [0, 0, 0, 1, 1, 0]


def test_equal_points_of_two_classes_are_left_out_with_their_number():
    learner = EigDML(pairs="all", prior_strength=0)
    with pytest.warns(UserWarning, match="EigDML: 1 of 8 pairs of different classes"):
        learned = learner.fit(TWINS, CLASSES)
    i, j = np.triu_indices(6, 1)
    rest = np.flatnonzero(~((i == 4) & (j == 5)))
    same = np.equal.outer(CLASSES, CLASSES)[i, j].astype(int)
    pairs = np.stack([TWINS[i], TWINS[j]], 1)[rest]
    # Standardized by the points of fit, as fit does: fit_pairs has its own scale.
    Z = (pairs - TWINS.mean(0)) / TWINS.std(0)
    given = EigDML(prior_strength=0, standardize=False).fit_pairs(Z, same[rest])
    np.testing.assert_allclose(
        learned.pair_distance(pairs), given.pair_distance(Z), rtol=1e-5
    )


def test_pairs_of_equal_points_only_are_an_error_that_names_n_impostors():
    with (
        pytest.warns(UserWarning, match="4 of 4 pairs"),
        pytest.raises(ValueError, match=r"got none among .* Increase n_impostors"),
    ):
        EigDML(n_impostors=1).fit([[0.0], [0.0], [2.0], [2.0]], [0, 1, 0, 1])
