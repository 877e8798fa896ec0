"""Rows with missing entries: the mode by EM, the posterior by data augmentation."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

from probmetric.data.containers import Labeled
from probmetric.densities.classes import class_log_densities
from probmetric.inference.gaussian_classes import completions
from probmetric.inference.gaussian_classes import missing as gm
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.inference.gaussian_classes import predict as gcp
from probmetric.inference.solvers.result import Result
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior

pytestmark = pytest.mark.usefixtures("x64")
COVARIANCES = ["full", "tied", "diagonal"]
N, D, C = 24, 2, 2
PARAMS = GaussianClassesParams(
    np.array([0.4, 0.6]),
    np.array([[0.0, 1.0], [1.5, -0.5]]),
    np.array([[[1.0, 0.0], [0.3, 0.5]], [[0.8, 0.0], [-0.6, 1.2]]]),
)


def toy(share=0.3):
    """Return correlated points of two classes, a share of whose entries is missing."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % C
    X = rng.normal(size=(N, D)) @ np.array([[1.0, 0.8], [0.0, 0.6]]) + y[:, None]
    X = np.where(rng.random(X.shape) < share, np.nan, X)
    prior = NIWPrior(np.array([0.2, -0.1]), np.eye(D) + 0.2, 0.7, D + 3.0, 1.5)
    return Labeled(X, y), prior


@pytest.mark.long
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_without_missing_entries_em_is_the_conjugate_mode(covariance):
    data, prior = toy(share=0.0)
    options = {"n_classes": C, "covariance": covariance}
    found = gm.fit_missing(data, prior, **options)
    wanted = gcp.fit(data, prior, **options)
    for a, b in zip(found.params[:3], wanted.params[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.long
def test_fit_takes_missing_entries_and_a_row_without_any():
    data, prior = toy()
    X = data.X.copy()
    X[0] = np.nan
    fit = gcp.fit(data._replace(X=X), prior, n_classes=C)
    assert int(fit.result) == Result.CONVERGED
    np.testing.assert_allclose(fit.params.weights, [0.5, 0.5], rtol=1e-12)


def test_filled_entries_are_draws_of_the_conditional_normal():
    """4000 copies of one row; mean and variance within 4.5 s.e. (1e-5 each)."""
    params = PARAMS
    x, copies = np.array([0.9, np.nan]), 4000
    rows = Labeled(np.tile(x, (copies, 1)), np.ones(copies, int))
    filled = np.asarray(completions._fill(jax.random.key(0), params, rows).X)
    np.testing.assert_array_equal(filled[:, 0], 0.9)
    S, m = params.chol[1] @ params.chol[1].T, params.mean[1]
    mean = m[1] + S[1, 0] / S[0, 0] * (0.9 - m[0])
    variance = S[1, 1] - S[1, 0] ** 2 / S[0, 0]
    error = np.sqrt(variance / copies)
    assert abs(filled[:, 1].mean() - mean) < 4.5 * error
    assert abs(filled[:, 1].var() / variance - 1) < 4.5 * np.sqrt(2 / copies)


def batch_z(values, wanted, n_batches=20):
    """z-scores by batch means: 19 degrees of freedom."""
    batches = np.asarray(values).reshape(n_batches, -1, *wanted.shape).mean(1)
    error = batches.std(0, ddof=1) / np.sqrt(n_batches)
    return (batches.mean(0) - wanted) / error


@pytest.mark.long
def test_completions_give_the_exact_posterior_of_independent_features():
    """Feature by feature the model is conjugate in the entries that were seen.

    12 means by batches, |t₁₉| < 5.5: false alarm 12 · 3e-5. Control: the posterior of
    the expected statistics, as if all had been seen, is too sharp in μ.
    """
    data, prior = toy(share=0.5)
    start = gm.fit_missing(data, prior, n_classes=C, covariance="diagonal").params
    posts = completions.complete(
        jax.random.key(1),
        data,
        prior,
        start,
        covariance="diagonal",
        n_completions=800,
        thin=5,
    )
    variance = posts.Psi / (posts.nu - 2)[..., None]
    spread = variance / posts.kappa[..., None]  # Of μ, given a completion.
    mean, wanted_variance, wanted_spread = np.empty((3, C, D))
    for k in range(C):
        for j in range(D):
            x = data.X[data.y == k, j]
            own = Labeled(x[~np.isnan(x)][:, None], np.zeros((~np.isnan(x)).sum(), int))
            one = prior._replace(mean=prior.mean[[j]], Psi=prior.Psi[[j]][:, [j]])
            post = gc.posterior(gc.statistics(own, 1), one, covariance="diagonal")
            mean[k, j] = post.mean[0, 0]
            wanted_variance[k, j] = post.Psi[0, 0] / (post.nu[0] - 2)
            wanted_spread[k, j] = wanted_variance[k, j] / post.kappa[0]
    total = spread + (posts.mean - mean) ** 2
    assert np.abs(batch_z(posts.mean, mean)).max() < 5.5
    assert np.abs(batch_z(variance, wanted_variance)).max() < 5.5
    assert np.abs(batch_z(total, wanted_spread)).max() < 5.5
    stats = gm.expected_statistics(start, data)
    naive = gc.posterior(stats, prior, covariance="diagonal")
    sharp = naive.Psi / (naive.nu - 2)[:, None] / naive.kappa[:, None]
    assert (sharp < 0.8 * wanted_spread).all()


@pytest.fixture(scope="module")
def some_completions():
    with jax.enable_x64(True):
        data, prior = toy()
        start = gcp.fit(data, prior, n_classes=C).params
        options = {"n_completions": 6, "warm_up": 5, "thin": 2}
        return data, completions.complete(
            jax.random.key(2), data, prior, start, **options
        )


@pytest.mark.long
def test_predictive_is_the_mean_over_completions(some_completions):
    data, posts = some_completions
    x = np.array([[0.4, -0.3]])
    each = [jax.tree.map(lambda a, s=s: a[s], posts) for s in range(6)]

    @jax.jit
    def log_densities(post):
        return class_log_densities(gcp.predictive(post), x[0])

    logs = [log_densities(p) for p in each]
    wanted = logsumexp(logs, 0) - np.log(6)
    np.testing.assert_allclose(log_densities(posts), wanted, rtol=1e-12)
    proba = np.exp(wanted) * each[0].alpha
    found = gcp.predict_log_proba(posts, x)[0]
    np.testing.assert_allclose(np.exp(found), proba / proba.sum(), rtol=1e-12)
    holes = gcp.predict_log_proba(posts, data.X[:3], missing=True)
    assert np.isfinite(holes).all()


@pytest.mark.long
@pytest.mark.parametrize("n_draws", [4, 12])
def test_draws_take_the_completions_in_turn(some_completions, n_draws):
    _, posts = some_completions
    sure = posts._replace(kappa=posts.kappa * 1e16)
    draws = gc.draw(jax.random.key(3), sure, n_draws)
    turn = np.arange(n_draws) * 6 // n_draws
    np.testing.assert_allclose(draws.mean, posts.mean[turn], atol=1e-6)
    assert draws.chol.shape == (n_draws, C, D, D)


@pytest.mark.long
def test_posterior_mean_is_the_mean_over_completions(some_completions):
    _, posts = some_completions
    found = gc.posterior_mean(posts)
    Sigma = posts.Psi / (posts.nu - D - 1)[..., None, None]
    np.testing.assert_allclose(
        found.chol @ np.swapaxes(found.chol, 1, 2), Sigma.mean(0), rtol=1e-12
    )
    np.testing.assert_allclose(found.mean, posts.mean.mean(0), rtol=1e-12)


def test_weighted_rows_have_no_completions():
    data, prior = toy()
    weighted = data._replace(w=np.ones(N))
    with pytest.raises(ValueError, match=r"data\.w .* weights"):
        completions.complete(jax.random.key(0), weighted, prior, PARAMS)
