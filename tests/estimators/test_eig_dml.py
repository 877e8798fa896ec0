"""``EigDML``: scikit-learn's conventions, the certificate in input units, bad input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import check_estimator

from probmetric.data.pairs import all_pairs, nearest_pairs
from probmetric.estimators.eig_dml import EigDML

X, y = load_wine(return_X_y=True)

MAY_SKIP = {"check_array_api_input"}  # needs SciPy's environment variable


def side_by_side(pairs):
    return np.stack([pairs.X[pairs.i], pairs.X[pairs.j]], 1)


@pytest.mark.long
@pytest.mark.parametrize(("solver", "strength"), [("frank_wolfe", 0.0), ("pdhg", 9.0)])
def test_check_estimator_is_complete(solver, strength):
    estimator = EigDML(solver=solver, tol=0.3, prior_strength=strength)
    records = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {
        r["check_name"]: r["exception"] for r in records if r["status"] == "failed"
    }
    assert not failed
    assert {r["check_name"] for r in records if r["status"] == "skipped"} <= MAY_SKIP
    assert len(records) > 40


@pytest.fixture(scope="module")
def plain():
    """Return the optimum on Wine, which no prior mixes with anything."""
    return EigDML(solver="pdhg", prior_strength=0).fit(X, y)


@pytest.mark.long
@pytest.mark.parametrize(("solver", "tol"), [("frank_wolfe", 1e-2), ("pdhg", 1e-6)])
def test_default_reaches_its_certificate_on_wine(plain, solver, tol):
    fitted = plain
    if solver != "pdhg":
        fitted = EigDML(solver=solver, prior_strength=0).fit(X, y)
    assert 0 <= fitted.gap_ <= tol * fitted.primal_
    np.testing.assert_allclose(
        fitted.gap_, fitted.dual_ - fitted.primal_, atol=1e-14 * fitted.dual_
    )


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


@pytest.mark.long
def test_scale_of_a_column_changes_no_neighbor(plain):
    scaled = X * np.where(np.arange(13) == 4, 1e3, 1.0)
    a, b = plain.transform(X), clone(plain).fit(scaled, y).transform(scaled)
    near = [NearestNeighbors(n_neighbors=3).fit(Z).kneighbors(Z)[1] for Z in (a, b)]
    np.testing.assert_array_equal(*near)


def test_metric_is_picklable_and_agrees(plain):
    metric = pickle.loads(pickle.dumps(plain.get_metric()))
    pairs = np.stack([X[:9], X[100:109]], 1)
    np.testing.assert_allclose(
        metric.distance(X[:9], X[100:109]), plain.pair_distance(pairs)
    )
    np.testing.assert_allclose(metric.matrix, plain.get_mahalanobis_matrix())


def test_clone_refits_to_the_same(plain):
    np.testing.assert_array_equal(clone(plain).fit(X, y).components_, plain.components_)


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


def test_no_learning_is_the_euclidean_distance_of_standardized_points():
    fitted = EigDML(solver="pdhg", prior_strength=np.inf).fit(X, y)
    Z = (X - X.mean(0)) / X.std(0)
    learned = fitted.pair_distance(np.stack([X[:9], X[100:109]], 1))
    ratio = learned / np.linalg.norm(Z[:9] - Z[100:109], axis=1)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("pairs", ["all", "nearest", "impostors"])
def test_the_number_that_was_chosen_gives_the_same_fit(pairs):
    few, labels = X[::4], y[::4]
    chosen = EigDML(solver="pdhg", pairs=pairs).fit(few, labels)
    assert chosen.prior_strength_ in (np.inf, 256, 64, 16, 4, 1)
    given = clone(chosen).set_params(prior_strength=chosen.prior_strength_)
    np.testing.assert_array_equal(
        given.fit(few, labels).components_, chosen.components_
    )


def test_pairs_handed_in_choose_no_prior_and_count_for_a_number():
    few, labels = X[::4], y[::4]
    pairs = all_pairs(few, labels)
    both, how = side_by_side(pairs), {"solver": "pdhg", "pairs": "all"}
    chosen = EigDML(**how).fit_pairs(both, pairs.y)
    assert chosen.prior_strength_ == 0
    s = 10 * len(pairs.y) / len(few)
    handed = EigDML(**how, prior_strength=s).fit_pairs(both, pairs.y)
    learned = EigDML(**how, prior_strength=10).fit(few, labels)
    np.testing.assert_allclose(
        handed.get_mahalanobis_matrix(), learned.get_mahalanobis_matrix(), rtol=1e-5
    )


def test_two_points_a_class_are_few_enough_to_learn_nothing():
    fitted = EigDML(solver="pdhg").fit(X[[0, 1, 60, 61]], y[[0, 1, 60, 61]])
    assert fitted.prior_strength_ == np.inf


BAD = {
    "solver": ("sdp", "solver: expected one of 'pdhg', 'frank_wolfe'"),
    "kappa": (0.0, "kappa: expected a number in"),
    "ridge": (-1.0, "ridge: expected a number in"),
    "prior_strength": (-1.0, "prior_strength: expected a number in"),
    "tol": (0.0, "tol: expected a number in"),
    "max_iter": (0, "max_iter: expected a whole number"),
    "pairs": ("random", "pairs: expected one of"),
    "n_targets": (0, "n_targets: expected a whole number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused_by_name(name):
    value, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        EigDML(**{name: value}).fit(X, y)


def test_given_pairs_of_equal_points_called_different_are_refused():
    with pytest.raises(ValueError, match="far pairs of distinct points"):
        EigDML().fit_pairs(np.stack([X[:4], X[[1, 2, 3, 3]]], 1), [1, 1, 1, 0])


@pytest.mark.long
def test_close_pairs_that_span_too_little_need_a_ridge():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((6, 8))
    labels = np.repeat([0, 1], 3)
    with pytest.raises(ValueError, match=r"ridge .* all 8"):
        EigDML(ridge=0.0).fit(points, labels)
    free = EigDML(solver="pdhg", prior_strength=0)
    assert np.all(np.isfinite(free.fit(points, labels).components_))


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


def test_one_feature_with_equal_points_of_two_classes_learns():
    line = TWINS[:, 1:]
    with pytest.warns(UserWarning, match="are equal points"):
        learned = EigDML(n_impostors=4).fit(line, CLASSES)
    assert learned.components_[0, 0] > 0


def test_pairs_of_equal_points_only_are_an_error_that_names_n_impostors():
    with (
        pytest.warns(UserWarning, match="4 of 4 pairs"),
        pytest.raises(ValueError, match=r"got none among .* Raise n_impostors"),
    ):
        EigDML(n_impostors=1).fit([[0.0], [0.0], [2.0], [2.0]], [0, 1, 0, 1])
