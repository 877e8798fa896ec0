"""The pair similarity: exact identities, missing entries, and what it is not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Calibration
from probmetric.metric.pair_tiles import pairwise
from probmetric.models.two_stage import TwoStageParams, proportional, to_metric
from tests.metric.test_pair_similarity_golden import arrays, yianilos


def log_mixture(points, log_weights, means, covs):
    """Return log Σ_k c_k N(x; m_k, S_k) of each point, by scipy."""
    parts = [
        multivariate_normal(m, S).logpdf(points)
        for m, S in zip(means, covs, strict=True)
    ]
    return logsumexp(log_weights[:, None] + np.array(parts), 0)


def stacked(metric, other=None):
    """Return means and covariances of two observations of a source, side by side."""
    mu, B, W = metric.means, metric.between, metric.noise
    S = np.block([[B + W, B], [B, B + (W if other is None else other)]])
    return np.hstack([mu, mu]), S


def every_pair(Q, P):
    """Return matching rows of all pairs: as many as X, so that jit is reused."""
    return np.repeat(Q, len(P), 0), np.tile(P, (len(Q), 1))


@pytest.fixture(scope="module")
def toy():
    """Three components in d = 3 with free W and B, and points about them."""
    rng = np.random.default_rng(0)

    def spd(scale):
        A = rng.normal(size=(3, 3, 3))
        return scale * (A @ A.transpose(0, 2, 1) + 0.5 * np.eye(3))

    means = rng.normal(size=(3, 3)) * 2
    params = TwoStageParams(np.array([0.5, 0.3, 0.2]), means, spd(0.1), spd(0.4))
    X = means[rng.integers(0, 3, 40)] + rng.normal(size=(40, 3))
    return to_metric(params), X


@pytest.mark.long
@pytest.mark.parametrize("score", ["log_ratio", "vq", "kernel"])
def test_all_pairs_equal_the_difference_form(toy, score):
    metric, X = toy
    metric = dataclasses.replace(metric, score=score)
    Q, P = X[:5], X[5:13]
    short = (np.arange(8) + np.arange(5)[:, None]) % 8
    exact = -metric.pair_score(*every_pair(Q, P)).reshape(5, 8)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(metric.pairwise(Q, P), exact, **close)
    one = metric.dissimilarity(Q[3], X)
    np.testing.assert_allclose(one[5:13], exact[3], **close)
    refined = metric.refine(Q, P, short)
    np.testing.assert_allclose(refined, np.take_along_axis(exact, short, 1), **close)


@pytest.mark.long
def test_tiles_of_any_size_give_the_same(toy):
    """Of 3 by 4, of which the last reach back over the ones before them."""
    metric, X = toy
    args = metric._model, "log_ratio", ()
    with jax.enable_x64(True):
        tiles = pairwise(*args, jnp.asarray(X[:5]), jnp.asarray(X[5:15]), tile=4)
    first, last = (metric.pairwise(X[:5], X[at : at + 8]) for at in (5, 7))
    np.testing.assert_allclose(tiles[:, :8], first, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tiles[:, 2:], last, rtol=1e-12, atol=1e-12)


@pytest.mark.long
def test_components_beyond_one_pass_are_carried_over(toy):
    """19 components: a first group of 8, another, and a rest of 3."""
    metric, X = toy
    rng = np.random.default_rng(5)
    take = rng.integers(0, 3, 19)
    fields = ("log_weights", "means", "between", "noise")
    many = {name: np.asarray(getattr(metric, name))[take] for name in fields}
    many["means"] = many["means"] + 0.3 * rng.normal(size=(19, 3))
    many["log_weights"] = np.where(np.arange(19) % 9 == 0, -np.inf, -np.log(16))
    metric = PairSimilarity(**many)
    exact = metric.refine(X[:5], X[5:13], np.tile(np.arange(8), (5, 1)))
    found = metric.pairwise(X[:5], X[5:13])
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("far", [100.0, 1e-4])
def test_tiles_whose_exponentials_would_be_lost_are_exact(toy, far):
    """Densities of far points underflow, and of narrow components overflow."""
    metric, X = toy
    if far > 1:
        X = X * np.where(np.arange(40) % 2, 1.0, far)[:, None]
    else:
        # d log-densities of width 1e-110: their sum exceeds what a double can hold.
        X = X * far**30
        shrink = {"means": far**30 * metric.means}
        for name in ("between", "noise"):
            shrink[name] = far**60 * getattr(metric, name)
        metric = dataclasses.replace(metric, **shrink, score="joint")
    exact = metric.refine(X[:5], X[5:13], np.tile(np.arange(8), (5, 1)))
    # Control: what a sum without the largest term taken out would have lost.
    assert np.abs(exact).max() > 745
    found = metric.pairwise(X[:5], X[5:13])
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_all_pairs_need_the_result_and_a_few_tiles(toy):
    """Compiled: 32 MiB of result, and temporary memory of another order."""
    metric, X = toy
    args = metric._model, "log_ratio", ()

    def temporary(n):
        with jax.enable_x64(True):
            points = jnp.asarray(np.tile(X, (n // 40 + 1, 1))[:n])
            compiled = pairwise.lower(*args, points, points, tile=64).compile()
        sizes = compiled.memory_analysis()
        assert sizes.output_size_in_bytes == 8 * n * n
        return sizes.temp_size_in_bytes

    # Ten tiles and some 60 numbers a row (k = d = 3): 1.3 MiB. A copy of the result, or
    # of one component's product, would be 32 MiB.
    assert temporary(2048) < 1.3 * 2**20


@pytest.mark.long
@pytest.mark.parametrize("score", ["log_ratio", "vq", "kernel"])
def test_separate_noise_equals_the_stacked_covariance(toy, score):
    """Against the 2d × 2d normal densities, by scipy."""
    metric, X = toy
    other = np.stack([np.diag([0.3, 0.1, 0.2])] * 3)
    both = dataclasses.replace(metric, noise_other=other, score=score)
    Q, Y = every_pair(X[:5], X[5:13])
    log_c, (mu, S) = metric.log_weights, stacked(metric, other)
    B, W, means = metric.between, metric.noise, metric.means
    joint = log_mixture(np.hstack([Q, Y]), log_c, mu, S)
    single_q = log_mixture(Q, log_c, means, B + W)
    single_y = log_mixture(Y, log_c, means, B + other)
    each = np.arange(3)[:, None]
    parts_y = np.array(
        [log_mixture(Y, log_c[k], means[k], (B + other)[k]) for k in each]
    )
    pair = np.array(
        [log_mixture(np.hstack([Q, Y]), log_c[k], mu[k], S[k]) for k in each]
    )
    best = parts_y.argmax(0)
    own = [log_mixture(np.hstack([A, A]), log_c, mu, S) for A in (Q, Y)]
    wanted = {
        "log_ratio": joint - single_q - single_y,
        "vq": pair[best, np.arange(40)] - single_y,
        "kernel": joint - (own[0] + own[1]) / 2,
    }[score]
    np.testing.assert_allclose(both.pair_score(Q, Y), wanted, rtol=1e-9, atol=1e-12)
    found = both.pairwise(X[:5], X[5:13])
    np.testing.assert_allclose(found.ravel(), -wanted, rtol=1e-9, atol=1e-12)


def test_missing_entries_are_integrated_out(toy):
    """A NaN entry gives the density of what is left, for every pattern of a pair."""
    metric, X = toy
    Q, Y = X[:6].copy(), X[6:12].copy()
    Q[0, 1] = Q[2, 0] = Q[3, :] = Y[0, 2] = Y[2, 0] = Y[4, 1] = np.nan
    c = np.exp(metric.log_weights)
    for q, y, got in zip(Q, Y, metric.log_joint(Q, Y), strict=True):
        z, total = np.r_[q, y], 0.0
        o = ~np.isnan(z)
        for k in range(3):
            B, W = metric.between[k], metric.noise[k]
            S = np.block([[B + W, B], [B, B + W]])[np.ix_(o, o)]
            mean = np.r_[metric.means[k], metric.means[k]][o]
            total += c[k] * multivariate_normal(mean, S).pdf(z[o])
        np.testing.assert_allclose(got, np.log(total), rtol=1e-10)


@pytest.mark.long
def test_all_pairs_with_missing_entries_equal_the_rows(toy):
    metric, X = toy
    Q, P = X[:6].copy(), X[6:12].copy()
    Q[[0, 3], 1] = Q[[1, 4], 0] = P[[2, 5], 2] = P[[0, 4], 0] = np.nan
    exact = metric.refine(Q, P, np.tile(np.arange(6), (6, 1)))
    np.testing.assert_allclose(metric.pairwise(Q, P), exact, rtol=1e-11, atol=1e-11)


def test_difference_form_survives_where_the_dot_product_cancels(golden):
    """α = 1e-10: EQ-2 for close points, against the mean-difference form by hand."""
    c, mu, Sigma = arrays(golden("mix_glml_dml")["y_eq2_mixture"], "c", "mu", "Sigma")
    a = 1e-10
    metric = to_metric(proportional(c, mu, Sigma, a), score="joint")
    q = np.array([[0.5, 0.1]])
    delta = 1e-5 * np.array([[0.3, -0.2]])
    y = q + delta
    wanted = 0.0
    for k in range(2):
        apart = multivariate_normal(np.zeros(2), 2 * a * Sigma[k]).pdf(y - q)
        middle = multivariate_normal(mu[k], (1 - a / 2) * Sigma[k]).pdf((q + y) / 2)
        wanted += c[k] * apart * middle
    exact = -metric.refine(q, y, np.zeros((1, 1), int))[0, 0]
    # y - q keeps eps/|delta| of its digits; it enters squared, with size |exponent|.
    np.testing.assert_allclose(exact, np.log(wanted), rtol=1e-9)
    gemm = -metric.pairwise(q, y)[0, 0]
    assert abs(gemm - np.log(wanted)) > 10 * abs(exact - np.log(wanted))


def test_kernel_recognizes_itself_and_the_joint_does_not(toy, golden):
    metric, X = toy
    kernel = dataclasses.replace(metric, score="kernel").pairwise(X, X)
    np.testing.assert_allclose(np.diag(kernel), 0, atol=1e-10)
    assert np.all(kernel.argmin(1) == np.arange(40))
    case = golden("mix_glml_dml")["y_mixture_1d"]
    q, y = np.array([[1.2]]), np.array([[case["out"]["argmax_Y"]]])
    joint = yianilos(case)
    assert joint.log_joint(q, y) > joint.log_joint(q, q)


def test_kernel_matrix_is_positive_semi_definite(toy):
    metric, X = toy
    gram = np.exp(-dataclasses.replace(metric, score="kernel").pairwise(X, X))
    assert np.linalg.eigvalsh(gram).min() > -40 * np.finfo(float).eps * 40


def test_same_probability_is_bayes_rule_with_the_prior_odds(toy):
    metric, X = toy
    A, B = X, X[::-1]
    ratio = np.exp(metric.log_ratio(A, B))
    for odds in (1.0, 0.25):
        got = metric.same_probability(A, B, prior_odds=odds)
        np.testing.assert_allclose(got, ratio * odds / (1 + ratio * odds), rtol=1e-10)
    with pytest.raises(ValueError, match="prior_odds must be a number in"):
        metric.same_probability(A, B, prior_odds=0.0)


@pytest.mark.long
def test_blended_log_ratio_averages_numerator_and_denominator(toy):
    metric, X = toy
    pi = np.array([0.7, 0.3])
    parts = [
        dataclasses.replace(
            metric,
            log_weights=np.log(c),
            **{n: getattr(metric, n)[: len(c)] for n in ("means", "between", "noise")},
        )
        for c in (np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.4]))
    ]
    both = PairSimilarity(
        np.concatenate(
            [p.log_weights + np.log(w) for p, w in zip(parts, pi, strict=True)]
        ),
        *(
            np.concatenate([getattr(p, n) for p in parts])
            for n in ("means", "between", "noise")
        ),
        blocks=(3, 2),
    )
    A, B = every_pair(X[:5], X[5:13])

    def log_joint(p):
        return log_mixture(np.hstack([A, B]), p.log_weights, *stacked(p))

    def log_apart(p):
        model = p.log_weights, p.means, p.between + p.noise
        return log_mixture(A, *model) + log_mixture(B, *model)

    joint = log_joint(both)
    apart = logsumexp([log_apart(p) for p in parts], 0, b=pi[:, None])
    np.testing.assert_allclose(
        joint, logsumexp([log_joint(p) for p in parts], 0, b=pi[:, None]), rtol=1e-9
    )
    wanted = joint - apart
    np.testing.assert_allclose(both.log_ratio(A, B), wanted, rtol=1e-9, atol=1e-12)
    found = both.pairwise(X[:5], X[5:13])
    np.testing.assert_allclose(-found.ravel(), wanted, rtol=1e-9, atol=1e-12)
    # Control: the ratio of the mixture of all five is another.
    assert np.max(np.abs(joint - log_apart(both) - wanted)) > 1e-3


@pytest.mark.long
def test_float32_agrees_to_its_precision(toy):
    metric, X = toy
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), metric)
    Q, P = X[:5], X[5:13]
    got = single.pairwise(Q.astype(np.float32), P.astype(np.float32))
    assert got.dtype == np.float32
    # eps · (|q|² + |y|²)/W-scale: exponents here reach about 1e3.
    wanted = metric.pairwise(Q, P)
    np.testing.assert_allclose(got, wanted, atol=2e-3, rtol=2e-4)


def test_calibration_changes_ratios_but_no_dissimilarities(toy):
    metric, X = toy
    calibration = Calibration(0.25, 0.5, 0.125, bound=2.0)
    calibrated = dataclasses.replace(metric, calibration=calibration)
    A, B = X[:5], np.concatenate([X[:2] + 0.1, X[5:8]])
    raw = np.clip(metric.log_ratio(A, B), -2, 2)
    expected = np.clip(0.25 + np.where(raw > 0, 0.5, 0.125) * raw, -2, 2)
    assert np.ptp(np.sign(raw)) == 2
    np.testing.assert_allclose(calibrated.log_ratio(A, B), expected)
    np.testing.assert_allclose(calibrated.pair_score(A, B), expected)
    odds = 0.2 * np.exp(expected)
    P = calibrated.same_probability(A, B, prior_odds=0.2)
    np.testing.assert_allclose(P, odds / (1 + odds))
    np.testing.assert_array_equal(calibrated.pairwise(A, B), metric.pairwise(A, B))
    traced = jax.jit(calibrated.log_ratio)(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(traced, expected, rtol=1e-5)
