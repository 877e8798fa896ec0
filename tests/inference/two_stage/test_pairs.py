"""Closed forms of pairs, α, items and the range of models."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as normal

from probmetric.data.containers import Points
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage.choice import (
    bic,
    blend,
    choose_components,
    choose_flattening,
    flatten,
)
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.pairs import (
    _alpha_data,
    alpha_step,
    fit_alpha,
    log_joint_small_alpha,
    representative,
)
from probmetric.inference.two_stage.proportional import best_root
from probmetric.metric.feature_names import named
from probmetric.models.two_stage import TwoStageParams, proportional, to_metric

RTOL = 1e-10


def arrays(case, *names):
    return [np.asarray(case["in"][name], float) for name in names]


def rows(case, name):
    return np.array([o[name] for o in case["out"]])


def test_footnote_3_is_eq2_up_to_its_constant(golden):
    """D(q; y)/D(q; q) is Pr(q, y)/Pr(q, q) of the pair similarity, d = 1."""
    one = np.ones(1)
    metric = to_metric(proportional(one, np.zeros((1, 1)), np.ones((1, 1, 1)), 0.1))
    values = golden("mix_glml_dml")["y_footnote3_D"]["out"]
    Y = np.array([float(y) for y in values])[:, None]
    got = metric.log_joint(np.ones_like(Y), Y)
    wanted = np.log(list(values.values()))
    np.testing.assert_allclose(got - got[0], wanted - wanted[0], atol=1e-12)


def test_posterior_of_the_representative_equals_quadrature(golden):
    cases = golden("mix_glml_dml")
    c, mu, Sigma = arrays(cases["y_eq2_mixture"], "c", "mu", "Sigma")
    tied = proportional(c, mu, Sigma, cases["y_eq2_mixture"]["in"]["alpha"])
    free = TwoStageParams(*arrays(cases["y_twocov_mixture_pair"], "c", "mu", "W", "B"))
    for name, params in (("y_eq2_mixture", tied), ("y_twocov_mixture_pair", free)):
        for out in cases[name]["out"]:
            got = representative(params, np.array([out["Q"], out["Y"]]))
            np.testing.assert_allclose(got.mean, np.array(out["post_mean"]), rtol=RTOL)
            want = np.array(out["post_cov"])
            np.testing.assert_allclose(got.covariance, want, rtol=RTOL)
            if "resp" in out:
                k = np.exp(got.log_component)
                np.testing.assert_allclose(k, np.array(out["resp"]), rtol=RTOL)


@pytest.mark.long
def test_eq3_misses_eq2_by_its_stated_factor(golden):
    case = golden("mix_glml_dml")["y_eq2_mixture"]
    mu, Sigma = arrays(case, "mu", "Sigma")
    Q, Y = rows(case, "Q"), rows(case, "Y")
    one = np.ones(1), mu[:1], Sigma[:1]
    for a in (0.1, 0.001):
        exact = to_metric(proportional(*one, a)).log_joint(Q, Y)
        z = (Q + Y) / 2 - mu[0]
        r2 = np.sum(z * np.linalg.solve(Sigma[0], z.T).T, 1)
        gap = np.log1p(-a / 2) + 0.5 * r2 * a / (2 - a)
        got = log_joint_small_alpha(MixtureParams(*one), a, Q, Y)
        np.testing.assert_allclose(got - exact, gap, rtol=1e-8)
        # Erratum Y4: with the printed 1/α^d it would miss by that much more.
        assert np.all(np.abs(got - 2 * np.log(a) - exact) > 1)


@pytest.mark.long
def test_alpha_from_pairs_equals_direct_maximum_likelihood(golden, x64):
    case = golden("mix_glml_dml")["y_alpha_mle"]
    Q, Y, c, mu, Sigma = arrays(case, "Q", "Y", "c", "mu", "Sigma")
    one = MixtureParams(np.ones(1), mu[:1], Sigma[:1])
    got = fit_alpha(one, Q, Y, max_steps=3).params
    np.testing.assert_allclose(got, case["out"]["alpha_component0_only"], rtol=RTOL)
    mixture = MixtureParams(c, mu, Sigma)
    end = fit_alpha(mixture, Q, Y)
    # The objective is flat to eps there: α itself is known to its square root.
    np.testing.assert_allclose(end.params, case["out"]["alpha_mixture"], rtol=1e-6)
    data, alpha = _alpha_data(mixture, Q, Y, np.ones(len(Q))), end.params
    step = jax.jit(alpha_step)
    for _ in range(40):
        alpha, _ = step(alpha, data)
    np.testing.assert_allclose(alpha, case["out"]["alpha_mixture"], rtol=RTOL)


def test_uncorrelated_pairs_give_alpha_one():
    rng = np.random.default_rng(2)
    Q = rng.normal(size=(6, 2))  # As many as the golden pairs.
    one = MixtureParams(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    assert float(fit_alpha(one, Q, -Q, max_steps=3).params) == 1.0
    same = fit_alpha(one, Q, Q, max_steps=3)
    assert int(same.result) == Result.NONFINITE


def test_ratio_of_an_item_of_three_measurements_equals_quadrature(golden):
    case = golden("mix_glml_dml")["y_enrol_predictive"]
    Y, Q, c, mu, W, B = arrays(case, "Y", "Q", "c", "mu", "W", "B")
    metric = to_metric(TwoStageParams(c, mu, W, B))
    table = metric.likelihood_ratios(Q[None], Y, known_items=["k"] * 3, prior_odds=2)
    expected = case["out"] - metric.log_marginal(Q)
    np.testing.assert_allclose(table["log10_lr"] * np.log(10), expected, rtol=RTOL)
    odds = 2 * np.exp(expected)
    np.testing.assert_allclose(table["posterior"], odds / (1 + odds), rtol=RTOL)
    assert table.iloc[0, :4].tolist() == [0, "k", 1, 3]


def test_items_of_a_data_frame_in_another_order_are_refused():
    one = np.ones((1, 2))
    metric = to_metric(
        TwoStageParams(np.ones(1), one, np.eye(2)[None], np.eye(2)[None])
    )
    frame = pd.DataFrame([[0.0, 1.0]], columns=["b", "a"])
    with pytest.raises(ValueError, match="questioned must have"):
        named(metric, ["a", "b"]).likelihood_ratios(frame, one)
    with pytest.raises(ValueError, match="known_items"):
        metric.likelihood_ratios(one, np.ones((2, 2)), known_items=[1, "a"])


@pytest.mark.long
def test_number_of_components_by_held_out_likelihood():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + [7, 0]])
    choice = choose_components(X, (1, 2), n_folds=3)
    assert choice.best == 2
    scores = [bic(fit(Points(X), n_components=k).params, X) for k in (1, 2)]
    assert scores[1] > scores[0]


def test_blend_of_one_model_is_that_model_and_shortest_code_errs_by_log_n(golden):
    case = golden("mix_glml_dml")["y_eq2_mixture"]
    c, mu, Sigma = arrays(case, "c", "mu", "Sigma")
    models = [proportional(c, mu, Sigma, a) for a in (0.2, 0.6)]
    Q, Y = rows(case, "Q"), rows(case, "Y")
    single = blend(models[:1]).log_ratio(Q, Y)
    np.testing.assert_allclose(single, to_metric(models[0]).log_ratio(Q, Y), rtol=1e-12)
    both = blend(models, score="joint").log_joint(Q, Y)
    best = np.max([to_metric(m).log_joint(Q, Y) for m in models], 0) - np.log(2)
    assert np.all((both - best >= 0) & (both - best <= np.log(2)))
    with pytest.raises(ValueError, match=r"models .* got none"):
        blend([])


@pytest.mark.parametrize("wanted", [-0.7, 0.1, 0.8])
def test_best_root_finds_each_of_three(wanted, x64):
    cubic = jnp.asarray(np.poly([-0.7, 0.1, 0.8]))
    found = jax.jit(lambda c, at: best_root(c, -1.0, 1.0, lambda t: -((t - at) ** 2)))
    assert abs(float(found(cubic, wanted)) - wanted) < 1e-12


def test_flattening_keeps_variances_and_equals_golden(golden):
    case = golden("mix_glml_dml")["y_flatten"]
    (Sigma,) = arrays(case, "Sigma")
    params = proportional(np.ones(1), np.zeros((1, 2)), Sigma[None], 0.5)
    flat = flatten(params, case["in"]["s"])
    got = flat.within[0] + flat.between[0]
    np.testing.assert_allclose(got, np.array(case["out"]), rtol=RTOL)


@pytest.mark.long
def test_flattening_by_held_out_likelihood_finds_independent_features():
    """Few points of independent features: full covariances lose, s < 1 wins."""
    rng = np.random.default_rng(3)
    X, other = rng.normal(size=(12, 5)), rng.normal(size=(200, 5))
    params = fit(Points(X)).params
    s = choose_flattening(params, other)
    assert s[0] < 0.6
    better = to_metric(flatten(params, s)).log_marginal(other).mean()
    assert better > to_metric(params).log_marginal(other).mean()


@pytest.mark.parametrize("each", [False, True])
def test_alpha_of_weighted_pairs_is_a_maximum_of_their_stacked_density(each):
    rng = np.random.default_rng(5)
    mixture = MixtureParams(
        np.array([0.4, 0.6]),
        np.array([[0.0, 1.0], [3.0, -1.0]]),
        np.stack([np.eye(2)] * 2),
    )
    z = rng.integers(0, 2, 60)
    center = mixture.means[z] + rng.normal(size=(60, 2))
    Q, Y = (center + s * rng.normal(size=(60, 2)) for s in (0.4, 0.7))
    w = 0.5 + np.arange(60) % 3
    settings = {"w": w, "per_component": each, "tol": 1e-13, "max_steps": 3000}
    found = np.broadcast_to(fit_alpha(mixture, Q, Y, **settings).params, 2)

    def value(alpha):
        terms = [
            np.log(c)
            + normal.logpdf(
                np.hstack([Q, Y]), np.tile(m, 2), np.kron([[1, 1 - a], [1 - a, 1]], S)
            )
            for c, m, S, a in zip(*mixture, alpha, strict=True)
        ]
        return w @ logsumexp(terms, 0)

    steps = np.eye(2) if each else np.ones((1, 2))
    for step in 1e-3 * steps:
        assert value(found) > max(value(found - step), value(found + step))
