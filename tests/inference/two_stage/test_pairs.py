"""Closed forms of pairs, α, enrolment and the range of models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    fit_alpha,
    log_joint_small_alpha,
)
from probmetric.inference.two_stage.proportional import best_root
from probmetric.models.two_stage import proportional, to_metric

RTOL = 1e-10


def arrays(case, *names):
    return [np.asarray(case["in"][name], float) for name in names]


def rows(case, name):
    return np.array([o[name] for o in case["out"]])


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


def test_uncorrelated_pairs_give_alpha_one():
    rng = np.random.default_rng(2)
    Q = rng.normal(size=(6, 2))  # As many as the golden pairs.
    one = MixtureParams(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    assert float(fit_alpha(one, Q, -Q, max_steps=3).params) == 1.0
    same = fit_alpha(one, Q, Q, max_steps=3)
    assert int(same.result) == Result.NONFINITE


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
