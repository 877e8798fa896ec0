"""The pair similarity against golden numbers made by quadrature."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import proportional, to_metric

RTOL = 1e-10


def arrays(case, *names):
    return [np.asarray(case["in"][name], float) for name in names]


def rows(case, name):
    return np.array([o[name] for o in case["out"]])


def yianilos(case, score="log_ratio"):
    c, mu, Sigma = arrays(case, "c", "mu", "Sigma")
    if mu.ndim == 1:
        mu, Sigma = mu[:, None], Sigma[:, None, None]
    params = proportional(c, mu, Sigma, case["in"]["alpha"])
    return to_metric(params, score=score)


def test_eq2_equals_quadrature_over_the_representative(golden):
    case = golden("mix_glml_dml")["y_eq2_mixture"]
    metric = yianilos(case)
    Q, Y = rows(case, "Q"), rows(case, "Y")
    for got, name in (
        (metric.log_joint(Q, Y), "log_joint"),
        (metric.log_marginal(Q), "log_pQ"),
        (metric.log_marginal(Y, other=True), "log_pY"),
        (metric.log_ratio(Q, Y), "llr"),
    ):
        np.testing.assert_allclose(got, rows(case, name), rtol=RTOL)


def test_two_covariance_pair_equals_quadrature(golden):
    case = golden("mix_glml_dml")["y_twocov_mixture_pair"]
    c, mu, W, B = arrays(case, "c", "mu", "W", "B")
    Q, Y = rows(case, "Q"), rows(case, "Y")
    metric = PairSimilarity(np.log(c), mu, B, W)
    np.testing.assert_allclose(
        metric.log_joint(Q, Y), rows(case, "log_joint"), rtol=RTOL
    )
    np.testing.assert_allclose(metric.log_ratio(Q, Y), rows(case, "llr"), rtol=RTOL)
    one = PairSimilarity(np.zeros(1), mu[:1], B[:1], W[:1])
    wanted = rows(case, "llr_component0_only")
    np.testing.assert_allclose(one.log_ratio(Q, Y), wanted, rtol=RTOL)


def test_eq2_in_one_dimension_and_where_it_is_largest(golden):
    case = golden("mix_glml_dml")["y_mixture_1d"]
    metric, out = yianilos(case), case["out"]
    Y = np.array(case["in"]["Y"])[:, None]
    Q = np.full_like(Y, case["in"]["Q"])
    np.testing.assert_allclose(metric.log_joint(Q, Y), out["log_joint"], rtol=RTOL)
    best = np.array([[out["argmax_Y"]]])
    top = metric.log_joint(Q[:1], best)
    np.testing.assert_allclose(top, out["log_joint_at_argmax"], rtol=RTOL)
    with jax.enable_x64(True):
        slope = jax.grad(lambda y: metric.log_joint(jnp.asarray(Q[:1]), y)[0])
        assert abs(float(slope(jnp.asarray(best))[0, 0])) < 1e-8


@pytest.mark.parametrize(
    ("zero", "name"), [("noise", "log_eq4"), ("noise_other", "log_eq5")]
)
def test_eq4_and_eq5_are_eq2_with_one_noise_zero(golden, zero, name):
    case = golden("mix_glml_dml")["y_eq45"]
    metric = yianilos(case)
    W = metric.noise
    metric = dataclasses.replace(metric, **{"noise_other": W, zero: np.zeros_like(W)})
    got = metric.log_joint(rows(case, "Q"), rows(case, "Y"))
    np.testing.assert_allclose(got, rows(case, name), rtol=RTOL)


def test_eq5_conditional_and_its_hard_form(golden):
    case = golden("mix_glml_dml")["y_eq45"]
    metric = yianilos(case)
    metric = dataclasses.replace(metric, noise_other=np.zeros_like(metric.noise))
    Q, Y = rows(case, "Q"), rows(case, "Y")
    soft = dataclasses.replace(metric, score="conditional").pair_score(Q, Y)
    np.testing.assert_allclose(soft, rows(case, "log_cond_eq5"), rtol=RTOL)
    hard = dataclasses.replace(metric, score="vq").pair_score(Q, Y)
    np.testing.assert_allclose(hard, rows(case, "hard_log_with_posterior"), rtol=RTOL)
    assert np.all(hard <= soft)


def test_normalised_kernel_equals_golden(golden):
    case = golden("mix_glml_dml")["y_normalised_kernel"]
    metric = yianilos(golden("mix_glml_dml")["y_eq2_mixture"])
    kernel = dataclasses.replace(metric, score="kernel").pair_score
    got = kernel(np.array([[0.5, 0.1]]), np.array([[0.2, -0.4]]))
    np.testing.assert_allclose(got, case["out"]["log_khat"], rtol=RTOL)


def test_argmax_of_each_score_for_one_component(golden):
    case = golden("mix_glml_dml")["y_argmax_single"]
    mu, Sigma, Q = arrays(case, "mu", "Sigma", "Q")
    a, out = case["in"]["alpha"], case["out"]
    metric = to_metric(proportional(np.ones(1), mu[None], Sigma[None], a))
    conditional = dataclasses.replace(metric, score="conditional").pair_score
    with jax.enable_x64(True):
        q = jnp.asarray(Q)[None]
        for name, score in (
            ("argmax_joint", metric.log_joint),
            ("argmax_conditional_QgivenY", conditional),
            ("argmax_conditional_QgivenY", metric.log_ratio),
        ):
            slope = jax.grad(lambda y, f=score: f(q, y[None])[0])
            at = slope(jnp.asarray(out[name]))
            np.testing.assert_allclose(at, 0, atol=1e-10, err_msg=name)
    best = np.array(out["argmax_joint"])[None]
    gain = metric.log_joint(Q[None], best) - metric.log_joint(Q[None], Q[None])
    np.testing.assert_allclose(gain, out["gain_log"], rtol=RTOL)


def test_printed_constant_of_erratum_y3_is_rejected(golden):
    """The printed η is larger by α^{-d} (1-α)^{-d/2}."""
    case = golden("mix_glml_dml")["y_eq2_mixture"]
    a, d = case["in"]["alpha"], 2
    wrong = yianilos(case).log_joint(rows(case, "Q"), rows(case, "Y"))
    wrong = wrong - d * np.log(a) - d / 2 * np.log(1 - a)
    assert np.all(np.abs(wrong - rows(case, "log_joint")) > 1)
