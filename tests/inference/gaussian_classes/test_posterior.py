"""NIW closed forms against golden values, NumPyro, SciPy and exact moments."""

import jax
import numpy as np
import pytest

from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.inference.gaussian_classes import predict as gcp
from probmetric.inference.gaussian_classes.prior import evidence_prior
from probmetric.models.gaussian_classes import NIWPrior

pytestmark = pytest.mark.usefixtures("x64")
COVARIANCES = ["full", "tied", "diagonal"]


def toy(seed=0, nu=4.5):
    """Return weighted points and a prior: programs of one shape serve all tests."""
    n, d, c = 30, 3, 2
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + y[:, None]
    A = rng.normal(size=(d, d + 2))
    numbers = np.array([0.7, nu, 1.3])  # As those of a prior that was learned.
    prior = NIWPrior(rng.normal(size=d), A @ A.T, *numbers)
    return Labeled(X, y, rng.uniform(0, 2, n)), prior


def golden_niw(case):
    given = case["in"]
    X = np.array(given["X"])
    prior = NIWPrior(
        np.array(given["m0"]), np.array(given["Psi0"]), given["k0"], given["nu0"]
    )
    mean, scatter = X.mean(0), (X - X.mean(0)).T @ (X - X.mean(0))
    return gc.ClassStatistics(
        np.array([1.0 * len(X)]), mean[None], scatter[None]
    ), prior


@pytest.mark.long
def test_posterior_evidence_and_predictive_equal_golden(golden):
    case = golden("mix_glml_dml")["g_niw"]
    stats, prior = golden_niw(case)
    post, out = gc.posterior(stats, prior), case["out"]
    np.testing.assert_allclose(post.mean[0], out["m_n"], rtol=1e-14)
    np.testing.assert_allclose([post.kappa[0], post.nu[0]], [out["k_n"], out["nu_n"]])
    np.testing.assert_allclose(post.Psi[0], out["Psi_n"], rtol=1e-13)
    np.testing.assert_allclose(
        gc.log_evidence(stats, prior), out["log_evidence"], rtol=1e-13
    )
    x = np.array(case["in"]["x_new"])
    log_density_at = jax.jit(lambda p: gcp.class_log_densities(gcp.predictive(p), x))
    value = log_density_at(post)[0]
    np.testing.assert_allclose(value, out["log_predictive"], rtol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_evidence_in_one_dimension_is_that_of_quadrature(golden, covariance):
    case = golden("mix_glml_dml")["g_niw_1d"]
    value = gc.log_evidence(*golden_niw(case), covariance=covariance)
    np.testing.assert_allclose(value, case["out"]["log_evidence"], rtol=1e-12)


def test_a_class_without_points_keeps_its_prior():
    data, prior = toy()
    post = gc.posterior(gc.statistics(data._replace(y=0 * data.y), 2), prior)
    np.testing.assert_array_equal(post.mean[1], prior.mean)
    np.testing.assert_array_equal(post.Psi[1], prior.Psi)


@pytest.mark.long
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_predictive_is_the_ratio_of_evidences(covariance):
    """P(c, x | data) = p(data and (x, c)) / p(data), both from Eq. (3)."""
    data, prior = toy()
    X, y, w = (np.array(a) for a in data[:3])
    X[-1], w[-1] = [0.3, -1.0, 2.0], 0.0  # The point that is to come.
    stats, w1 = gc.statistics(Labeled(X, y, w), 2), np.append(w[:-1], 1.0)
    more = [gc.statistics(Labeled(X, np.append(y[:-1], c), w1), 2) for c in range(2)]
    joint = [gc.log_evidence(s, prior, covariance=covariance) for s in more]
    wanted = np.array(joint) - np.logaddexp(*joint)
    post = gc.posterior(stats, prior, covariance=covariance)
    found = gcp.predict_log_proba(post, X[-4:])[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_missing_entries_are_integrated_out_of_the_predictive(covariance):
    """P(c | x₁, x₃) from quadrature over x₂ of the complete predictive."""
    data, prior = toy()
    post = gc.posterior(gc.statistics(data, 2), prior, covariance=covariance)
    u, w = np.polynomial.legendre.leggauss(400)
    # x₂ = sinh(6u) covers ±200 evenly in scale; the tails fall as |x|^-6 or faster.
    grid, weight = np.sinh(6 * u), w * 6 * np.cosh(6 * u)
    X = np.stack([np.full(400, 0.3), grid, np.full(400, -1.0)], 1)

    def densities(x):
        if covariance == "diagonal":
            return gcp._diagonal_log_densities(post, x)
        return gcp.class_log_densities(gcp.predictive(post), x)

    each = jax.jit(jax.vmap(densities))(X)
    joint = (weight @ np.exp(np.asarray(each))) * post.alpha
    x = np.array([[0.3, np.nan, -1.0]] * 4)
    found = gcp.predict_log_proba(post, x, missing=True)[0]
    np.testing.assert_allclose(np.exp(found), joint / joint.sum(), rtol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_have_the_exact_moments(covariance):
    """4000 draws, every mean within 4.5 s.e.: false alarms below 1e-3 for ~60 means."""
    data, prior = toy(nu=8.0)
    post = gc.posterior(gc.statistics(data, 2), prior, covariance=covariance)
    draws = gc.draw(jax.random.key(1), post, 4000)
    Sigma = draws.chol @ np.swapaxes(draws.chol, -1, -2)
    exact = gc.posterior_mean(post)
    wanted = exact.chol @ np.swapaxes(exact.chol, -1, -2)
    # E (μ-m)(μ-m)ᵀ κ = E Σ ties the scale of μ to the covariance.
    gap = (draws.mean - post.mean) * np.sqrt(post.kappa)[:, None]
    outer = gap[..., None] * gap[..., None, :]
    pairs = [
        (draws.weights, exact.weights),
        (draws.mean, exact.mean),
        (Sigma, wanted),
        (outer, np.broadcast_to(wanted, outer.shape[1:])),
    ]
    for sample, mean in pairs:
        sample = np.asarray(sample)
        error = sample.std(0) / np.sqrt(len(sample))
        z = (sample.mean(0) - mean) / np.where(error > 0, error, 1.0)
        assert np.max(np.abs(z)) < 4.5


def test_plug_in_is_maximum_likelihood_with_a_scale_aware_ridge():
    data, _ = toy()
    stats = gc.statistics(data, 2)
    params = gc.plug_in(stats)
    for c in range(2):
        own = data.y == c
        wanted = np.cov(data.X[own].T, aweights=data.w[own], ddof=0)
        np.testing.assert_allclose(
            params.chol[c] @ params.chol[c].T, wanted, rtol=1e-11
        )
    scaled = stats._replace(scatter=1e6 * stats.scatter)
    small, large = (gc.plug_in(s, shrinkage=0.3).chol for s in (stats, scaled))
    np.testing.assert_allclose(large, 1e3 * small, rtol=1e-12)


def test_evidence_prior_is_the_best_of_its_grid_and_equivariant():
    data, _ = toy()
    stats = gc.statistics(data, 2)
    prior = evidence_prior(stats)
    best = gc.log_evidence(stats, prior)
    for factor in (0.1, 10.0):
        assert gc.log_evidence(stats, prior._replace(kappa=prior.kappa * factor)) < best
    moved = stats._replace(mean=10 * stats.mean + 7, scatter=100 * stats.scatter)
    other = evidence_prior(moved)
    np.testing.assert_allclose(other.mean, 10 * prior.mean + 7, rtol=1e-9)
    np.testing.assert_allclose(other.Psi, 100 * prior.Psi, rtol=1e-9)


@pytest.mark.long
def test_evidence_prior_stays_finite_with_no_more_points_than_features():
    data, _ = toy()
    stats = gc.statistics(data._replace(w=1.0 * (np.arange(30) < 3)), 2)
    assert np.linalg.matrix_rank(stats.scatter.sum(0)) == 1
    post = gc.posterior(stats, evidence_prior(stats))
    assert np.isfinite(gcp.predict_log_proba(post, data.X[:4])).all()


def test_evidence_prior_of_equal_points_is_nan_and_fit_says_so():
    data = Labeled(np.ones((30, 3)), np.arange(30) % 2, np.ones(30))
    prior = evidence_prior(gc.statistics(data, 2))
    assert np.isnan(prior.kappa)
    assert int(gcp.fit(data, prior, n_classes=2).result) == 3


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_prior_mean_of_the_covariance_is_the_pooled_one_in_size(covariance):
    """E Σ_c = Ψ/(ν₀ - D - 1) has the trace of S_W, feature by feature with D = 1."""
    data, _ = toy(seed=2)
    X, y, w = (np.asarray(v) for v in data[:3])
    within = 0.0
    for c in range(2):
        own, weight = X[y == c], w[y == c][:, None]
        centred = own - np.sum(weight * own, 0) / weight.sum()
        within = within + (weight * centred).T @ centred
    prior = evidence_prior(gc.statistics(data, 2), covariance=covariance)
    order = 1 if covariance == "diagonal" else X.shape[1]
    expected = np.trace(prior.Psi) / (prior.nu - order - 1)
    np.testing.assert_allclose(expected, np.trace(within) / w.sum(), rtol=1e-12)


@pytest.mark.parametrize(("n", "d", "c"), [(1, 2, 3), (700, 3, 5), (5000, 4, 60)])
def test_statistics_are_those_of_one_class_at_a_time(n, d, c):
    # Rows of a class are summed in tiles: sorted or not, with classes of no rows, of
    # one and of most.
    rng = np.random.default_rng(n)
    X, w = rng.normal(size=(n, d)) * 3 + 5, rng.choice([0.0, 0.5, 1.0, 3.0], n)
    y = np.minimum(rng.geometric(min(4 / c, 0.5), n) - 1, c - 2)  # None of the last.
    for order in (np.arange(n), np.argsort(y)):
        found = gc.statistics(Labeled(X[order], y[order], w[order]), c)
        for k in range(c):
            own, v = X[y == k], w[y == k]
            mean = v @ own / v.sum() if v.sum() else np.zeros(d)
            scatter = (own - mean).T @ ((own - mean) * v[:, None])
            assert found.n[k] == v.sum()
            np.testing.assert_allclose(found.mean[k], mean, rtol=1e-12)
            size = max(np.abs(scatter).max(), 1e-300)
            np.testing.assert_allclose(found.scatter[k], scatter, atol=1e-12 * size)


def test_statistics_of_many_classes_hold_no_copy_of_the_rows():
    # By classes times rows these would be 160 MB of weights, and a gigabyte of work.
    n, d, c = 20_000, 8, 1000
    rng = np.random.default_rng(0)
    data = Labeled(rng.normal(size=(n, d)), rng.integers(0, c, n), np.ones(n))
    compiled = jax.jit(lambda a: gc.statistics(a, c)).lower(data).compile()
    held = compiled.memory_analysis().temp_size_in_bytes
    assert held < n * d * 8 + 2 * c * d * d * 8
