"""DCAGM, the estimator: scikit-learn's contract, metrics in input units, refusals."""

import pickle
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

import probmetric as pm
from probmetric import DCAGM
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.start import lda_rca
from probmetric.models.dca_gm import dca_gm, unconstrain
from tests.dump import assert_refused
from tests.estimators.data_checks import OF_CLASSIFIERS


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return DCAGM(2).fit(*iris)


@pytest.fixture(scope="module")
def mixed(iris):
    """Return a fit whose metric is mixed with the Euclidean one, and its points."""
    X, y = iris
    X = X[::3] * [1.0, 9.0, 1.0, 1.0]
    X[:, 2] = 7.0
    with pytest.warns(UserWarning, match="constant"):
        return DCAGM(prior_strength=20).fit(X, y[::3]), X


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", OF_CLASSIFIERS)
def test_the_choice_of_a_prior_keeps_it_for_all_kinds_of_data(check):
    check("DCAGM", DCAGM(n_gaussians=1))


def test_metrics_in_input_units_see_the_classifiers_probabilities(iris, fitted):
    X, _ = iris
    metric = fitted.get_metric(kind="hellinger")
    expected = fitted.predict_log_proba(X)
    np.testing.assert_allclose(metric.log_probability(X), expected, atol=1e-9)


def test_the_average_fisher_metric_is_the_mean_of_the_local_ones(iris, fitted):
    X, _ = iris
    local = fitted.get_metric(kind="local_fisher").matrix_at(X).mean(0)
    np.testing.assert_allclose(fitted.get_mahalanobis_matrix(), local, rtol=1e-8)


def mixture(J, scale, share):
    """Return (1 - w) J + w (tr J/d) I of scaled features, in input units."""
    live = scale > 0
    scaled = (J * np.outer(scale, scale))[np.ix_(live, live)]
    d = live.sum()
    scaled = (1 - share) * scaled + share * np.trace(scaled) / d * np.eye(d)
    M = np.zeros_like(J)
    M[np.ix_(live, live)] = scaled / np.outer(scale[live], scale[live])
    return M


def test_the_metric_is_the_average_fisher_matrix_mixed_with_euclid(mixed):
    learned, X = mixed
    J = learned.get_metric(kind="local_fisher").matrix_at(X).mean(0)
    scale = np.where(np.ptp(X, 0) > 0, X.std(0), 0.0)
    M = learned.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, mixture(J, scale, 20 / 70), rtol=1e-8, atol=1e-12)
    assert np.linalg.matrix_rank(M) == 3  # Of A it is 2.
    assert not np.allclose(M, mixture(J, scale, 0.1), rtol=1e-2)
    assert learned.transform(X).shape == (50, 4)
    assert learned.get_metric(kind="subspace").factor.shape == (2, 4)
    old = pickle.loads(pickle.dumps(learned))
    del old._euclid, old._live  # As a pickle of 0.1.
    np.testing.assert_allclose(old.get_metric().matrix, J, rtol=1e-8, atol=1e-12)


@pytest.mark.long
def test_draws_of_the_metric_are_mixed_as_the_fit_is(mixed, tmp_path):
    learned, X = mixed
    how = {"n_chains": 1, "n_draws": 200, "queries": X[:3], "progress": False}
    draws = learned.sample("laplace", **how)
    scale = np.where(np.ptp(X, 0) > 0, X.std(0), 0.0)
    made = learned.posterior_metric("prediction", draws=draws).metrics()
    for metric, J in zip(made, draws["posterior"]["J"][0].to_numpy(), strict=True):
        expected = mixture(J, scale, 20 / 70)
        np.testing.assert_allclose(metric.matrix, expected, rtol=1e-7, atol=1e-9)
    pm.save_draws(draws, tmp_path / "draws.nc")
    again = pm.draws_to_metric(pm.load_draws(tmp_path / "draws.nc"), "prediction")
    for metric, other in zip(made, again.metrics(), strict=True):
        np.testing.assert_allclose(metric.matrix, other.matrix, rtol=1e-9)


def test_where_nothing_is_learned_the_metric_is_euclidean(iris):
    X, y = iris
    learned = DCAGM(prior_strength=np.inf, n_gaussians=1).fit(X[::3], y[::3])
    M = learned.get_mahalanobis_matrix() * np.outer(X[::3].std(0), X[::3].std(0))
    np.testing.assert_allclose(M, M[0, 0] * np.eye(4), atol=1e-12 * M[0, 0])
    subspace = DCAGM(2, prior_strength=np.inf, n_gaussians=1).fit(X[::3], y[::3])
    assert subspace.transform(X).shape == (150, 2)


def test_the_strength_stands_in_the_prior_of_the_projection(iris):
    X, y = iris
    Z, codes = X[::3], y[::3]
    Z = (Z - Z.mean(0)) / Z.std(0)
    for s in (0.0, 20.0, np.inf):
        learned = DCAGM(prior_strength=s, n_gaussians=1, regularization=3, max_iter=500)
        prior = learned.fit(X[::3], codes).prior_
        A0 = lda_rca(Labeled(Z, codes), 2, strength=s)
        np.testing.assert_allclose(prior.mean, A0, atol=1e-12)
        spread = np.sqrt(np.mean((Z @ A0.T) ** 2))
        hold, near, wide = (10, (50 / 72) ** 0.5, 44**-0.5) if s else (1, 1, 0.5)
        assert prior.lam == pytest.approx(3 * hold * (1 + min(s / 50, 100)))
        assert prior.mu_scale == pytest.approx(near * spread)  # Whatever the padding.
        assert prior.chol_scale == pytest.approx(wide)


def test_the_prior_of_a_fit_stands_in_the_model(iris):
    """The mode's value is the density of the NumPyro model under ``prior_``."""
    X, y = iris
    learned = DCAGM(n_gaussians=1, prior_strength=4).fit(X[::3], y[::3])
    Z = (X[::3] - learned.mean_) / learned.scale_
    with jax.enable_x64(True):
        data = Labeled(jnp.asarray(Z), jnp.asarray(y[::3]))
        prior = jax.tree.map(jnp.asarray, learned.prior_)
        sites = unconstrain(learned.fit_.params)._asdict()
        sites = {name: jnp.asarray(value) for name, value in sites.items()}

        @jax.jit
        def density(prior):
            return log_density(dca_gm, (data, prior), {}, sites)[0]

        found = [density(p) for p in (prior, prior._replace(chol_scale=0.5))]
    assert learned.fit_.objective == pytest.approx(float(found[0]), rel=1e-9)
    assert learned.fit_.objective != pytest.approx(float(found[1]), rel=1e-3)


def test_a_class_no_larger_than_its_mixture_is_fitted(iris):
    X, y = iris
    rows = np.r_[0:2, 50:150]
    learner = DCAGM(n_gaussians=3).fit(X[rows], y[rows])
    assert np.isfinite(learner.params_.log_beta).sum(1).tolist() == [2, 3, 3]
    assert np.all(np.isfinite(learner.components_))


def test_a_fit_that_stops_early_says_so(iris):
    with pytest.warns(ConvergenceWarning, match=re.escape("raise max_iter")):
        DCAGM(max_iter=2).fit(*iris)


@pytest.mark.long
@pytest.mark.parametrize(("classes", "d", "rows"), [(2, 1, 1), (5, 6, 4)])
def test_the_projection_tells_as_many_classes_apart_as_there_are(classes, d, rows):
    """Five classes at the corners of a simplex are not told apart in a plane."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(classes), 12)
    X = rng.normal(size=(12 * classes, d)) + 4.0 * np.eye(classes, d)[y]
    new = rng.normal(size=X.shape) + 4.0 * np.eye(classes, d)[y]
    learner = DCAGM(n_gaussians=1, prior_strength=4).fit(X, y)
    assert learner.params_.A.shape == (rows, d)
    if (classes, d) == (5, 6):
        plane = DCAGM(2, n_gaussians=1, prior_strength=4).fit(X, y)
        assert log_loss(y, learner.predict_proba(new)) < 0.3
        assert log_loss(y, plane.predict_proba(new)) > 0.6


REFUSED = [
    {"n_components": 5},
    {"covariance": "full"},
    {"solver": "newton"},
    {"metric": "local_fisher"},
    {"regularization": 0},
    {"n_gaussians": 0},
    {"prior_strength": -1},
    {"prior_strength": "loo"},
]


def test_bad_options_are_refused_by_name(iris):
    calls = [partial(DCAGM(**options).fit, *iris) for options in REFUSED]
    assert_refused(calls, "estimators/dca_gm.txt")


def test_bad_data_are_refused_by_name(iris, fitted):
    X = iris[0]
    with pytest.raises(ValueError, match="at least 2 classes"):
        DCAGM().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="kind must be one of"):
        fitted.get_metric(kind="cosine")
    with pytest.raises(ValueError, match="a class with at least 2 rows"):
        DCAGM().fit(X[:3], [0, 1, 2])
