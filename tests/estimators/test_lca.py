"""``LCA``: recipe, units, pairs and draws, each against something independent."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from probmetric.estimators import lca_tuning
from probmetric.estimators._validation import bucket, pad_pairs
from probmetric.estimators.lca import LCA
from probmetric.inference import lca
from probmetric.models.lca import LCAParams, LCAPrior, log1mexp
from probmetric.pairs import nearest_pairs

WINE_X, WINE_Y = load_wine(return_X_y=True)
IRIS_X, IRIS_Y = load_iris(return_X_y=True)
Z_IRIS = (IRIS_X - IRIS_X.mean(0)) / IRIS_X.std(0)


def pair_problem(seed=0, n_pairs=120, d=3):
    """Independent pairs whose first feature alone decides."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(n_pairs, 2, d)) * [1.0, 10.0, 0.1][:d]
    near = np.exp(-0.5 * (1.5 * (pairs[:, 0, 0] - pairs[:, 1, 0])) ** 2)
    return pairs, (rng.uniform(size=n_pairs) < near).astype(int)


def reference_recipe(X, y, k=3, lam=10.0, passes=2):
    """The recipe in full matrices, fitted by SciPy: independent of the package."""
    n, d = X.shape
    same = y[:, None] == y
    W, theta, W0, s = np.eye(d), None, np.eye(d), 1.0
    for _ in range(passes):
        Z = X @ W.T
        D = ((Z[:, None] - Z) ** 2).sum(-1)
        np.fill_diagonal(D, np.inf)
        i = np.repeat(np.arange(n), k)
        sides = [
            np.argsort(np.where(mask, D, np.inf), 1, kind="stable")[:, :k].ravel()
            for mask in (same, ~same)
        ]
        delta = [X[i] - X[j] for j in sides]
        w = n / (2 * k * n)
        if theta is None:
            s = 1 / np.sqrt(np.median((delta[0] ** 2).sum(1)))
            W0 = s * np.eye(d)
            theta = np.append(W0.ravel(), np.log(0.3))

        @jax.value_and_grad
        def loss(theta, delta=delta, W0=W0, s=s, w=w):
            W, rho = theta[:-1].reshape(d, d), theta[-1]
            t = [
                0.5 * d * jnp.log1p(2 * jnp.exp(rho))
                + ((v @ W.T) ** 2).sum(1) / (2 * (1 + 2 * jnp.exp(rho)))
                for v in delta
            ]
            ll = w * (-t[0].sum() + log1mexp(t[1]).sum())
            penalty = 0.5 * lam / s**2 * ((W - W0) ** 2).sum()
            return -ll + penalty + 0.5 * (rho - jnp.log(0.3)) ** 2

        with jax.enable_x64(True):
            compiled = jax.jit(loss)
            theta = minimize(
                lambda v, f=compiled: tuple(np.asarray(a, float) for a in f(v)),
                theta,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9},
            ).x
        W = theta[:-1].reshape(d, d)
    return W.T @ W / (1 + 2 * np.exp(theta[-1]))


def test_default_fit_is_the_recipe_solved_independently():
    # No tied distances, which rounding would order at random in the reference.
    X, y = make_blobs(90, 3, centers=3, cluster_std=4.0, random_state=1)
    X *= [1.0, 20.0, 0.3]
    fitted = LCA(tol=1e-10).fit(X, y)
    scale = X.std(0)
    wanted = reference_recipe((X - X.mean(0)) / scale, y) / np.outer(scale, scale)
    # Both stop at gradients of 1e-9 of the objective: M is good to about 1e-6.
    np.testing.assert_allclose(
        fitted.get_mahalanobis_matrix(), wanted, atol=1e-5 * wanted.max()
    )


def test_without_the_refresh_the_metric_is_another():
    one, two = (LCA(n_refresh=r).fit(IRIS_X, IRIS_Y).components_ for r in (0, 1))
    assert np.max(np.abs(one - two)) > 1e-2 * np.max(np.abs(two))


def test_default_uses_n_over_N_and_ten_pseudo_points():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    assert fitted.learning_rate_ == pytest.approx(1 / 6)
    assert fitted.regularization_ == 10
    assert fitted.n_refresh_ == 1
    assert LCA(regularization=3).fit(IRIS_X, IRIS_Y).regularization_ == 3


def test_regularization_grows_beyond_a_thousand_points():
    X, y = make_blobs(1500, 2, random_state=0)
    assert LCA(n_refresh=0).fit(X, y).regularization_ == 15


def test_rescaling_a_column_changes_no_neighbour():
    scaled = WINE_X * np.where(np.arange(13) == 4, 1e3, 1.0)
    found = []
    for X in (WINE_X, scaled):
        Z = LCA().fit(X, WINE_Y).transform(X)
        knn = KNeighborsClassifier(5).fit(Z, WINE_Y)
        found.append(knn.kneighbors(return_distance=False))
    np.testing.assert_array_equal(found[0], found[1])


def test_without_standardizing_a_rescaled_column_does_change_neighbours():
    found = []
    for factor in (1.0, 1e3):
        X = Z_IRIS * [1, 1, factor, 1]
        Z = LCA(standardize=False).fit(X, IRIS_Y).transform(X)
        knn = KNeighborsClassifier(5).fit(Z, IRIS_Y)
        found.append(knn.kneighbors(return_distance=False))
    assert np.any(found[0] != found[1])


def test_translation_and_row_order_leave_the_metric_unchanged():
    base = LCA().fit(IRIS_X[::2], IRIS_Y[::2]).get_mahalanobis_matrix()
    moved = LCA().fit(IRIS_X[::2] + 1e3, IRIS_Y[::2]).get_mahalanobis_matrix()
    np.testing.assert_allclose(moved, base, atol=1e-4 * np.abs(base).max())


def test_padding_changes_neither_objective_nor_optimum(x64):
    pairs = nearest_pairs(Z_IRIS, IRIS_Y)
    assert len(pairs.i) not in (bucket(len(pairs.i)), 1024)
    W0, c = lca.scaled_identity(pairs)
    prior = LCAPrior(W0, c=c)
    params = LCAParams(jnp.asarray(1.3 * W0), jnp.asarray(-1.0), 1.0)
    values = [
        float(lca.log_joint(params, lca.prepare(p), prior, 0.2))
        for p in (pairs, pad_pairs(pairs))
    ]
    # The sums run in another order: rounding of ~1000 terms.
    np.testing.assert_allclose(values[1], values[0], rtol=1e3 * np.finfo(float).eps)


@pytest.mark.parametrize("n", [1, 511, 512, 513, 2048, 2049, 100_000, 123_457])
def test_buckets_hold_n_and_waste_little(n):
    size = bucket(n)
    assert n <= size <= max(512, 2 * n if n <= 2048 else 1.25 * n)
    assert bucket(size) == size


def test_distance_transform_matrix_and_metric_agree():
    fitted = LCA(n_components=2).fit(IRIS_X, IRIS_Y)
    a, b = IRIS_X[:40], IRIS_X[60:100]
    pairs = np.stack([a, b], 1)
    distance = fitted.pair_distance(pairs)
    M = fitted.get_mahalanobis_matrix()
    quadratic = np.einsum("nd,de,ne->n", a - b, M, a - b)
    images = fitted.transform(a) - fitted.transform(b)
    metric = fitted.get_metric()
    np.testing.assert_allclose(distance**2, quadratic, rtol=1e-10)
    np.testing.assert_allclose(distance, np.linalg.norm(images, axis=1), rtol=1e-10)
    np.testing.assert_allclose(distance[0], metric(a[0], b[0]), rtol=1e-12)
    np.testing.assert_allclose(
        fitted.same_probability(pairs), metric.same_probability(a, b), rtol=1e-12
    )
    np.testing.assert_array_equal(fitted.pair_score(pairs), -distance)
    assert fitted.components_.shape == (2, 4)
    assert fitted.get_feature_names_out().tolist() == ["lca0", "lca1"]


def test_same_probability_is_that_of_the_model_in_standard_units():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    params = fitted.fitted_.fit.params
    delta = (IRIS_X[3] - IRIS_X[70]) / IRIS_X.std(0)
    eta = 1 + 2 * np.exp(params.log_sigma2)
    t = 2 * np.log(eta) + np.sum((params.W @ delta) ** 2) / (2 * eta)
    made = fitted.same_probability(np.stack([IRIS_X[3], IRIS_X[70]])[None])
    np.testing.assert_allclose(made, np.exp(-t), rtol=1e-10)


def test_index_pairs_point_pairs_and_both_label_conventions_fit_alike():
    rng = np.random.default_rng(0)
    index = rng.integers(0, 150, (200, 2))
    y = (IRIS_Y[index[:, 0]] == IRIS_Y[index[:, 1]]).astype(int)
    by_point = LCA().fit_pairs(IRIS_X[index], y)
    by_index = LCA(preprocessor=IRIS_X).fit_pairs(index, 2 * y - 1)
    np.testing.assert_allclose(
        by_index.get_mahalanobis_matrix(),
        by_point.get_mahalanobis_matrix(),
        rtol=1e-6,
        atol=1e-8,
    )
    np.testing.assert_allclose(
        by_index.pair_distance(index), by_index.pair_distance(IRIS_X[index])
    )
    assert set(by_index.predict(index)) == {-1, 1}
    assert set(by_point.predict(IRIS_X[index])) == {0, 1}


def test_a_weight_of_two_is_the_pair_twice():
    pairs, y = pair_problem()
    twice = np.concatenate([pairs, pairs[:30]]), np.concatenate([y, y[:30]])
    # The prior's scale is a median that does not weigh; give it the same one.
    settings = {"standardize": False, "regularization": 5.0, "tol": 1e-9}
    one, two = (LCA(prior_mean=np.eye(3), **settings) for _ in range(2))
    one.fit_pairs(*twice)
    two.fit_pairs(pairs, y, sample_weight=np.where(np.arange(120) < 30, 2.0, 1.0))
    np.testing.assert_allclose(
        two.get_mahalanobis_matrix(),
        one.get_mahalanobis_matrix(),
        rtol=1e-5,
        atol=1e-7,
    )


def test_pairs_recover_the_feature_that_decides():
    pairs, y = pair_problem(n_pairs=600)
    fitted = LCA(regularization=0.1).fit_pairs(pairs, y)
    importance = np.diag(fitted.get_mahalanobis_matrix()) * fitted.scale_**2
    assert importance[0] > 5 * importance[1:].max()
    assert fitted.learning_rate_ == 1


def test_score_is_the_roc_area_of_minus_the_distance():
    pairs, y = pair_problem()
    fitted = LCA().fit_pairs(pairs, y)
    wanted = roc_auc_score(y, -fitted.pair_distance(pairs))
    assert fitted.score(pairs, y) == pytest.approx(wanted)
    np.testing.assert_array_equal(
        fitted.decision_function(pairs), -fitted.pair_distance(pairs)
    )


def rates(fitted, pairs, y):
    found = fitted.predict(pairs)
    same = y == 1
    return np.mean(found[same] == 1), np.mean(found[~same] != 1)


def test_accuracy_threshold_is_the_best_of_all_cuts():
    pairs, y = pair_problem(3)
    fitted = LCA().fit_pairs(pairs, y)
    distance = fitted.pair_distance(pairs)
    cuts = np.append(np.sort(distance), -1)
    best = max(np.mean((distance <= cut) == y) for cut in cuts)
    assert np.mean(fitted.predict(pairs) == y) == best


def test_threshold_may_call_no_pair_same():
    pairs, _ = pair_problem(4, n_pairs=40)
    fitted = LCA().fit_pairs(pairs, np.arange(40) % 2)
    order = np.argsort(fitted.pair_distance(pairs))
    labels = np.zeros(40, int)
    labels[order[-1]] = 1  # only the farthest pair is same
    fitted.calibrate_threshold(pairs, labels)
    assert not fitted.predict(pairs).any()


@pytest.mark.parametrize("strategy", ["max_tpr", "max_tnr"])
def test_rate_strategies_keep_the_other_rate_and_are_best(strategy):
    pairs, y = pair_problem(5)
    fitted = LCA().fit_pairs(pairs, y)
    fitted.calibrate_threshold(pairs, y, strategy, min_rate=0.8)
    pick = (lambda r: r) if strategy == "max_tpr" else (lambda r: r[::-1])
    gain, kept = pick(rates(fitted, pairs, y))
    assert kept >= 0.8
    for cut in fitted.pair_distance(pairs):
        other_gain, other_kept = pick(rates(fitted.set_threshold(cut), pairs, y))
        assert other_kept < 0.8 or other_gain <= gain


def test_f_beta_strategy_is_the_best_of_all_cuts():
    pairs, y = pair_problem(6)
    fitted = LCA().fit_pairs(pairs, y)

    def f2(threshold):
        found = fitted.set_threshold(threshold).predict(pairs)
        hits = np.sum((found == 1) & (y == 1))
        return 5 * hits / (np.sum(found == 1) + 4 * np.sum(y == 1))

    best = max(f2(cut) for cut in fitted.pair_distance(pairs))
    chosen = fitted.calibrate_threshold(pairs, y, "f_beta", beta=2).threshold_
    assert f2(chosen) == pytest.approx(best)


def test_classifying_pairs_waits_for_a_threshold():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    assert not hasattr(fitted, "predict")
    with pytest.raises(AttributeError, match="predict"):
        fitted.predict(IRIS_X[:2][None])
    assert hasattr(fitted.set_threshold(1.0), "predict")
    assert not hasattr(fitted.fit(IRIS_X, IRIS_Y), "threshold_")


@pytest.mark.parametrize("pairs", ["impostors", "all"])
def test_other_pair_sets_fit_and_beat_chance(pairs):
    fitted = LCA(pairs=pairs, regularization=100.0).fit(IRIS_X, IRIS_Y)
    Z = fitted.transform(IRIS_X)
    assert KNeighborsClassifier(3).fit(Z, IRIS_Y).score(Z, IRIS_Y) > 0.9
    assert fitted.n_refresh_ == 0


@pytest.mark.parametrize("pairs", ["nearest", "impostors"])
def test_per_anchor_scales_are_per_anchor_and_carry_no_probability(pairs):
    fitted = LCA(pairs=pairs, per_anchor=True).fit(IRIS_X, IRIS_Y)
    n_anchors = len(np.unique(fitted.fitted_.pairs.anchor))
    assert fitted.kappa2_.shape == (n_anchors,)
    assert np.all(np.isfinite(fitted.kappa2_))
    assert fitted.get_metric().link is None
    with pytest.raises(ValueError, match="per_anchor: wanted one scale common"):
        fitted.same_probability(IRIS_X[:2][None])
    with pytest.raises(ValueError, match="per_anchor: wanted False for draws"):
        fitted.posterior_metric("intervals")


@pytest.mark.parametrize("solver", ["squarem", "em", "full_em"])
def test_solvers_agree_on_the_optimum(solver):
    X, y = Z_IRIS[::3], IRIS_Y[::3]
    wanted = LCA(n_refresh=0, tol=1e-9).fit(X, y).get_mahalanobis_matrix()
    made = LCA(n_refresh=0, solver=solver, max_iter=20000, tol=1e-9).fit(X, y)
    # A relative gap of 1e-9 leaves about its square root in the parameters.
    np.testing.assert_allclose(
        made.get_mahalanobis_matrix(), wanted, atol=1e-3 * wanted.max()
    )


def test_folds_choose_the_setting_of_best_held_out_accuracy():
    X, y = Z_IRIS[::3], IRIS_Y[::3]
    fitted = LCA(regularization="cv", standardize=False).fit(X, y)
    table = lca_tuning.choose_by_folds(X, y, lca_tuning.Recipe(n_components=4))
    assert len(table) == 1 + 2 * len(lca_tuning.GRID)
    assert table[0].accuracy == max(choice.accuracy for choice in table)
    assert fitted.regularization_ == table[0].lam
    assert fitted.n_refresh_ == table[0].n_refresh


def test_fold_accuracy_equals_scikit_learns():
    codes = IRIS_Y[::2]
    made = lca_tuning.accuracies(Z_IRIS[::2], codes, Z_IRIS[1::2], IRIS_Y[1::2])
    wanted = [
        KNeighborsClassifier(k)
        .fit(Z_IRIS[::2], codes)
        .score(Z_IRIS[1::2], IRIS_Y[1::2])
        for k in lca_tuning.NEIGHBORS
    ]
    np.testing.assert_allclose(made, wanted)


def test_folds_choose_no_learning_where_labels_are_noise():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 2)), np.tile([0, 1], 40)
    table = lca_tuning.choose_by_folds(X, y, lca_tuning.Recipe(n_components=2))
    unlearned = next(c for c in table if np.isinf(c.lam))
    pairs = nearest_pairs(X, y)
    recipe = lca_tuning.Recipe(n_components=2)
    prior = lca_tuning.prior_for(pairs, recipe, np.inf)
    fitted = lca_tuning._unlearned(pairs, prior, recipe)
    assert unlearned.n_refresh == 0
    np.testing.assert_array_equal(fitted.fit.params.W, prior.mean)
    # At the optimum over log σ² alone a step either way is worse.
    rho = float(fitted.fit.params.log_sigma2)
    assert -20 < rho < 10


def test_evidence_chooses_from_its_grid():
    fitted = LCA(regularization="evidence").fit(IRIS_X, IRIS_Y)
    assert fitted.regularization_ in lca_tuning.EVIDENCE_GRID
    assert LCA(regularization="evidence").fit_pairs(*pair_problem()).n_iter_ > 0


BAD_PAIRS = {
    "one label": (lambda: LCA().fit_pairs(np.zeros((3, 2, 2)), [1, 1, 1]), "y: wanted"),
    "NaN": (
        lambda: LCA().fit_pairs(np.full((2, 2, 2), np.nan), [0, 1]),
        "pairs: wanted finite",
    ),
    "constant": (
        lambda: LCA().fit_pairs(np.ones((3, 2, 2)), [0, 1, 1]),
        r"got constant columns \[0, 1\]",
    ),
    "cv": (
        lambda: LCA(regularization="cv").fit_pairs(*pair_problem()),
        "regularization: wanted 'auto', 'evidence' or a number for pairs",
    ),
    "no anchor": (
        lambda: LCA(per_anchor=True).fit_pairs(*pair_problem()),
        "anchor: wanted a group per pair",
    ),
    "one-label anchor": (
        lambda: LCA(per_anchor=True).fit_pairs(
            *pair_problem(), anchor=np.arange(120) // 2
        ),
        "anchor: wanted groups 0..G-1 that hold pairs of both labels",
    ),
    "index": (
        lambda: LCA().fit_pairs([[0, 1], [1, 2]], [0, 1]),
        r"pairs: wanted shape \(N, 2, d\)",
    ),
    "few members": (
        lambda: LCA(regularization="cv").fit(
            IRIS_X[[0, 1, 2, 60, 61]], [0, 0, 0, 1, 1]
        ),
        "regularization: wanted .* 4 members in each class",
    ),
    "per anchor all": (
        lambda: LCA(per_anchor=True, pairs="all").fit(IRIS_X, IRIS_Y),
        "per_anchor: wanted False with pairs='all'",
    ),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pair_input_is_refused_by_name(name):
    call, message = BAD_PAIRS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_pairs_of_another_width_and_bad_strategies_are_refused():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    pairs, y = pair_problem()
    with pytest.raises(ValueError, match="pairs: wanted 4 features, as in fit, got 3"):
        fitted.pair_distance(pairs)
    with pytest.raises(ValueError, match="strategy: wanted one of 'accuracy'"):
        fitted.calibrate_threshold(IRIS_X[:2][None], [1], "youden")
    with pytest.raises(ValueError, match=re.escape("min_rate: wanted a number in")):
        LCA().fit_pairs(pairs, y).calibrate_threshold(pairs, y, "max_tpr")
    with pytest.raises(ValueError, match="threshold: wanted a number in"):
        fitted.set_threshold(-1.0)
