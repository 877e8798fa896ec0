"""GLML: scikit-learn's contract, scales, draws, baselines, small and bad data."""

import pickle
import warnings
from copy import copy

import numpy as np
import pytest
from scipy.linalg import expm, logm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from probmetric.estimators.glml import GLML
from probmetric.metric import LocalMahalanobis
from probmetric.storage.draws_file import load_draws, posterior_of, save_draws


@pytest.mark.long
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_fit2d_1feature,
        estimator_checks.check_fit2d_1sample,
        estimator_checks.check_classifiers_one_label,
        estimator_checks.check_classifiers_classes,
    ],
)
def test_checks_that_depend_on_data_pass_with_folds_and_draws(check):
    with warnings.catch_warnings(action="ignore"):
        check("GLML", GLML(n_draws=2))


def halves():
    X, y = load_iris(return_X_y=True)
    odd = np.arange(len(X)) % 2 == 1
    return X[~odd], y[~odd], X[odd], y[odd]


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = halves()
    return GLML(n_draws=4, gamma=1.0, random_state=0).fit(X, y)


@pytest.mark.long
def test_it_classifies(fitted):
    _, _, X_new, y_new = halves()
    assert fitted.score(X_new, y_new) > 0.9
    found = fitted.predict_proba(X_new)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    # A row alone, and in other company.
    np.testing.assert_allclose(fitted.predict_proba(X_new[8:9])[0], found[8], atol=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(X_new[::-1]), found[::-1])


@pytest.mark.long
def test_draws_are_reproducible_and_the_metric_pickles(fitted):
    X, y, X_new, _ = halves()
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(
        again.predict_proba(X_new), fitted.predict_proba(X_new)
    )
    metric = pickle.loads(pickle.dumps(fitted)).get_metric()
    assert isinstance(metric, LocalMahalanobis)
    np.testing.assert_array_equal(
        metric.matrix_at(X_new[:3]), fitted.local_metric(X_new[:3])
    )


@pytest.mark.long
def test_interval_of_a_local_distance_is_quantiles_of_distances_under_the_draws(fitted):
    X, _, X_new, _ = halves()
    intervals = fitted.posterior_metric("intervals")
    low, high = intervals.interval(X_new[:5], X[:5], prob=0.5)
    each = [
        [metric.dissimilarity(q, p[None])[0] for metric in fitted.draws_]
        for q, p in zip(X_new[:5], X[:5], strict=True)
    ]
    np.testing.assert_allclose(low, np.quantile(each, 0.25, axis=1), rtol=1e-9)
    np.testing.assert_allclose(high, np.quantile(each, 0.75, axis=1), rtol=1e-9)


def test_what_a_local_posterior_does_not_answer_is_refused(fitted):
    X, _, _, _ = halves()
    intervals = fitted.posterior_metric("intervals")
    with pytest.raises(
        ValueError, match="ratio_interval requires a metric that is a distance"
    ):
        intervals.ratio_interval((X[0], X[1]), (X[0], X[2]))
    with pytest.raises(ValueError, match="same_probability requires a metric"):
        intervals.same_probability(X[0], X[1])
    with pytest.raises(ValueError, match="purpose='intervals'"):
        fitted.posterior_metric("prediction").interval(X[0], X[1])


def test_log_euclidean_summary_is_the_mean_of_logarithms_in_the_whitened_frame(fitted):
    _, _, X_new, _ = halves()
    mean, spread = fitted.local_metric_summary(X_new[:3])
    back = np.linalg.inv(fitted.metric_.frame)
    for i in range(3):
        M = [m.matrix_at(X_new[i][None])[0] for m in fitted.draws_]
        A = [back.T @ one @ back for one in M]
        logs = [logm(one) for one in A]
        middle = np.mean(logs, 0)
        np.testing.assert_allclose(back.T @ mean[i] @ back, expm(middle), atol=1e-9)
        wanted = np.sqrt(np.mean([np.sum((one - middle) ** 2) for one in logs]))
        np.testing.assert_allclose(spread[i], wanted, rtol=1e-9)
    wanted = np.mean([2 * np.linalg.slogdet(m.frame)[1] for m in fitted.draws_])
    np.testing.assert_allclose(np.linalg.slogdet(mean)[1], wanted, rtol=1e-9)


@pytest.mark.long
def test_singular_matrices_have_no_logarithm(fitted):
    X, _, _, _ = halves()
    model = copy(fitted)
    model.rule, model.gamma_ = "fisher", 0.0
    with pytest.raises(ValueError, match="gamma must be above 0"):
        model.local_metric_summary(X[:2])


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"rule": "zero_bias", "densities": "mle", "n_draws": 0},
        {"rule": "fisher", "n_draws": 0, "covariance": "tied"},
        {"rule": "regularised", "n_draws": 0, "covariance": "diagonal"},
    ],
    ids=lambda o: o["rule"],
)
def test_every_rule_serves_in_a_pipeline(options):
    X, y, X_new, y_new = halves()
    model = make_pipeline(
        StandardScaler(), GLML(votes="count", random_state=0, **options)
    )
    assert model.fit(X, y).score(X_new, y_new) > 0.85


@pytest.mark.long
def test_fewer_points_than_features_and_classes_of_one():
    X, y = np.random.default_rng(1).normal(size=(5, 10)), np.array([0, 0, 1, 2, 3])
    model = GLML(n_neighbors=3, n_draws=0, gamma=0.1).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.local_metric(X[:3])).all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rule": "best"}, "rule must be one of"),
        ({"gamma": -1.0}, "gamma must be a number"),
        ({"gamma": "loo"}, "gamma must be .*'cv'.* got 'loo'"),
        ({"prior": "flat"}, "prior must be one of 'cv', 'evidence'"),
        ({"densities": "mle"}, "n_draws must be 0"),
        ({"rule": "expected_bias"}, "rule must be one of 'min_norm'"),
        ({"n_draws": -1}, "n_draws must be a whole number"),
        ({"votes": "hard"}, "votes must be"),
        ({"standardize": "no"}, "standardize must be True or False, got 'no'"),
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"missing": "drop"}, "missing must be one of"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    X, y, _, _ = halves()
    with pytest.raises(ValueError, match=message):
        GLML(**options).fit(X, y)


BAD = {
    "one class": (lambda X, y: (X, 0 * y), "y must have at least 2 classes"),
    "constant features": (lambda X, y: (0 * X, y), "column that is not constant"),
    "one point a class": (lambda X, y: (X[::25], y[::25]), "within classes"),
    "NaN": (lambda X, y: (np.where(X > 7, np.nan, X), y), "NaN"),
    "no ridge with n ≤ d": (lambda X, y: (X[::8], y[::8]), "shrinkage must be above"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_are_refused_by_name(case):
    change, message = BAD[case]
    X, y, _, _ = halves()
    plain = {"densities": "mle", "n_draws": 0, "shrinkage": 0.0}
    with pytest.raises(ValueError, match=message):
        GLML(**plain).fit(*change(X, y))


@pytest.mark.long
def test_rows_with_missing_entries_teach_and_are_nobodys_neighbors():
    X, y, X_new, y_new = halves()
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.03, np.nan, X)
    model = GLML(missing="integrate", n_draws=4, random_state=0).fit(holes, y)
    whole = ~np.isnan(holes).any(1)
    assert not whole.all()
    assert len(model.classifier_.fit_X_) == whole.sum()
    assert model.score(X_new, y_new) > 0.9
    low, high = model.posterior_metric("intervals").interval(X_new[:5], X[:5])
    assert (low < high).all()
    assert np.isfinite(model.local_metric(X_new[:3])).all()
    with pytest.raises(ValueError, match="NaN"):
        model.predict(holes)


@pytest.mark.long
def test_missing_entries_need_whole_rows_and_a_posterior():
    X, y, _, _ = halves()
    options = {"missing": "integrate", "gamma": 1.0, "n_draws": 0}
    first = np.where((y == 0)[:, None] & (np.arange(4) == 2), np.nan, X)
    with pytest.raises(ValueError, match=r"row without NaN.*\[0\]"):
        GLML(**options).fit(first, y)
    one = np.where((np.arange(len(X)) == 0)[:, None] & (np.arange(4) == 2), np.nan, X)
    with pytest.raises(ValueError, match="densities must be 'posterior'"):
        GLML(densities="mle", **options).fit(one, y)
    with pytest.raises(ValueError, match="NaN"):
        GLML(gamma=1.0, n_draws=0).fit(one, y)


@pytest.mark.long
def test_draws_stand_for_the_metrics_that_the_fit_averages(fitted, tmp_path):
    X_new = halves()[2][:3]
    seed = int(np.random.RandomState(0).randint(2**31))
    drawn = fitted.sample(n_draws=4, n_chains=1, seed=seed)
    save_draws(drawn, tmp_path / "draws.nc")
    posterior = posterior_of(load_draws(tmp_path / "draws.nc"))
    assert posterior.source == "exact"
    again = fitted.posterior_metric("intervals", n_draws=4, seed=seed)
    for ours, own in zip(
        [*posterior.draws, *again.draws], 2 * fitted.draws_, strict=True
    ):
        np.testing.assert_allclose(
            ours.matrix_at(X_new), own.matrix_at(X_new), rtol=1e-7
        )
    few = fitted.posterior_metric("intervals", draws=drawn, n_draws=2)
    assert few.n_draws == 2
    other = fitted.posterior_metric("intervals", n_draws=4, seed=seed + 1)
    assert other.n_draws == 4
    for ours, own in zip(other.draws, fitted.draws_, strict=True):
        assert np.abs(ours.matrix_at(X_new) / own.matrix_at(X_new) - 1).max() > 0.01


@pytest.mark.long
@pytest.mark.parametrize(
    "settings, options, message",
    [
        ({}, {}, "n_draws must be at least 1"),
        ({}, {"method": "nuts"}, "method must be one of 'exact', got 'nuts'"),
        (
            {"densities": "mle"},
            {"n_draws": 7},
            "densities must be 'posterior'",
        ),
    ],
)
def test_posteriors_without_draws_are_refused(settings, options, message):
    X, y, _, _ = halves()
    model = GLML(**{"n_draws": 0, "gamma": 0.0, "random_state": 0, **settings})
    model.fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.posterior_metric("prediction", **options)


@pytest.mark.long
def test_of_noise_nothing_is_learned_and_intervals_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(75, 4)) * [1, 10, 100, 1], np.arange(75) % 3
    model = GLML(n_draws=4, random_state=0).fit(X, y)
    assert (model.frame_, model.gamma_, len(model.gamma_scores_)) == (
        "identity",
        np.inf,
        8,
    )
    assert len(model.draws_) == 4
    for metric in (model.get_metric(), *model.draws_):
        wanted = np.sum(((X[0] - X) / X.std(0)) ** 2, 1)
        found = metric.dissimilarity(X[0], X)
        np.testing.assert_allclose(found / found[1], wanted / wanted[1], rtol=1e-9)
    with pytest.raises(ValueError, match="purpose must be 'prediction' if gamma_"):
        model.posterior_metric("intervals")
    drawn = model.sample(n_draws=4, n_chains=1, seed=1)
    other = model.posterior_metric("prediction", draws=drawn).draws[0]
    np.testing.assert_allclose(
        other.dissimilarity(X[0], X),
        model.get_metric().dissimilarity(X[0], X),
        rtol=1e-9,
    )


def test_a_fit_of_an_earlier_version_is_read(fitted):
    """Its attributes, without those that are new."""
    X_new = halves()[2]
    state = fitted.__getstate__()
    old = GLML.__new__(GLML)
    old.__setstate__({k: v for k, v in state.items() if k not in ("prior", "frame_")})
    assert old.get_params()["prior"] == "cv"
    assert "GLML" in repr(old)
    np.testing.assert_array_equal(old.predict_proba(X_new), fitted.predict_proba(X_new))
