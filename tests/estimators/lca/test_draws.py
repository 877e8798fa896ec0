"""Draws of a fitted ``LCA``: units, purposes, refusals."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from probmetric.estimators.lca.estimator import LCA
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.posterior.jackknife import quarters
from tests.dump import assert_refused

# So few that all pairs are padded to as many as the fitted ones.
X, y = make_blobs(44, 2, centers=2, cluster_std=4.0, random_state=0)
X = X * [1.0, 50.0]


@pytest.fixture(scope="module")
def fitted():
    frame = pd.DataFrame(X, columns=["short", "long"])
    return LCA().fit(frame, y)


@pytest.fixture(scope="module")
def laplace(fitted):
    return fitted.sample("laplace", n_draws=500, n_chains=2, seed=1)


def test_tree_names_features_and_says_where_it_came_from(laplace, fitted):
    M = laplace["posterior"]["M"]
    assert M.dims == ("chain", "draw", "feature", "feature_bis")
    assert M.coords["feature"].values.tolist() == ["short", "long"]
    assert laplace.attrs["learning_rate"] == pytest.approx(fitted.learning_rate_)
    assert laplace.attrs["sum_of_weights"] == len(fitted.fitted_.pairs.i)
    assert laplace.attrs["method"] == "laplace"
    assert np.isfinite(laplace.attrs["khat"])
    np.testing.assert_allclose(laplace["constant_data"]["X"], X, rtol=1e-12)
    np.testing.assert_array_equal(laplace["observed_data"]["y"], fitted.fitted_.pairs.y)


def test_draws_scatter_about_the_fit_in_input_units(laplace, fitted):
    M = laplace["posterior"]["M"].values.reshape(-1, 2, 2)
    ratio = M / fitted.get_mahalanobis_matrix()
    # Units 50 apart: a draw left in standard units would be off by 2500 here.
    assert 0.5 < np.median(ratio[:, 0, 0]) < 2
    assert 0.5 < np.median(ratio[:, 1, 1]) < 2
    b = laplace["posterior"]["b"].values
    assert b.min() < fitted.intercept_ < b.max()


@pytest.mark.slow
def test_nuts_agrees_with_a_sampler_of_the_numpyro_model(fitted):
    from numpyro.infer import MCMC, NUTS

    from probmetric.models.lca import lca

    tree = fitted.sample("nuts", n_draws=2000, n_chains=2, seed=0, progress=False)
    pairs, prior = fitted.fitted_.pairs, fitted.fitted_.prior
    with jax.enable_x64(True):
        mcmc = MCMC(NUTS(lca), num_warmup=500, num_samples=4000, progress_bar=False)
        mcmc.run(jax.random.key(5), pairs, prior, learning_rate=fitted.learning_rate_)
        reference = mcmc.get_samples()
    M = tree["posterior"]["M"].values.reshape(-1, 2, 2) * np.outer(
        fitted.scale_, fitted.scale_
    )
    for entry in [(0, 0), (0, 1), (1, 1)]:
        ours, theirs = M[:, *entry], np.asarray(reference["M"])[:, *entry]
        # Both sides have ESS ≥ 1000 here: 5 Monte Carlo errors of their difference.
        error = np.hypot(ours.std(), theirs.std()) / np.sqrt(1000)
        assert abs(ours.mean() - theirs.mean()) < 5 * error


@pytest.fixture(scope="module", autouse=True)
def few_refits():
    """Divide the points into quarters only twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probmetric.posterior.jackknife.REPEATS", 2)
        yield


@pytest.fixture(scope="module")
def intervals(fitted, few_refits):
    return fitted.posterior_metric("intervals")


@pytest.mark.long
def test_intervals_belong_to_the_fit_and_contain_its_distances(fitted, intervals):
    assert (intervals.source, len(intervals.left_out)) == ("jackknife", 8)
    assert "the fit of 44 points" in repr(intervals)
    A, B = X[:20], X[20:40]
    distance = fitted.pair_distance(np.stack([A, B], 1))
    np.testing.assert_array_equal(intervals.distance(A, B), distance)
    low, high = intervals.interval(A, B)
    assert np.all((low < distance) & (distance < high))
    narrow = intervals.interval(A, B, prob=0.5)
    assert np.all((low < narrow.lower) & (narrow.upper < high))


@pytest.mark.long
@pytest.mark.parametrize("name", ["prior mean", "lam"])
def test_refits_are_fits_to_the_other_points_that_choose_again(name):
    lam = {"regularization": "evidence", "n_components": 1}
    settings = {"prior mean": {}, "lam": lam}
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(32, 3)) * [2.25, 1.5, 1.0], np.arange(32) % 2
    rows[:, 2] += 1.5 * y
    lca = LCA(**settings[name]).fit(rows, y)
    made = lca.posterior_metric("intervals")
    chosen = set()
    for k, rest in enumerate(quarters(lca.fitted_.pairs.X, y)):
        wanted = LCA(**settings[name]).fit(rows[rest], y[rest])
        chosen.add((wanted.prior_mean_, wanted.regularization_))
        found, A, B = made.left_out[k], rows[:8], rows[8:16]
        distance = wanted.pair_distance(np.stack([A, B], 1))
        np.testing.assert_allclose(found.distance(A, B), distance, rtol=1e-5)
        assert found.link is None
    assert len(chosen) > 1


@pytest.mark.long
def test_intervals_do_not_depend_on_the_order_of_rows(intervals):
    order = np.random.default_rng(1).permutation(len(X))
    moved = LCA().fit(X[order], y[order]).posterior_metric("intervals")
    found = moved.interval(X[:8], X[8:16])
    np.testing.assert_allclose(found, intervals.interval(X[:8], X[8:16]), rtol=1e-6)


@pytest.mark.long
def test_all_pairs_are_a_target_with_distances_of_their_own(fitted):
    made = fitted.posterior_metric("intervals", target="all_pairs")
    own = LCA(pairs="all", learning_rate=1, regularization=1).fit(X, y)
    assert "all pairs, λ = 1 of 44 points" in repr(made)
    distance = own.pair_distance(np.stack([X[:8], X[8:16]], 1))
    np.testing.assert_allclose(made.distance(X[:8], X[8:16]), distance, rtol=1e-5)


def test_options_of_draws_and_of_the_jackknife_exclude_each_other(fitted):
    with pytest.raises(ValueError, match="n_draws must be None for the jackknife"):
        fitted.posterior_metric("intervals", n_draws=20)
    with pytest.raises(ValueError, match="method must be a sampler, got 'jackknife'"):
        fitted.posterior_metric("prediction", method="jackknife")
    with pytest.raises(ValueError, match="target='all_pairs' requires purpose="):
        fitted.posterior_metric("prediction", target="all_pairs")


def test_after_labels_intervals_come_only_from_the_jackknife(fitted):
    with pytest.raises(ValueError, match=r"got 'laplace'\. Omit method\."):
        fitted.posterior_metric("intervals", method="laplace")


def test_intervals_from_draws_after_labels_warn(fitted, laplace):
    metric = fitted.posterior_metric("intervals", draws=laplace)
    with pytest.warns(UserWarning, match="have a wrong width"):
        metric.interval(X[:4], X[4:8])
    assert metric.neighbor_probability(X[:4], X, 3).sum() == pytest.approx(12)


@pytest.mark.long
def test_intervals_after_labels_have_no_link(intervals):
    for ask in (intervals.same_probability, intervals.same_interval):
        with pytest.raises(ValueError, match="same_probability of the learner"):
            ask(X[:4], X[4:8])


BAD = {
    "method": {"method": "em"},
    "n_draws": {"n_draws": 0},
    "rate": {"learning_rate": -1},
    "chains": {"n_chains": 0},
}


def test_bad_sampling_arguments_are_refused_by_name(fitted):
    calls = [partial(fitted.sample, **arguments) for arguments in BAD.values()]
    calls.append(partial(fitted.posterior_metric, "plots"))
    assert_refused(calls, "estimators/lca_sampling.txt")


def test_unknown_purposes_are_refused(fitted):
    with pytest.raises(ValueError, match="purpose must be one of 'prediction'"):
        fitted.posterior_metric("plots")


def test_a_sampler_with_settings_is_taken_in_place_of_its_name(fitted, tmp_path):
    run = {"n_draws": 3, "n_chains": 1, "seed": 1}

    def M(method):
        return fitted.sample(method, **run)["posterior"]["M"].values

    np.testing.assert_array_equal(M("laplace"), M(Laplace()))
    kept = M(NUTS(n_warmup=5, checkpoint=tmp_path))
    np.testing.assert_array_equal(M(NUTS(n_warmup=5)), kept)
    assert any(tmp_path.iterdir())


def test_draws_stand_for_the_metrics_of_the_purpose_asked_for(fitted, laplace):
    made = fitted.posterior_metric("prediction", draws=laplace, n_draws=10)
    assert (made.source, made.n_draws, made.pairs_independent) == ("laplace", 10, False)
    first = made.draw(0)
    M = laplace["posterior"]["M"].values[0, 0]
    np.testing.assert_allclose(first.factor.T @ first.factor, M, rtol=1e-9)


def test_each_regularisation_keeps_its_blocks_in_a_folder_of_its_own(fitted, tmp_path):
    method = NUTS(n_warmup=5, checkpoint=tmp_path)
    kept = fitted.posterior_metric("prediction", method=method, n_draws=2)
    again = replace(method, resume=True)
    resumed = fitted.posterior_metric("prediction", method=again, n_draws=2)
    assert {path.name for path in tmp_path.iterdir()} == {"lam_1", "lam_10", "lam_100"}
    np.testing.assert_array_equal(kept.draw(1).factor, resumed.draw(1).factor)
