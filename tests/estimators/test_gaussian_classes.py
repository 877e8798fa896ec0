"""GaussianClasses: scikit-learn's contract, scales, small and bad data."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_iris

from probmetric.estimators.gaussian_classes import GaussianClasses
from probmetric.estimators.glml import GLML
from tests.dump import assert_refused


def halves():
    X, y = load_iris(return_X_y=True)
    odd = np.arange(len(X)) % 2 == 1
    return X[~odd], y[~odd], X[odd], y[odd]


def log_loss(estimator, X, y):
    return -np.mean(estimator.predict_log_proba(X)[np.arange(len(y)), y])


def test_missing_entries_are_integrated_out_on_request():
    X, y, X_new, y_new = halves()
    holes = X_new.copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = np.nan
    holes[np.isnan(holes).all(1)] = X_new[np.isnan(holes).all(1)]
    model = GaussianClasses(missing="integrate").fit(X, y)
    none = np.full((1, 4), np.nan)
    found = model.predict_proba(np.concatenate([holes, none]))
    assert np.mean(found[:-1].argmax(1) == y_new) > 0.85
    np.testing.assert_allclose(found[-1], model.class_prior_)
    with pytest.raises(ValueError, match="NaN"):
        GaussianClasses().fit(X, y).predict(holes)


def with_holes(X, share=0.3, seed=0):
    holes = np.random.default_rng(seed).random(X.shape) < share
    return np.where(holes, np.nan, X)


@pytest.fixture(scope="module")
def partly():
    X, y, _, _ = halves()
    return GaussianClasses(missing="integrate", random_state=0).fit(with_holes(X), y)


@pytest.mark.long
def test_rows_with_missing_entries_teach(partly):
    """Log loss below that of whole rows alone, near that of all entries."""
    X, y, X_new, y_new = halves()
    holes = with_holes(X)
    whole = ~np.isnan(holes).any(1)
    assert whole.mean() < 0.5
    assert partly.posterior_.mean.shape == (24, 3, 4)
    alone = GaussianClasses().fit(holes[whole], y[whole])
    everything = GaussianClasses().fit(X, y)
    losses = [log_loss(m, X_new, y_new) for m in (everything, partly, alone)]
    assert losses[1] < losses[2]
    np.testing.assert_allclose(partly.means_, everything.means_, atol=0.25)
    again = GaussianClasses(missing="integrate", random_state=0).fit(holes, y)
    np.testing.assert_array_equal(again.means_, partly.means_)


@pytest.mark.long
def test_rescaling_a_feature_with_missing_entries_changes_no_prediction(partly):
    X, y, X_new, _ = halves()
    scale = np.array([1e3, 1.0, 1e-3, 7.0])
    scaled = clone(partly).fit(with_holes(X) * scale, y).predict_proba(X_new * scale)
    np.testing.assert_allclose(scaled, partly.predict_proba(X_new), atol=1e-6)


def test_whole_rows_need_no_completions():
    X, y, X_new, _ = halves()
    plain = GaussianClasses().fit(X, y)
    allowed = GaussianClasses(missing="integrate").fit(X, y)
    assert allowed.posterior_.mean.shape == (3, 4)
    np.testing.assert_array_equal(
        allowed.predict_proba(X_new), plain.predict_proba(X_new)
    )


def test_a_column_without_entries_is_refused():
    X, y, _, _ = halves()
    empty = np.where(np.arange(4) == 1, np.nan, X)
    with pytest.raises(
        ValueError, match=r"must contain a number, got only NaN in columns \[1\]"
    ):
        GaussianClasses(missing="integrate").fit(empty, y)


IRIS, SPECIES = load_iris(return_X_y=True)


REFUSED = [
    (IRIS, 0 * SPECIES, {}),
    (0 * IRIS, SPECIES, {}),
    (IRIS[:60:59], SPECIES[:60:59], {}),
    (np.where(IRIS > 7, np.nan, IRIS), SPECIES, {}),
    (IRIS, SPECIES, {"covariance": "spherical"}),
    (IRIS, SPECIES, {"alpha": 0}),
]


def test_bad_input_is_refused_by_name():
    calls = [partial(GaussianClasses(**how).fit, X, y) for X, y, how in REFUSED]
    assert_refused(calls, "estimators/gaussian_classes.txt")


@pytest.mark.long
def test_the_evidence_prefers_the_covariance_that_made_the_data():
    rng = np.random.default_rng(0)
    y, turn = np.repeat([0, 1, 2], 40), np.eye(4)
    turn[1, :2] = 0.9, 0.5
    X = rng.normal(size=(120, 4)) @ turn.T
    X = X * np.where(y == 0, 0.3, 1.0)[:, None] + y[:, None]
    found = {
        c: GaussianClasses(prior="evidence", covariance=c).fit(X, y).log_evidence_
        for c in ("full", "tied", "diagonal")
    }
    assert found["full"] > max(found["tied"], found["diagonal"]) + 5


@pytest.mark.long
def test_its_local_metrics_are_those_of_glml_without_a_share_of_the_pooled_one():
    X, y = load_iris(return_X_y=True)
    ours = GaussianClasses().fit(X, y)
    seed = int(np.random.RandomState(0).randint(2**31))
    metric = ours.posterior_metric("prediction", n_draws=4, seed=seed)
    other = GLML(gamma=0.0, n_draws=4, random_state=0).fit(X, y)
    for a, b in zip(metric.draws, other.draws_, strict=True):
        np.testing.assert_allclose(a.matrix_at(X[:5]), b.matrix_at(X[:5]), rtol=1e-7)
    with pytest.raises(ValueError, match="purpose must be"):
        ours.posterior_metric("both")


def gaussian_points(n=180, ratio=1.0):
    """Draw points of three Gaussian classes, the last ``ratio`` times as wide."""
    rng = np.random.default_rng(5)
    y = np.arange(n) % 3
    noise = rng.normal(size=(n, 2)) * np.where(y == 2, ratio, 1.0)[:, None]
    centre = np.array([[0.0, 0.0], [30.0, 0.2], [10.0, 0.5]])
    return centre[y] + noise @ np.array([[10.0, 0.05], [0.0, 0.2]]), y


@pytest.mark.long
def test_densities_of_draws_are_those_of_scipy_in_input_units(partly):
    X, y, _, _ = halves()
    X = with_holes(X)
    draws = partly.sample(n_draws=3, n_chains=1, log_prior=True)
    at = {k: v.to_numpy()[0] for k, v in draws["posterior"].data_vars.items()}
    found = draws["log_likelihood"].to_dataset()
    total = (found["total"] + found["power"]).to_numpy()[0]
    prior, scaler = partly._found.prior, partly._found.scaler
    for s in range(3):
        expected = 0.0
        for x, c in zip(X, y, strict=True):
            seen = ~np.isnan(x)
            cov = at["covariance"][s, c][np.ix_(seen, seen)]
            normal = stats.multivariate_normal(at["mean"][s, c][seen], cov)
            expected += np.log(at["weights"][s, c]) + normal.logpdf(x[seen])
        np.testing.assert_allclose(total[s], expected, rtol=1e-9)
        of_mean = 0.0
        for c in range(3):
            mean = (at["mean"][s, c] - scaler.mean) / scaler.scale
            cov = at["covariance"][s, c] / np.outer(scaler.scale, scaler.scale)
            normal = stats.multivariate_normal(prior.mean, cov / prior.kappa)
            of_mean += normal.logpdf(mean)
        np.testing.assert_allclose(
            draws["log_prior"]["mean"].to_numpy()[0, s], of_mean, rtol=1e-9
        )


def sampled(covariance, ratio=1.0):
    """Return a fit, 2000 draws with new points, and the labels."""
    X, y = gaussian_points(ratio=ratio)
    fitted = GaussianClasses(covariance=covariance).fit(X, y)
    options = {
        "predictive": True,
        "prior_draws": 500,
        "log_prior": covariance == "tied",
    }
    return fitted, fitted.sample(n_draws=2000, seed=3, **options), y


@pytest.fixture(scope="module")
def drawn():
    return sampled("full")


@pytest.mark.long
def test_draws_scatter_about_the_posterior_means_in_input_units(drawn):
    model, draws, _ = drawn
    drawn = draws["posterior"]
    assert drawn.sizes["chain"] == 1
    assert drawn.sizes["draw"] == 2000
    for name, fitted in (
        ("weights", model.class_prior_),
        ("mean", model.means_),
        ("covariance", model.covariances_),
    ):
        values = drawn[name].to_numpy()[0]
        # Five standard errors of the mean of 2000 independent draws.
        limit = 5 * values.std(0) / np.sqrt(2000) + 1e-9 * np.abs(fitted)
        assert np.all(np.abs(values.mean(0) - fitted) <= limit), name
    with pytest.raises(ValueError, match="method must be one of 'exact'"):
        model.sample("nuts")


@pytest.mark.long
def test_new_points_have_the_moments_of_the_draws(drawn):
    _, draws, y = drawn
    new = draws["posterior_predictive"]["X"].to_numpy()[0]
    at = draws["posterior"].to_dataset()
    covariances = at["covariance"].to_numpy()[0]
    for c in range(3):
        own = new[:, y == c] - at["mean"].to_numpy()[0][:, None, c]
        found = np.einsum("sni,snj->ij", own, own) / (own.shape[0] * own.shape[1])
        expected = covariances[:, c % covariances.shape[1]].mean(0)
        # 2000 × 60 points: four standard errors of a variance are about 2 %.
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)
    assert draws["prior_predictive"]["X"].shape == (1, 500, 180, 2)
    assert draws["prior"]["mean"].dims == ("chain", "draw", "class", "feature")


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_units_of_features_do_not_matter_where_they_are_not_scaled(covariance):
    X, y, X_new, _ = halves()
    scale = np.array([1e3, 1.0, 0.01, 7.0])
    fits = (
        GaussianClasses(covariance=covariance, standardize=s).fit(X * scale, y)
        for s in (True, False)
    )
    scaled, plain = (fitted.predict_proba(X_new * scale) for fitted in fits)
    np.testing.assert_allclose(plain, scaled, atol=1e-6)


@pytest.mark.long
def test_intervals_are_refused_where_the_covariance_was_taken_for_known():
    y = np.arange(75) % 3  # Classes of independent features and equal variances.
    X = np.random.default_rng(5).normal(size=(75, 4)) + y[:, None]
    fitted = GaussianClasses().fit(X, y)
    assert fitted.prior_.nu > 1e6
    with pytest.raises(ValueError, match=r"purpose must be 'prediction'.* prior"):
        fitted.posterior_metric("intervals")
    assert len(fitted.posterior_metric("prediction", n_draws=4).draws) == 4
    free = GaussianClasses(prior="evidence").fit(X, y)
    assert len(free.posterior_metric("intervals", n_draws=4).draws) == 4
