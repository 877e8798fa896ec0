"""Each wrong formula of seed 002 that is not refuted elsewhere is refuted here.

Elsewhere: Y3 (golden numbers and a registered check), Y4 (EQ-3's factor). Y14 and Y15
are of the text. References are sums of SciPy normals, or quadrature, in d = 1 or 2.
"""

import dataclasses

import numpy as np
import pytest
from numpyro import handlers
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from probmetric.data.containers import Points
from probmetric.data.groups import stack
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage.choice import bic
from probmetric.inference.two_stage.pairs import log_joint_small_alpha
from probmetric.models.two_stage import proportional, to_metric, two_stage

C = np.array([0.7, 0.3])
MU = np.array([[0.0, 0.0], [2.0, -1.0]])
SIGMA = np.array([[[1.0, 0.4], [0.4, 0.8]], [[0.6, -0.2], [-0.2, 1.5]]])
ALPHA = 0.3
Q, Y = np.array([[0.5, 0.1], [1.2, -0.4]]), np.array([[0.2, -0.4], [1.9, -1.3]])
RTOL = 1e-10


def metric(alpha=ALPHA, k=2, **changes):
    weights = C[:k] / C[:k].sum()
    made = to_metric(proportional(weights, MU[:k], SIGMA[:k], alpha))
    return dataclasses.replace(made, **changes)


def log_mixture(weights, points, means, covariances):
    """Return log Σ_k c_k N(point; mean_k, covariance_k), by SciPy."""
    parts = [
        c * multivariate_normal(m, S).pdf(points)
        for c, m, S in zip(weights, means, covariances, strict=True)
    ]
    return np.log(np.sum(parts, 0))


def stacked(within, between):
    return np.block([[between + within, between], [between, between + within]])


def rejects(got, wrong):
    """The wrong claim is off by more than a percent somewhere."""
    return np.any(np.abs(np.asarray(got) - np.asarray(wrong)) > 0.01)


def test_y1_the_representative_has_the_share_one_minus_alpha():
    got = metric().log_joint(Q, Y)
    pair, means = np.hstack([Q, Y]), np.hstack([MU, MU])
    right = stacked(ALPHA * SIGMA, (1 - ALPHA) * SIGMA)
    np.testing.assert_allclose(got, log_mixture(C, pair, means, right), rtol=RTOL)
    # Printed: both processes are named Σ_I; read the other way round, W = (1 - α)Σ.
    swapped = stacked((1 - ALPHA) * SIGMA, ALPHA * SIGMA)
    assert rejects(got, log_mixture(C, pair, means, swapped))


@pytest.mark.parametrize("zero", ["noise", "noise_other"])
def test_y5_eq4_and_eq5_weigh_each_component_by_its_own_probability(zero):
    """Printed: Pr(M_l), with an index l that nothing sums over."""
    W = ALPHA * SIGMA
    one = metric(**{"noise_other": W, zero: np.zeros_like(W)})
    at = Q if zero == "noise" else Y
    joint = [
        multivariate_normal(np.zeros(2), W[k]).pdf(Q - Y)
        * multivariate_normal(MU[k], (1 - ALPHA) * SIGMA[k]).pdf(at)
        for k in range(2)
    ]
    got = one.log_joint(Q, Y)
    np.testing.assert_allclose(got, np.log(C @ joint), rtol=RTOL)
    for weight in C:
        assert rejects(got, np.log(weight * np.sum(joint, 0)))


def test_y6_the_representative_is_integrated_and_the_components_summed():
    c, mu, S, a = C, MU[:, :1], SIGMA[:, :1, :1], ALPHA
    one = to_metric(proportional(c, mu, S, a))
    q, y = Q[:, :1], Y[:, :1]

    def integrand(x, k, n):
        W, B = a * S[k, 0, 0], (1 - a) * S[k, 0, 0]
        pair = norm.pdf(q[n, 0], x, W**0.5) * norm.pdf(y[n, 0], x, W**0.5)
        return c[k] * pair * norm.pdf(x, mu[k, 0], B**0.5)

    whole = [
        [quad(integrand, -12, 12, (k, n), epsabs=1e-14)[0] for k in range(2)]
        for n in range(2)
    ]
    got = one.log_joint(q, y)
    np.testing.assert_allclose(got, np.log(np.sum(whole, 1)), rtol=1e-9)
    # Printed: Pr(Q · Y · μ_k) without ∫dx, that is the integrand at an x.
    middle = [sum(integrand(m, k, n) for k in range(2)) for n, m in enumerate(q[:, 0])]
    assert rejects(got, np.log(middle))
    # Printed: Pr(x | M) in the eigenbasis without Σ_k, that is one component's term.
    for k in range(2):
        assert rejects(got, np.log(whole)[:, k])


@pytest.mark.long
def test_y7_eq3_and_eq2_agree_in_the_limit_as_a_ratio_only():
    """The ratio tends to 1 while both, and their difference, grow without bound."""
    mixture, same = MixtureParams(C, MU, SIGMA), Q[:1]
    ratios, gaps = [], []
    for a in (1e-2, 1e-4, 1e-6):
        exact = metric(a).log_joint(same, same)[0]
        small = log_joint_small_alpha(mixture, a, same, same)[0]
        ratios.append(abs(np.expm1(small - exact)))
        gaps.append(abs(np.exp(small) - np.exp(exact)))
    assert ratios[0] > 50 * ratios[1] > 2500 * ratios[2]
    # Printed: "equality holds in the limit". Their gap is O(α^{1-d/2}): d = 2 keeps it.
    assert gaps[2] > 0.9 * gaps[1] > 0.5 * gaps[0] > 1e-4
    q = np.tile(same, (1, 2))  # d = 4: it grows
    four = np.kron(np.eye(2), SIGMA[0])[None]
    wide = MixtureParams(np.ones(1), np.zeros((1, 4)), four)
    grown = []
    for a in (1e-2, 1e-4):
        exact = to_metric(proportional(*wide, a)).log_joint(q, q)[0]
        small = log_joint_small_alpha(wide, a, q, q)[0]
        grown.append(abs(np.exp(small) - np.exp(exact)))
    assert grown[1] > 50 * grown[0]


def test_y8_a_singular_covariance_has_no_density():
    """Printed: Σ_k ≥ 0. Nothing comes back, and no jitter hides it."""
    flat = np.diag([1.0, 0.0])[None]
    singular = to_metric(proportional(np.ones(1), MU[:1], flat, ALPHA))
    with pytest.raises(ValueError, match=r"log_marginal: the result is not finite"):
        singular.log_marginal(Q)
    with pytest.raises(ValueError, match=r"log_joint: the result is not finite"):
        singular.log_joint(Q, Y)


@pytest.mark.long
def test_y8_a_covariance_has_d_times_d_plus_1_over_2_coordinates():
    """Printed: a subset of R^{d²}. The model's own coordinates count; BIC uses them."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    options = {"n_components": 2, "covariance": "proportional", "alpha": 0.5}
    seeded = handlers.seed(two_stage, 0)
    substituted = handlers.substitute(
        seeded, data={"weights": C, "means": MU, "covariances": SIGMA}
    )
    sites = handlers.trace(substituted).get_trace(stack(Points(X)), None, **options)
    k, d = 2, 2
    symmetric = np.asarray(sites["covariances"]["value"])
    np.testing.assert_array_equal(symmetric, np.swapaxes(symmetric, 1, 2))
    free = (k - 1) + k * d + k * d * (d + 1) // 2
    params = proportional(C, MU, SIGMA, 0.5)
    log_p = to_metric(params).log_marginal(X).sum()
    np.testing.assert_allclose(bic(params, X), log_p - free / 2 * np.log(30))
    square = (k - 1) + k * d + k * d * d
    assert abs(bic(params, X) - (log_p - square / 2 * np.log(30))) > 1


def test_y9_the_original_value_returns_exactly_at_one_minus_two_alpha():
    """One component: Pr(Q, μ + (1 - 2α)(Q - μ)) = Pr(Q, Q), to rounding."""
    one, mixture = metric(k=1), MixtureParams(np.ones(1), MU[:1], SIGMA[:1])
    back = MU[:1] + (1 - 2 * ALPHA) * (Q - MU[:1])
    gap = one.log_joint(Q, back) - one.log_joint(Q, Q)
    np.testing.assert_allclose(gap, 0, atol=1e-12)
    # Read as "about": EQ-3 restores it only to order α.
    args = mixture, ALPHA, Q
    about = log_joint_small_alpha(*args, back) - log_joint_small_alpha(*args, Q)
    assert np.all(np.abs(about) > 1e-3)


def test_y11_a_normalisation_gives_a_squared_metric_for_one_component():
    """Printed: any normalisation is doomed. Powers 1/(2 - α) of Pr(Q) Pr(Y) are not."""
    one, a = metric(k=1), ALPHA
    score = one.log_joint(Q, Y)
    score = score - (one.log_marginal(Q) + one.log_marginal(Y)) / (2 - a)
    own = one.log_joint(Q, Q) - 2 * one.log_marginal(Q) / (2 - a)
    delta = Q - Y
    square = np.sum(delta * np.linalg.solve(SIGMA[0], delta.T).T, -1)
    factor = (1 - a) / (2 * a * (2 - a))
    np.testing.assert_allclose(own - score, factor * square, rtol=1e-9)


def test_y12_one_component_ranks_by_distance_from_the_shrunken_query():
    """Printed: from the query. True of EQ-4 and as α → 0 alone."""
    rng = np.random.default_rng(1)
    stored = rng.normal(size=(200, 2)) * 2
    root = np.linalg.inv(np.linalg.cholesky(SIGMA[0]))

    def order(alpha, centre, **changes):
        D = metric(alpha, k=1, score="joint", **changes).pairwise(Q[:1], stored)[0]
        z = (stored - centre) @ root.T
        return np.argsort(D), np.argsort(np.sum(z**2, -1))

    shrunken = MU[0] + (1 - ALPHA) * (Q[0] - MU[0])
    np.testing.assert_array_equal(*order(ALPHA, shrunken))
    got, wrong = order(ALPHA, Q[0])
    assert np.any(got != wrong)
    W = ALPHA * SIGMA[:1]
    eq4 = {"noise": np.zeros_like(W), "noise_other": W}
    np.testing.assert_array_equal(*order(ALPHA, Q[0], **eq4))
    got, wrong = order(0.5, Q[0])
    assert np.sum(got != wrong) > 100


def test_y13_eq3_puts_an_instance_not_a_representative_at_the_middle():
    """The density at (Q + Y)/2 is that of M¹, N(μ, Σ), not of M^C, N(μ, (1 - α)Σ)."""
    one, a = MixtureParams(np.ones(1), MU[:1], SIGMA[:1]), ALPHA
    middle, apart = (Q + Y) / 2, Q - Y
    of_delta = multivariate_normal(np.zeros(2), 2 * a * SIGMA[0]).logpdf(apart)
    right = of_delta + multivariate_normal(MU[0], SIGMA[0]).logpdf(middle)
    got = log_joint_small_alpha(one, a, Q, Y)
    np.testing.assert_allclose(got, right, rtol=RTOL)
    of_source = multivariate_normal(MU[0], (1 - a) * SIGMA[0]).logpdf(middle)
    assert rejects(got, of_delta + of_source)
    # And M^C is the worse approximation of EQ-2 near the mean, as α/2 < α says.
    exact = metric(k=1).log_joint(MU[:1], MU[:1])
    small = log_joint_small_alpha(one, a, MU[:1], MU[:1])
    source = small - np.log(1 - a)
    assert np.all(np.abs(small - exact) < np.abs(source - exact))
