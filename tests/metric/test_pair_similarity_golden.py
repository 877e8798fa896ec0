"""The pair similarity against golden numbers made by quadrature."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

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


def test_eq5_conditional_and_its_hard_form(golden):
    case = golden("mix_glml_dml")["y_eq45"]
    metric = yianilos(case)
    metric = dataclasses.replace(metric, noise_other=np.zeros_like(metric.noise))
    Q, Y = rows(case, "Q"), rows(case, "Y")
    soft = metric.log_conditional(Q, Y)
    np.testing.assert_allclose(soft, rows(case, "log_cond_eq5"), rtol=RTOL)
    hard = dataclasses.replace(metric, score="vq").pair_score(Q, Y)
    np.testing.assert_allclose(hard, rows(case, "hard_log_with_posterior"), rtol=RTOL)
    assert np.all(hard <= soft)


def test_normalised_kernel_equals_golden(golden):
    case = golden("mix_glml_dml")["y_normalised_kernel"]
    metric = yianilos(golden("mix_glml_dml")["y_eq2_mixture"])
    got = metric.log_kernel(np.array([[0.5, 0.1]]), np.array([[0.2, -0.4]]))
    np.testing.assert_allclose(got, case["out"]["log_khat"], rtol=RTOL)


def test_argmax_of_each_score_for_one_component(golden):
    case = golden("mix_glml_dml")["y_argmax_single"]
    mu, Sigma, Q = arrays(case, "mu", "Sigma", "Q")
    a, out = case["in"]["alpha"], case["out"]
    metric = to_metric(proportional(np.ones(1), mu[None], Sigma[None], a))
    with jax.enable_x64(True):
        q = jnp.asarray(Q)[None]
        for name, score in (
            ("argmax_joint", metric.log_joint),
            ("argmax_conditional_QgivenY", metric.log_conditional),
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
