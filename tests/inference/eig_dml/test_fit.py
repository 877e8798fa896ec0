"""Eig-DML against golden optima, its own certificate and the notes' wrong forms."""

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine

from probmetric.data.containers import Pairs
from probmetric.data.pairs import nearest_pairs
from probmetric.inference import eig_dml
from probmetric.inference.eig_dml.certificate import dual_value, far_values
from probmetric.inference.eig_dml.fit import game
from probmetric.inference.eig_dml.frank_wolfe import softmin
from probmetric.inference.eig_dml.pdhg import (
    operator_norm,
    pdhg,
    project_simplex,
    project_spectraplex,
)
from probmetric.inference.solvers.result import Result


def as_pairs(close, far):
    """Pairs of each difference with the origin."""
    close, far = np.asarray(close), np.asarray(far)
    n = len(close) + len(far)
    X = np.concatenate([np.zeros((1, close.shape[1])), close, far])
    y = np.repeat([1, 0], [len(close), len(far)])
    return Pairs(X, np.arange(1, n + 1), np.zeros(n, int), y)


def case(golden, name):
    entry = golden("mix_glml_dml")[name]
    close, far = (np.asarray(entry["in"][k]) for k in ("close_diffs", "far_diffs"))
    return close, far, entry["out"]


@pytest.fixture(scope="module")
def wine_pairs():
    X, y = load_wine(return_X_y=True)
    return nearest_pairs((X - X.mean(0)) / X.std(0), y)


@pytest.fixture(scope="module")
def wine(wine_pairs):
    """Fits of Wine by either solver."""
    return cache(lambda solver: eig_dml.fit(wine_pairs, solver=solver))


@pytest.fixture(scope="module")
def solved(golden):
    """Fits of the golden problems by either solver, as it is by default."""

    def of(solver, name):
        close, far, _ = case(golden, name)
        return eig_dml.fit(as_pairs(close, far), solver=solver)

    return cache(of)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["frank_wolfe", "pdhg"])
@pytest.mark.parametrize(
    ("name", "key"),
    [("p_eigdml_2d", "optimum_min_sqdist"), ("p_eigdml_4d", "optimum")],
)
def test_bounds_enclose_the_golden_optimum(golden, solved, solver, name, key):
    out, params = case(golden, name)[2], solved(solver, name).params
    rounding = 1e-12 * out[key]
    assert params.primal <= out[key] + rounding
    assert params.dual >= out[key] - rounding


def test_pdhg_reaches_the_golden_optimum(golden):
    close, far, out = case(golden, "p_eigdml_4d")
    fitted = eig_dml.fit(as_pairs(close, far), solver="pdhg", tol=1e-8)
    assert int(fitted.result) == Result.CONVERGED
    np.testing.assert_allclose(fitted.params.primal, out["optimum"], rtol=1e-8)
    values = np.linalg.eigvalsh(fitted.params.S)
    assert np.sum(values > 1e-4 * values[-1]) == out["rank_S"]
    assert np.sum(fitted.params.u > 1e-6) == out["active_pairs"]


def test_pdhg_matches_golden_metric(golden):
    close, far, out = case(golden, "p_eigdml_2d")
    params = eig_dml.fit(as_pairs(close, far), solver="pdhg", tol=1e-12).params
    L = params.factor
    np.testing.assert_allclose(L.T @ L, out["M_opt"], atol=1e-5)


def test_softmin_weights_match_golden(golden):
    close, far, out = case(golden, "p_eigdml_2d")
    problem = game(as_pairs(close, far))
    u = softmin(far_values(problem.Z, np.eye(2)), 0.1)
    np.testing.assert_allclose(u, out["softmin_weights_at_I"], rtol=1e-10)
    np.testing.assert_allclose(
        2 * dual_value(problem.Z, u), out["dual_bound_at_I"], rtol=1e-12
    )


def test_softmin_survives_what_underflows():
    a = np.array([1.0, 1.5, 40.0])
    np.testing.assert_allclose(softmin(a, 1e-5), [1.0, 0.0, 0.0])


def test_working_set_covers_every_far_pair(wine, wine_pairs):
    """The primal bound holds over all far pairs, not over the working set only."""
    params = wine("pdhg").params
    delta = wine_pairs.X[wine_pairs.i] - wine_pairs.X[wine_pairs.j]
    far = delta[wine_pairs.y == 0]
    assert len(far) > 130  # larger than the first working set, 10 d
    nearest = np.min(np.sum((far @ params.factor.T) ** 2, 1))
    np.testing.assert_allclose(nearest, params.primal, rtol=1e-9)


@pytest.mark.long
def test_lanczos_reaches_the_same_certificate(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = as_pairs(rng.standard_normal((30, 8)), 2 * rng.standard_normal((40, 8)))
    exact = eig_dml.fit(pairs, solver="pdhg").params
    monkeypatch.setattr("probmetric.inference.eig_dml.frank_wolfe.DENSE_LIMIT", 5)
    params = eig_dml.fit(pairs, solver="frank_wolfe", tol=0.03).params
    assert params.primal <= exact.dual
    assert params.dual >= exact.primal
    assert params.gap <= 0.03 * params.primal


def test_step_limit_is_reported(golden):
    close, far, _ = case(golden, "p_eigdml_4d")
    for solver in ("frank_wolfe", "pdhg"):
        fitted = eig_dml.fit(as_pairs(close, far), solver=solver, max_steps=30)
        assert int(fitted.result) == Result.MAX_STEPS
        assert fitted.params.gap > 0


def test_linear_map_of_the_inputs_changes_no_distance(golden):
    close, far, _ = case(golden, "p_eigdml_4d")
    B = np.random.default_rng(1).standard_normal((4, 4))
    plain = eig_dml.fit(as_pairs(close, far), solver="pdhg", tol=1e-10).params
    moved = eig_dml.fit(as_pairs(close @ B, far @ B), solver="pdhg", tol=1e-10).params
    np.testing.assert_allclose(moved.primal, plain.primal, rtol=1e-9)


def test_kappa_is_a_factor_of_the_metric(golden):
    close, far, _ = case(golden, "p_eigdml_4d")
    one = eig_dml.fit(as_pairs(close, far), kappa=1.0).params
    four = eig_dml.fit(as_pairs(close, far), kappa=4.0).params
    np.testing.assert_allclose(four.factor, 2 * one.factor, rtol=1e-12)


def test_weights_of_close_pairs_repeat_them(golden):
    close, far, _ = case(golden, "p_eigdml_4d")
    twice = as_pairs(np.concatenate([close, close[:3]]), far)
    weighted = as_pairs(close, far)._replace(
        w=np.r_[np.full(3, 2.0), np.ones(len(close) + len(far) - 3)]
    )
    # To a tight gap: on the way there Frank-Wolfe's steps turn on the last digit.
    found = [eig_dml.fit(p, solver="pdhg", tol=1e-10).params for p in (twice, weighted)]
    one, other = (params.factor.T @ params.factor for params in found)
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * one.max())


def test_one_far_pair_gets_the_whole_metric():
    close = np.array([[1.0, 0.0], [0.0, 2.0]])
    params = eig_dml.fit(as_pairs(close, [[1.0, 1.0]]), solver="frank_wolfe").params
    # max xᵀMx with ⟨H, M⟩ = 2 is 2 xᵀH⁻¹x = 2 (1 + 1/4), at a matrix of rank one.
    np.testing.assert_allclose(params.dual, 2.5, rtol=1e-12)
    np.testing.assert_allclose(params.primal, 2.5, rtol=1e-2)


def test_zero_far_pair_is_refused():
    with pytest.raises(ValueError, match=r"got 1 far pairs of equal points"):
        eig_dml.fit(as_pairs(np.eye(2), [[1.0, 1.0], [0.0, 0.0]]))


def test_singular_close_pairs_are_refused_and_a_ridge_heals():
    pairs = as_pairs([[1.0, 0.0], [2.0, 0.0]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"ridge .* only 1"):
        eig_dml.fit(pairs)
    assert np.isfinite(eig_dml.fit(pairs, ridge=1e-3).params.primal)


def test_pairs_of_one_label_are_refused():
    with pytest.raises(ValueError, match=r"y .* got . close and . far"):
        eig_dml.fit(as_pairs(np.empty((0, 2)), np.eye(2)))


def test_projections_are_nearest_points():
    rng = np.random.default_rng(0)
    v, S = rng.standard_normal(6), rng.standard_normal((3, 3))
    S = S + S.T
    u, P = project_simplex(v), project_spectraplex(S)
    np.testing.assert_allclose([u.sum(), np.trace(P)], 1, rtol=1e-13)
    assert u.min() >= 0
    assert np.linalg.eigvalsh(P)[0] >= -1e-14
    for _ in range(200):
        other = rng.dirichlet(np.ones(6))
        assert (v - u) @ (other - u) <= 1e-12  # the variational inequality
        B = rng.standard_normal((3, 3))
        Q = B @ B.T / np.sum(B**2)
        assert np.sum((S - P) * (Q - P)) <= 1e-12


def test_weighted_projection_is_the_nearest_point():
    rng = np.random.default_rng(1)
    v, c = rng.standard_normal(6), np.geomspace(1e-3, 1, 6)
    w = project_simplex(v, c)
    np.testing.assert_allclose(c @ w, 1, rtol=1e-12)
    assert w.min() >= 0
    for _ in range(200):
        other = rng.dirichlet(np.ones(6)) / c
        assert (v - w) @ (other - w) <= 1e-9 * np.abs(other).max()


def test_far_pairs_of_very_different_length_are_solved():
    """The nearest pair is a thousand times shorter than the rest, and still active."""
    rng = np.random.default_rng(0)
    far = rng.standard_normal((40, 2))
    far[0] *= 1e-3
    pairs = as_pairs(rng.standard_normal((30, 2)), far)
    fitted = eig_dml.fit(pairs, solver="pdhg", max_steps=20_000)
    assert int(fitted.result) == Result.CONVERGED
    assert fitted.params.gap <= 1e-6 * fitted.params.primal


def test_operator_norm_is_a_tight_upper_bound():
    Z = np.random.default_rng(2).standard_normal((30, 4))
    exact = np.sqrt(np.linalg.eigvalsh((Z @ Z.T) ** 2)[-1])
    assert exact <= operator_norm(Z) <= 1.03 * exact


def test_the_dual_bound_is_never_above_that_of_equal_weights():
    """Ten equal far pairs and one across: one step still weighs them worse."""
    Z = np.vstack([np.tile([1.0, 0.0], (10, 1)), [[0.0, 2.0]]])
    found = pdhg(Z, max_steps=1, tol=0.0)
    assert found.dual <= dual_value(Z, np.full(11, 1 / 11))
    np.testing.assert_allclose(found.u.sum(), 1, rtol=1e-13)
