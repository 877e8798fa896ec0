"""``LCA``: recipe, units, pairs and draws, each against something independent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.padding import bucket
from probmetric.estimators.lca.estimator import LCA
from probmetric.models.lca import log1mexp

IRIS_X, IRIS_Y = load_iris(return_X_y=True)


def reference_recipe(X, y, k=3, lam=10.0, passes=2):
    """The recipe in full matrices, fitted by SciPy: independent of the package."""
    n, d = X.shape
    same = y[:, None] == y
    W, theta, W0, s = np.eye(d), None, np.eye(d), 1.0
    for _ in range(passes):
        Z = X @ W.T
        D = ((Z[:, None] - Z) ** 2).sum(-1)
        np.fill_diagonal(D, np.inf)
        i = np.repeat(np.arange(n), k)
        sides = [
            np.argsort(np.where(mask, D, np.inf), 1, kind="stable")[:, :k].ravel()
            for mask in (same, ~same)
        ]
        delta = [X[i] - X[j] for j in sides]
        w = n / (2 * k * n)
        if theta is None:
            s = 1 / np.sqrt(np.median((delta[0] ** 2).sum(1)))
            W0 = s * np.eye(d)
            theta = np.append(W0.ravel(), np.log(0.3))

        @jax.value_and_grad
        def loss(theta, delta=delta, W0=W0, s=s, w=w):
            # τ² = 1 + 2σ² = e^{2b/d}; b ~ Exponential(1) has density e^{log b - b}.
            W, b = theta[:-1].reshape(d, d), jnp.exp(theta[-1])
            t = [b + 0.5 * jnp.exp(-2 * b / d) * ((v @ W.T) ** 2).sum(1) for v in delta]
            ll = w * (-t[0].sum() + log1mexp(t[1]).sum())
            penalty = 0.5 * lam / s**2 * ((W - W0) ** 2).sum()
            return -ll + penalty + b - theta[-1]

        with jax.enable_x64(True):
            compiled = jax.jit(loss)
            theta = minimize(
                lambda v, f=compiled: tuple(np.asarray(a, float) for a in f(v)),
                theta,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9},
            ).x
        W = theta[:-1].reshape(d, d)
    return W.T @ W * np.exp(-2 * np.exp(theta[-1]) / d)


def test_default_fit_is_the_recipe_solved_independently():
    # No tied distances, which rounding would order at random in the reference.
    X, y = make_blobs(90, 3, centers=3, cluster_std=4.0, random_state=1)
    X *= [1.0, 20.0, 0.3]
    fitted = LCA(tol=1e-10, prior_mean="identity").fit(X, y)
    scale = X.std(0)
    wanted = reference_recipe((X - X.mean(0)) / scale, y) / np.outer(scale, scale)
    # Both stop at gradients of 1e-9 of the objective: M is good to about 1e-6.
    np.testing.assert_allclose(
        fitted.get_mahalanobis_matrix(), wanted, atol=1e-5 * wanted.max()
    )


def test_default_uses_n_over_N_and_ten_pseudo_points():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    assert fitted.learning_rate_ == pytest.approx(1 / 6)
    assert fitted.regularization_ == 10
    assert fitted.n_refresh_ == 1
    assert LCA(regularization=3).fit(IRIS_X, IRIS_Y).regularization_ == 3


def test_classes_of_two_give_the_one_neighbor_they_have():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0:2, 50:52, 100:102]
    pairs = LCA().fit(X[rows], y[rows]).fitted_.pairs
    # Each point with its one fellow (6 ordered, 3 pairs) and 3 of the 4 others.
    assert np.sum(pairs.y) in (3, 6)
    with pytest.raises(ValueError, match=r"n_targets .* \[1, 1\] .* got 3"):
        LCA(n_targets=3).fit(X[rows], y[rows])


@pytest.mark.parametrize("n", [1, 511, 512, 513, 2048, 2049, 100_000, 123_457])
def test_buckets_hold_n_and_waste_little(n):
    size = bucket(n)
    assert n <= size <= max(512, 2 * n if n <= 2048 else 1.25 * n)
    assert bucket(size) == size


def test_same_probability_after_pairs_is_that_of_the_model_in_standard_units():
    ends = np.stack([IRIS_X[:125], IRIS_X[25:]], 1)
    fitted = LCA().fit_pairs(ends, IRIS_Y[:125] == IRIS_Y[25:])
    params = fitted.fitted_.fit.params
    delta = (IRIS_X[3] - IRIS_X[70]) / ends.reshape(-1, 4).std(0)
    eta = 1 + 2 * np.exp(params.log_sigma2)
    t = 2 * np.log(eta) + np.sum((params.W @ delta) ** 2) / (2 * eta)
    made = fitted.same_probability(np.stack([IRIS_X[3], IRIS_X[70]])[None])
    np.testing.assert_allclose(made, np.exp(-t), rtol=1e-10)
    np.testing.assert_allclose(
        fitted.get_metric().same_probability(IRIS_X[3], IRIS_X[70]), made, rtol=1e-12
    )
    assert fitted.link_.b == fitted.intercept_


def test_a_pickle_of_an_older_version_is_refused():
    fitted = LCA().fit(*load_iris(return_X_y=True))
    state = fitted.__getstate__()
    assert LCA.__new__(LCA).__setstate__(dict(state)) is None
    old = {k: v for k, v in state.items() if k != "link_"}
    with pytest.raises(ValueError, match="pickles of version 0"):
        LCA.__new__(LCA).__setstate__(old)


@pytest.mark.long
def test_a_fit_to_all_pairs_that_stops_early_says_so():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning):
        early = LCA(max_iter=3).fit(X[::5], y[::5])
    with pytest.warns(ConvergenceWarning, match="LCA: MAX_STEPS"):
        early.posterior_metric("intervals")
