"""``GDM``: scikit-learn's contract, units, sites and pairs, draws, bad input."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.special import xlogy
from sklearn.base import clone

import probmetric as pm
from probmetric import plots
from probmetric.data import site_pairs
from probmetric.inference.gdm.bootstrap import site_weights
from probmetric.storage import posterior_of
from tests.dump import assert_refused


def world(seed=0, n=40, n_species=80):
    """Species with optima along the first of two covariates."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.gamma(1.0, size=n), rng.normal(size=n)], 1)
    optimum = rng.uniform(-1, 5, size=n_species)
    P = 0.7 * np.exp(-0.5 * (X[:, :1] - optimum) ** 2)
    table = rng.random((n, n_species)) < P
    return X[table.any(1)], table[table.any(1)]


@pytest.fixture(scope="module")
def fitted():
    return pm.GDM().fit_sites(*world())


def test_the_covariate_that_species_follow_is_found(fitted):
    assert fitted.heights_[0] > 10 * fitted.heights_[1]
    assert fitted.gap_ < 1e-6
    assert 0.5 < fitted.deviance_explained_ < 1
    assert fitted.learning_rate_ == 1


def test_distances_do_not_see_the_units_of_covariates(fitted):
    X, table = world()
    units, shift = np.array([1e3, 1e-2]), np.array([5.0, -3.0])
    moved = pm.GDM().fit_sites(X * units + shift, table)
    pairs = np.stack([X[:10], X[10:20]], 1)
    want = fitted.pair_distance(pairs)
    got = moved.pair_distance(pairs * units + shift)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_sites_and_their_pairs_are_one_fit(fitted):
    X, table = world()
    made = site_pairs(X, table)
    rows = np.stack([made.i, made.j], 1)
    of_rows = pm.GDM(preprocessor=X).fit_pairs(rows, made.y, trials=made.trials)
    of_points = pm.GDM().fit_pairs(X[rows], made.y, trials=made.trials)
    for other in (of_rows, of_points):
        np.testing.assert_allclose(other.knots_, fitted.knots_)
        np.testing.assert_allclose(other.coefficients_, fitted.coefficients_, atol=1e-6)
        assert len(other.pairs_.X) == len(X)


def test_dissimilarities_are_pairs_of_two_weights(fitted):
    X, table = world()
    made = site_pairs(X, table)
    pairs, D = np.stack([X[made.i], X[made.j]], 1), 1 - made.y / made.trials
    found = pm.GDM().fit_pairs(
        np.concatenate([pairs, pairs]),
        np.repeat([1, 0], len(D)),
        sample_weight=np.append(1 - D, D) * np.tile(made.trials, 2),
    )
    np.testing.assert_allclose(found.coefficients_, fitted.coefficients_, atol=1e-6)


def test_dissimilarities_of_a_thousand_units_have_the_deviance_of_r():
    X, table = world()
    made = site_pairs(X, table)
    pairs, D = np.stack([X[made.i], X[made.j]], 1), 1 - made.y / made.trials
    flat = pm.GDM(prior_scale=1e3, intercept_scale=1e3)
    units = {"trials": np.full(len(D), 1000)}
    found = flat.fit_pairs(pairs, np.round(1000 * (1 - D)), **units)

    def deviance(P):
        return 2 * np.sum(xlogy(D, D / P) + xlogy(1 - D, (1 - D) / (1 - P)))

    want = 1 - deviance(found.pair_dissimilarity(pairs)) / deviance(D.mean())
    np.testing.assert_allclose(found.deviance_explained_, want, atol=1e-3)
    weights = {"sample_weight": np.append(1 - D, D)}
    halves = np.concatenate([pairs, pairs]), np.repeat([1, 0], len(D))
    alike = flat.fit_pairs(*halves, **weights)
    assert alike.deviance_explained_ < want / 2


def test_predictions_are_the_model(fitted):
    X, _ = world()
    pairs = np.stack([X[:10], X[10:20]], 1)
    t = (
        fitted.intercept_
        + np.abs(np.diff(fitted.transform(X[:20]), axis=0)).sum(1)[9:10]
    )
    first = np.stack([X[9:10], X[10:11]], 1)
    np.testing.assert_allclose(fitted.pair_dissimilarity(first), 1 - np.exp(-t))
    np.testing.assert_allclose(
        fitted.same_probability(pairs), 1 - fitted.pair_dissimilarity(pairs)
    )


def test_the_jackknife_is_the_default_of_intervals_and_stands_on_sites(fitted):
    made = fitted.posterior_metric("intervals")
    assert len(made.left_out) == len(fitted.pairs_.X)
    found = fitted.curves(made)
    assert np.all(found.lower <= found.s)
    assert np.all(found.s <= found.upper)
    with pytest.raises(ValueError, match="got 'jackknife'"):
        fitted.posterior_metric("prediction", method="jackknife")


def test_draws_of_the_bootstrap_are_stored_and_read_as_metrics(fitted, tmp_path):
    tree = fitted.sample("bootstrap", n_draws=20, n_chains=1)
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "feature", "spline")
    pm.save_draws(tree, tmp_path / "draws.nc")
    read = posterior_of(pm.load_draws(tmp_path / "draws.nc"))
    own = fitted.posterior_metric("intervals", draws=tree)
    assert read.source == own.source == "bootstrap"
    assert read.pairs_independent
    assert own.pairs_independent
    for a, b in zip(read.draws, own.draws, strict=True):
        np.testing.assert_array_equal(a.heights, b.heights)
    again = fitted.sample("bootstrap", n_draws=5, n_chains=1)["posterior"]["theta"]
    np.testing.assert_array_equal(tree["posterior"]["theta"][0, :5], again[0])


def test_pairs_that_share_no_site_are_left_out_and_weighted_whole():
    rng = np.random.default_rng(0)
    pairs = rng.uniform(size=(8, 2, 1))
    y, trials = rng.binomial(20, 0.5, size=8), np.full(8, 20)
    model = pm.GDM(knots=[[0.0, 0.5, 1.0]]).fit_pairs(pairs, y, trials=trials)
    made = model.posterior_metric("intervals")
    assert len(made.left_out) == 8
    assert "8 groups of pairs left out" in repr(made)

    def heights(weight):
        other = clone(model).fit_pairs(pairs, y, trials=trials, sample_weight=weight)
        return other.coefficients_

    order = np.argsort(np.minimum(model.pairs_.i, model.pairs_.j))
    for m, k in zip(made.left_out, order, strict=True):
        np.testing.assert_allclose(m.heights, heights(1.0 - np.eye(8)[k]), atol=1e-5)
    drawn = model.sample("bootstrap", n_draws=1, n_chains=1)["posterior"]["theta"]
    weight = np.empty(8)
    weight[order] = site_weights(8, 0)
    np.testing.assert_allclose(drawn[0, 0], heights(weight), atol=1e-5)
    # The two halves of a dissimilarity are one pair.
    weight = np.append(y / 20, 1 - y / 20)
    halves = np.concatenate([pairs, pairs]), np.repeat([1, 0], 8)
    made = clone(model).fit_pairs(*halves, sample_weight=weight)
    assert len(made.posterior_metric("intervals").left_out) == 8


@pytest.mark.long
def test_laplace_and_the_bootstrap_widen_in_that_order(fitted):
    width = {}
    for method in ("laplace", "bootstrap"):
        draws = fitted.posterior_metric("intervals", method=method, n_draws=800)
        narrow = method == "laplace"
        with pytest.warns(match="wrong width") if narrow else nullcontext():
            found = fitted.curves(draws)
        width[method] = found.upper[0, -1] - found.lower[0, -1]
    assert width["laplace"] < width["bootstrap"]


def test_curves_bear_the_names_of_columns(fitted):
    X, table = world()
    named = pm.GDM().fit_sites(pd.DataFrame(X, columns=["rain", "pH"]), table).curves()
    assert named.names == ("rain", "pH")
    assert fitted.curves().names is None
    titles = [axis.get_title("left") for axis in plots.curves(named).axes]
    assert [title.split(":")[0] for title in titles] == ["rain", "pH"]


LINE = np.arange(4.0)[:, None]
REFUSED = [
    lambda: pm.GDM(knots=[[0.0, 1.0]]).fit_sites(*world(n=10)),
    lambda: pm.GDM(knots=[[1.0, 0.0], [0.0, 1.0]]).fit_sites(*world(n=10)),
    lambda: pm.GDM().fit_sites(LINE, np.ones((4, 2))),
    lambda: pm.GDM().fit_sites(LINE, np.eye(4)),
    lambda: (
        pm.GDM()
        .fit_sites([[0.0], [1.0]], [[1, 1, 0], [0, 1, 1]])
        .posterior_metric("intervals")
    ),
    lambda: (
        pm.GDM()
        .fit_sites(LINE, np.tril(np.ones((4, 4))))
        .pair_distance(np.ones((1, 2, 2)))
    ),
]


def test_bad_input_is_refused():
    assert_refused(REFUSED, "estimators/gdm.txt")
