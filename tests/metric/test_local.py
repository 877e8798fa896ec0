"""The local Mahalanobis metric: loops, golden neighbors, invariance, precision."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from probmetric.densities.classes import ClassDensities
from probmetric.metric import local
from probmetric.metric.local import CHUNK, TILE, local_metric, local_pairwise
from probmetric.neighbors import scan as neighbors_scan
from tests.metric_kinds import largest_intermediate

RULES = ["min_norm", "zero_bias", "regularised", "fisher"]


def densities(seed=0, c=3, d=4, inv_df=0.1, spread=1.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(c, 1, d, d + 2))
    return ClassDensities(
        np.log(rng.dirichlet(np.full(c, 5.0))),
        np.zeros((c, 1)),
        spread * rng.normal(size=(c, 1, d)),
        np.linalg.cholesky(A @ np.swapaxes(A, -1, -2) / d),
        np.full((c, 1), inv_df),
    )


_built = jax.jit(local_metric, static_argnames="frame")


def built(classes, frame="pooled", **fields):
    """Return ``local_metric``: its rule changes nothing that is to be compiled."""
    return replace(_built(classes, frame=frame), **fields)


def metric_of(**options):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, built(densities(**options)))


def points(n, d=4, seed=1):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_pairwise_and_neighbors_equal_golden(golden, x64):
    case = golden("mix_glml_dml")["g_knn_local_metric"]
    given, out = {k: np.array(v) for k, v in case["in"].items()}, case["out"]
    D = local_pairwise(given["A"], given["queries"], given["X"])
    np.testing.assert_allclose(D, out["sqdist"], rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(np.argsort(D, 1)[:, :2], out["two_nn"])


def test_fisher_of_two_classes_has_one_direction_and_no_scale_from_rounding():
    metric = replace(metric_of(c=2), rule="fisher")
    X = points(20)
    values = np.linalg.eigvalsh(metric.frame_matrix_at(X))
    np.testing.assert_allclose(values[:, -1], 1.0, rtol=1e-9)
    np.testing.assert_allclose(values[:, :-1], 0.0, atol=1e-9)


@pytest.mark.long
def test_pairwise_dissimilarity_and_refine_equal_a_loop_over_pairs():
    metric = replace(metric_of(), gamma=np.array(0.5))
    Q, P = points(20), points(5, seed=2)
    A = metric.matrix_at(Q)
    loop = [[(p - q) @ A[i] @ (p - q) for p in P] for i, q in enumerate(Q)]
    close = {"rtol": 1e-9, "atol": 1e-11}
    np.testing.assert_allclose(metric.pairwise(Q, P), loop, **close)
    np.testing.assert_allclose(metric.dissimilarity(Q[1], P), loop[1], **close)
    idx = np.tile(np.arange(5), (20, 1))
    np.testing.assert_allclose(metric.refine(Q, P, idx), loop, rtol=1e-12)


def test_tiles_of_points_add_nothing_and_lose_nothing():
    metric = metric_of()
    Q, P = points(20), points(TILE + 7)
    whole = metric.pairwise(Q, P)
    border = slice(TILE - 2, TILE + 3)
    alone = metric.pairwise(Q, P[border])
    np.testing.assert_allclose(whole[:, border], alone, rtol=1e-12)
    assert whole.shape == (20, TILE + 7)


def test_refine_sees_what_the_product_form_cancels():
    """Two points 1e-9 apart, 1e4 from the centre: the product form is all rounding."""
    metric = metric_of()
    q = np.full((1, 4), 1e4)
    P = q + 1e-9 * points(20)
    exact = metric.dissimilarity(q[0], P)
    # x + 1e-9 is itself rounded at 1e4: compare with the difference as it is stored.
    np.testing.assert_allclose(
        metric.refine(q, P, np.arange(20)[None])[0], exact, rtol=1e-12
    )
    # Of twenty products at least one rounds upwards: those below 0 are taken as 0.
    assert np.max(np.abs(metric.pairwise(q, P)[0] - exact)) > 1e3 * exact.max()


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_matrices_are_symmetric_positive_with_the_determinant_of_the_frame(rule):
    metric = replace(metric_of(), rule=rule, gamma=np.array(0.1))
    A = metric.matrix_at(points(20))
    np.testing.assert_allclose(A, np.swapaxes(A, 1, 2), atol=1e-12)
    assert np.linalg.eigvalsh(A).min() > 0
    wanted = 2 * np.linalg.slogdet(metric.frame)[1]
    np.testing.assert_allclose(np.linalg.slogdet(A)[1], wanted, atol=1e-9)


@pytest.mark.long
def test_a_callers_own_program_has_the_same_matrices_and_distances():
    """There all queries are one call; outside there are programs of two sizes."""
    metric, X = metric_of(), points(CHUNK + 5)
    with jax.enable_x64(True):
        A = metric.matrix_at(X)
        for found in (
            np.concatenate([metric.matrix_at(X[:60]), metric.matrix_at(X[60:])]),
            jax.jit(lambda metric, X: metric.matrix_at(X))(metric, X),
        ):
            np.testing.assert_allclose(found, A, rtol=1e-10, atol=1e-12)

        # Constants of the program: the queries, and the metric too.
        @jax.jit
        def own(P):
            of_one = metric.dissimilarity(X[0], P)
            return metric.matrix_at(X[:3]), metric.pairwise(X[:3], P), of_one

        matrices, of_all, of_one = own(X)
        np.testing.assert_allclose(matrices, A[:3], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(of_all, metric.pairwise(X[:3], X), atol=1e-12)
        np.testing.assert_allclose(of_one, metric.dissimilarity(X[0], X), atol=1e-12)


def test_copies_of_the_last_row_that_fill_a_tile_are_computed_once(monkeypatch, x64):
    calls, program = [], local._frame_matrices
    monkeypatch.setattr(
        local, "_frame_matrices", lambda m, X: (calls.append(len(X)), program(m, X))[1]
    )
    metric, X = metric_of(), points(CHUNK + 5)
    X[3] = X[-1]  # A copy that others follow ends nothing.
    alone = metric.prepare_alone(X).matrices
    tile = np.concatenate([X, np.repeat(X[-1:], 4 * CHUNK, 0)])
    filled = metric.prepare_alone(tile).matrices
    assert calls == [CHUNK] * 4
    np.testing.assert_array_equal(filled[: len(X)], alone)
    np.testing.assert_array_equal(filled[len(X) :], np.repeat(alone[-1:], 4 * CHUNK, 0))
    one = metric.prepare_alone(np.repeat(X[3:4], CHUNK, 0)).matrices
    np.testing.assert_array_equal(one, np.repeat(alone[3:4], CHUNK, 0))
    expected = [jax.jit(local._matrices)(metric, x[None])[0] for x in X[[0, 3, -1]]]
    np.testing.assert_allclose(alone[[0, 3, -1]], expected, rtol=1e-9)


@pytest.mark.long
def test_constant_queries_of_a_program_of_float32_are_refused():
    metric, X = metric_of(), points(5)
    wanted = metric.dissimilarity(X[0], X)
    with pytest.raises(ValueError, match=r"X must be an argument of the function"):
        jax.jit(lambda P: metric.dissimilarity(X[0], P))(X)
    found = jax.jit(lambda q: metric.dissimilarity(q, X))(X[0])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(metric.dissimilarity(X[0], X), wanted, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["min_norm", "zero_bias"])
def test_rules_in_the_whitened_frame_follow_any_linear_change_of_inputs(rule):
    """A(x) of mapped densities is A carried along: T⁻ᵀ A T⁻¹."""
    rng = np.random.default_rng(4)
    classes = densities()
    T, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    L = np.linalg.cholesky(
        T @ classes.factor @ np.swapaxes(classes.factor, -1, -2) @ T.T
    )
    moved = classes._replace(loc=classes.loc @ T.T + b, factor=L)
    X = points(20)
    with jax.enable_x64(True):
        old = built(classes, rule=rule, gamma=np.array(0.2)).matrix_at(X)
        new = built(moved, rule=rule, gamma=np.array(0.2)).matrix_at(X @ T.T + b)
    back = np.einsum("ai,nab,bj->nij", T, new, T)
    np.testing.assert_allclose(back, old, rtol=1e-7, atol=1e-8 * np.max(np.abs(old)))


@pytest.mark.long
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_bias_is_relative_to_its_size_in_any_unit(unit):
    # In features as they are, Hessians of densities go by the unit squared.
    classes, X = densities(), points(20)
    moved = classes._replace(loc=classes.loc * unit, factor=classes.factor * unit)

    def matrices(classes, X):
        return built(classes, rule="regularised", frame="identity").matrix_at(X)

    with jax.enable_x64(True):
        old, new = matrices(classes, X), matrices(moved, X * unit)
    np.testing.assert_allclose(new, old, rtol=1e-7, atol=1e-9 * np.max(np.abs(old)))


def test_rescaled_gives_the_same_distances_for_rescaled_inputs():
    metric, Q, P = metric_of(), points(20), points(5, seed=2)
    scale, offset = np.array([1e3, 1.0, 0.1, 5.0]), np.arange(4.0)
    moved = metric.rescaled(scale, offset)
    np.testing.assert_allclose(
        moved.pairwise(offset + scale * Q, offset + scale * P),
        metric.pairwise(Q, P),
        rtol=1e-9,
        atol=1e-10,
    )


@pytest.mark.long
@pytest.mark.parametrize("c, rule", [(2, "zero_bias"), (3, "min_norm")])
def test_no_nan_in_a_hundred_dimensions_far_from_the_data(c, rule):
    metric = replace(metric_of(c=c, d=100), rule=rule)
    assert np.isfinite(metric.matrix_at(100 * points(1, d=100))).all()


def test_two_classes_do_not_need_their_priors():
    classes = densities(c=2)
    skewed = classes._replace(log_prior=np.log([0.999, 0.001]))
    X = points(3)
    with jax.enable_x64(True):
        base = built(classes)
        other = replace(base, classes=base.classes._replace(log_prior=skewed.log_prior))
        np.testing.assert_array_equal(base.matrix_at(X), other.matrix_at(X))


@pytest.mark.parametrize("rule", ["min_norm", "zero_bias"])
def test_identical_classes_leave_the_base_metric(rule):
    classes = densities(c=2)
    same = jax.tree.map(lambda a: np.repeat(a[:1], 2, 0), classes)
    with jax.enable_x64(True):
        A = built(same, rule=rule).frame_matrix_at(points(3))
    np.testing.assert_allclose(A, np.broadcast_to(np.eye(4), A.shape), atol=1e-12)


def test_equal_covariances_change_the_metric_in_two_directions_only():
    classes = densities(c=2, inv_df=0.0)
    shared = classes._replace(factor=np.repeat(classes.factor[:1], 2, 0))
    with jax.enable_x64(True):
        A = built(shared).frame_matrix_at(points(3))
    values = np.sort(np.linalg.eigvalsh(A), 1)
    middle = values[:, 1:3]
    np.testing.assert_allclose(middle[:, 0], middle[:, 1], rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("t, d, c", [(256, 4, 2), (512, 4, 3)])
def test_a_search_holds_what_its_formula_says(t, d, c):
    """Largest values of a trace: t² distances, t (D² + f) of queries, c CHUNK D²."""
    metric, f = metric_of(c=c, d=d), d * (d + 1) // 2 + d
    Q, own = points(t, d), np.zeros(t, int)
    with jax.enable_x64(True):
        shared = jax.eval_shape(neighbors_scan.ready, metric, Q)
    of_queries = largest_intermediate(neighbors_scan.ready, metric, Q)
    assert of_queries <= max(t * (d**2 + f), c * CHUNK * d**2)
    of_a_tile = largest_intermediate(
        lambda q, p, s: neighbors_scan.tile_of(metric, q, s, p, t, own), Q, Q, shared
    )
    assert of_a_tile == t * max(t, f)
