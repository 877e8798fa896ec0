"""GLML: scikit-learn's contract, scales, draws, baselines, small and bad data."""

from copy import copy
from functools import partial

import numpy as np
import pytest
from scipy.linalg import expm, logm
from sklearn.datasets import load_iris

from probmetric.estimators.glml import GLML
from probmetric.storage.draws_file import load_draws, posterior_of, save_draws
from tests.dump import assert_refused


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


OPTIONS = [
    {"rule": "best"},
    {"gamma": -1.0},
    {"gamma": "loo"},
    {"prior": "flat"},
    {"densities": "mle"},
    {"rule": "expected_bias"},
    {"n_draws": -1},
    {"votes": "hard"},
    {"standardize": "no"},
    {"n_neighbors": 0},
    {"missing": "drop"},
]


def test_bad_options_are_refused_by_name():
    X, y, _, _ = halves()
    calls = [partial(GLML(**options).fit, X, y) for options in OPTIONS]
    assert_refused(calls, "estimators/glml_options.txt")


BAD = {
    "one class": lambda X, y: (X, 0 * y),
    "constant features": lambda X, y: (0 * X, y),
    "one point a class": lambda X, y: (X[::25], y[::25]),
    "NaN": lambda X, y: (np.where(X > 7, np.nan, X), y),
    "no ridge with n ≤ d": lambda X, y: (X[::8], y[::8]),
}


def test_bad_data_are_refused_by_name():
    X, y, _, _ = halves()
    plain = GLML(densities="mle", n_draws=0, shrinkage=0.0)
    calls = {name: partial(plain.fit, *change(X, y)) for name, change in BAD.items()}
    assert_refused(calls, "estimators/glml_data.txt")


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


WITHOUT_DRAWS = [
    ({}, {}),
    ({}, {"method": "nuts"}),
    ({"densities": "mle"}, {"n_draws": 7}),
]


@pytest.mark.long
def test_posteriors_without_draws_are_refused():
    X, y, _, _ = halves()

    def posterior(settings, options):
        model = GLML(**{"n_draws": 0, "gamma": 0.0, "random_state": 0, **settings})
        model.fit(X, y).posterior_metric("prediction", **options)

    calls = [partial(posterior, *given) for given in WITHOUT_DRAWS]
    assert_refused(calls, "estimators/glml_draws.txt")


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
