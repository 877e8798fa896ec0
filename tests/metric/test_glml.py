"""GLML's matrices against multi-precision golden values, autodiff and optimizers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from probmetric.densities import classes as densities
from probmetric.densities.classes import ClassDensities, mapped
from probmetric.metric import glml

pytestmark = pytest.mark.usefixtures("x64")
EPS = np.finfo(float).eps

class_hessians = jax.jit(densities.class_hessians)
class_log_densities = jax.jit(densities.class_log_densities)
class_scores = jax.jit(densities.class_scores)
log_posterior = jax.jit(densities.log_posterior)
bias_matrix = jax.jit(glml.bias_matrix)
fisher_matrix = jax.jit(glml.fisher_matrix)


def normals(mu, Sigma, chosen=slice(None)):
    mu, L = np.array(mu)[chosen], np.linalg.cholesky(np.array(Sigma)[chosen])
    c = len(mu)
    return ClassDensities(
        np.full(c, -np.log(c)),
        np.zeros((c, 1)),
        mu[:, None],
        L[:, None],
        np.zeros((c, 1)),
    )


def random_classes(key, c, k, d, inv_df):
    rng = np.random.default_rng(key)
    A = rng.normal(size=(c, k, d, d + 2))
    return ClassDensities(
        np.log(rng.dirichlet(np.ones(c))),
        np.log(rng.dirichlet(np.ones(k), c)),
        rng.normal(size=(c, k, d)),
        np.linalg.cholesky(A @ np.swapaxes(A, -1, -2) / d),
        np.full((c, k), inv_df),
    )


@partial(jax.jit, static_argnames=("rule", "max_multiplier"))
def composed(rule, *args, **how):
    return glml.compose(rule(*args, **how))


def matrix(rule, B, *args, **how):
    """Return the matrix that a rule gives for B, as one program."""
    if not args:
        how = {"size": 0.0, **how}
    return np.asarray(composed(rule, B, *args, **how))


@pytest.mark.long
@pytest.mark.parametrize("case", range(6))
def test_bias_matrix_equals_mpmath_up_to_a_factor(golden, case):
    given, out = (
        golden("mix_glml_dml")["g_B"],
        golden("mix_glml_dml")["g_B"]["out"][case],
    )
    classes = normals(given["in"]["mu"], given["in"]["Sigma"], out["classes"])
    x = np.array(out["x"])
    log_rho = log_posterior(classes, x)
    np.testing.assert_allclose(np.exp(log_rho), out["posterior"], rtol=50 * EPS)
    B, _ = bias_matrix(log_rho, class_hessians(classes, x))
    wanted = np.array(out["B_over_p3"])
    factor = np.sum(B * wanted) / np.sum(wanted**2)
    np.testing.assert_allclose(B / factor, wanted, atol=100 * EPS)
    np.testing.assert_allclose(
        matrix(glml.zero_bias, B), out["A_opt_det1"], rtol=1e-13, atol=1e-13
    )
    if out["A_minnorm_det1"] is not None:
        np.testing.assert_allclose(
            matrix(glml.min_norm, B), out["A_minnorm_det1"], rtol=1e-12, atol=1e-12
        )


@pytest.mark.long
def test_bias_matrix_is_right_a_hundred_log_odds_away(golden):
    case = golden("mix_glml_dml")["g_B_far"]
    classes = normals(case["in"]["mu"], case["in"]["Sigma"])
    x = np.array(case["in"]["x"], float)
    log_rho = log_posterior(classes, x)
    np.testing.assert_allclose(log_rho, case["out"]["log_post"], rtol=1e-12, atol=1e-12)
    B, _ = bias_matrix(log_rho, class_hessians(classes, x))
    np.testing.assert_allclose(
        B / np.max(np.abs(B)),
        np.array(case["out"]["B_normalised_by_max_abs"]),
        rtol=1e-11,
    )


def test_rules_equal_mpmath_in_four_dimensions(golden):
    case = golden("mix_glml_dml")["g_aopt_4d"]
    B, out = np.array(case["in"]["B"]), case["out"]
    close = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(matrix(glml.zero_bias, B), out["A_opt_det1"], **close)
    np.testing.assert_allclose(matrix(glml.min_norm, B), out["A_minnorm_det1"], **close)


def test_regularised_equals_newton_in_matrix_space(golden):
    case = golden("mix_glml_dml")["g_bayes_isotropic"]
    B, eps = np.array(case["in"]["B"]), case["in"]["eps"]
    wanted = case["out"]["A_det1"]
    np.testing.assert_allclose(matrix(glml.regularised, B, eps), wanted, rtol=1e-12)


def test_min_norm_is_the_optimum_that_slsqp_finds():
    B = np.diag([2.0, -1.0, 0.3, 0.1])

    found = minimize(
        lambda p: np.sum(np.exp(2 * p)),
        np.zeros(4),
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda p: np.sum(np.diag(B) * np.exp(p))},
            {"type": "eq", "fun": np.sum},
        ],
        options={"ftol": 1e-14, "maxiter": 200},
    )
    assert found.success
    np.testing.assert_allclose(
        np.diag(matrix(glml.min_norm, B)), np.exp(-found.x), rtol=1e-6
    )


@pytest.mark.parametrize("rule", [glml.zero_bias, glml.min_norm])
def test_two_signs_give_no_bias_and_unit_determinant(rule):
    rng = np.random.default_rng(3)
    B = rng.normal(size=(100, 100))
    B += B.T
    A = matrix(rule, B)
    P = np.linalg.solve(A, B)
    assert abs(np.trace(P)) < 1e-9 * np.sum(np.abs(np.linalg.eigvals(P)))
    assert abs(np.linalg.slogdet(A)[1]) < 1e-10


@pytest.mark.parametrize("rule", [glml.zero_bias, glml.min_norm])
def test_sign_and_scale_of_b_do_not_matter(rule):
    B = np.diag([2.0, -1.0, 0.3, -0.2])
    np.testing.assert_allclose(matrix(rule, -7e-9 * B), matrix(rule, B), rtol=1e-12)


def test_one_sign_gives_the_size_of_b_in_the_limit():
    B = np.diag([2.0, 1.0, 0.5, 1.0])
    np.testing.assert_allclose(matrix(glml.zero_bias, B), B, rtol=1e-14)
    A = matrix(glml.min_norm, B, max_multiplier=1e6)
    np.testing.assert_allclose(A, B, atol=1e-10)


def test_min_norm_stays_regular_where_b_is_singular():
    A = matrix(glml.min_norm, np.diag([1.0, -1.0, 0.0, 0.0]))
    np.testing.assert_allclose(np.diag(A), np.ones(4), rtol=1e-14)
    nearly = matrix(glml.min_norm, np.diag([1.0, -0.5, 1e-9, -1e-9]))
    exactly = matrix(glml.min_norm, np.diag([1.0, -0.5, 0.0, 0.0]))
    np.testing.assert_allclose(nearly, exactly, atol=1e-8)


def test_zero_bias_of_a_singular_b_is_singular_with_unit_pseudo_determinant():
    a = np.sort(np.diag(matrix(glml.zero_bias, np.diag([3.0, -1.0, 0.0, 0.0]))))
    np.testing.assert_allclose(a, [0.0, 0.0, 1 / np.sqrt(3), np.sqrt(3)], rtol=1e-14)


@pytest.mark.parametrize("rule", [glml.zero_bias, glml.min_norm])
def test_no_bias_leaves_the_base_metric(rule):
    np.testing.assert_array_equal(matrix(rule, np.zeros((4, 4))), np.eye(4))
    rounding = 1e-16 * np.diag([1.0, -1.0, 0.5, 0.2])
    np.testing.assert_array_equal(matrix(rule, rounding, size=1.0), np.eye(4))


def test_gamma_leads_from_the_metric_to_its_base():
    spectrum = jax.jit(glml.zero_bias)(np.diag([3.0, -1.0, 0.2]))
    a, with_base = np.sort(np.asarray(spectrum.a)), jax.jit(glml.with_base)
    np.testing.assert_allclose(np.sort(with_base(spectrum, 0.0).a), a, rtol=1e-14)
    np.testing.assert_allclose(with_base(spectrum, np.inf).a, np.ones(3))
    one = np.sort(np.asarray(with_base(spectrum, 1.0).a))
    by_hand = 1 + 3 * a / a.sum()
    np.testing.assert_allclose(one, by_hand / np.prod(by_hand) ** (1 / 3), rtol=1e-14)


@jax.jit
def by_autodiff(classes, x):
    """Return each class's density, its gradient and its Hessian at x."""

    def density(x):
        return jnp.exp(densities.class_log_densities(classes, x))

    return density(x), jax.jacrev(density)(x), jax.hessian(density)(x)


@pytest.mark.long
@pytest.mark.parametrize("inv_df", [0.0, 1 / 5.5])
def test_scores_and_hessians_are_those_of_autodiff(inv_df):
    classes = random_classes(3, 2, 3, 4, inv_df)
    x = np.random.default_rng(5).normal(size=4)

    p, gradient, hessian = by_autodiff(classes, x)
    np.testing.assert_allclose(
        class_scores(classes, x), gradient / p[:, None], rtol=1e-11
    )
    np.testing.assert_allclose(
        class_hessians(classes, x), hessian / p[:, None, None], rtol=1e-10
    )


@pytest.mark.long
def test_student_hessian_equals_mpmath(golden):
    case = golden("mix_glml_dml")["g_student_t_Hbar"]
    given = case["in"]
    classes = normals([given["loc"]], [given["scale"]])._replace(
        inv_df=np.full((1, 1), 1 / given["df"])
    )
    H = class_hessians(classes, np.array(given["x"]))[0]
    np.testing.assert_allclose(H, case["out"], rtol=1e-13)


def test_mixture_hessian_equals_mpmath(golden):
    case = golden("mix_glml_dml")["g_mixture_Hbar"]
    given = case["in"]
    classes = ClassDensities(
        np.zeros(1),
        np.log(given["weights"])[None],
        np.array(given["mu"])[None],
        np.linalg.cholesky(np.array(given["Sigma"]))[None],
        np.zeros((1, 2)),
    )
    H = class_hessians(classes, np.array(given["x"]))[0]
    np.testing.assert_allclose(H, case["out"], rtol=1e-13)


def test_fisher_matrix_equals_mpmath(golden):
    case = golden("mix_glml_dml")["g_fisher_posterior_metric"]
    classes = normals(case["in"]["mu"], case["in"]["Sigma"])
    for out in case["out"]:
        x = np.array(out["x"])
        F = fisher_matrix(log_posterior(classes, x), class_scores(classes, x))
        np.testing.assert_allclose(F, out["F"], rtol=1e-12, atol=1e-13)


def test_student_densities_integrate_to_scipys():
    classes = random_classes(2, 2, 3, 4, 1 / 4.5)
    L, x = classes.factor, np.array([0.3, -1.0, 2.0, 0.7])
    S = L @ np.swapaxes(L, -1, -2)
    parts = [
        [multivariate_t(classes.loc[c, k], S[c, k], df=4.5).logpdf(x) for k in range(3)]
        for c in range(2)
    ]
    wanted = logsumexp(classes.log_mix + np.array(parts), 1)
    np.testing.assert_allclose(class_log_densities(classes, x), wanted, rtol=1e-13)


@pytest.mark.long
def test_a_linear_map_carries_densities_and_hessians_along():
    classes = random_classes(4, 2, 3, 4, 0.2)
    rng = np.random.default_rng(6)
    F, centre, x = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
    there, z = mapped(jnp, classes, F, centre), F @ (x - centre)
    np.testing.assert_allclose(
        class_log_densities(there, z) + np.linalg.slogdet(F)[1],
        class_log_densities(classes, x),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        np.einsum("ai,cab,bj->cij", F, class_hessians(there, z), F),
        class_hessians(classes, x),
        rtol=1e-10,
    )
