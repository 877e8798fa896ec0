"""Draws of a fitted ``TwoStageMixture``: units, labels, leave-one-out, refusals."""

import copy
from functools import partial

import arviz as az
import jax
import numpy as np
import pytest
from scipy.special import logit, logsumexp

import probmetric as pm
from probmetric import TwoStageMixture
from probmetric.data.containers import Groups
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.sampling.diagnostics import UNDETERMINED
from probmetric.inference.two_stage.groups import group_data, log_groups
from probmetric.models.two_stage import TwoStageParams, invariant, two_stage
from tests.dump import assert_refused

FIELDS = TwoStageParams._fields


@pytest.fixture(scope="module")
def sources():
    """60 sources of two instances from two components in d = 2, in unequal units."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 2)
    means = np.array([[0.0, 0.0], [6.0, 2.0]])[np.arange(60) % 2]
    x = means + rng.normal(size=(60, 2))
    X = x[group] + 0.4 * rng.normal(size=(120, 2))
    return X * [1.0, 100.0], group


@pytest.fixture(scope="module")
def model(sources):
    return TwoStageMixture(2).fit(sources[0], groups=sources[1])


@pytest.fixture(scope="module")
def draws(model):
    return model.sample("laplace", n_draws=200, n_chains=1, log_likelihood=True, seed=2)


def components(draws):
    parts = draws["components"].dataset
    return TwoStageParams(*(parts[name].to_numpy()[0] for name in FIELDS))


@pytest.mark.long
def test_posterior_holds_what_carries_no_label_and_components_follow_the_fit(
    model, draws
):
    names = {"mean", "within_average", "covariance_total"}
    assert set(draws["posterior"].data_vars) == names
    params = components(draws)
    for name in FIELDS:
        drawn, fitted = getattr(params, name), getattr(model, f"{name}_")
        gap = np.abs(drawn.mean(0) - fitted) / drawn.std(0)
        assert gap.max() < 2, name  # a mode is not a mean; in posterior sd
    for s in (0, 199):
        own = invariant(TwoStageParams(*(a[s] for a in params)))
        for name in names:
            got = draws["posterior"][name].to_numpy()[0, s]
            np.testing.assert_allclose(got, own[name], rtol=1e-9)


@pytest.mark.long
def test_pointwise_likelihood_is_in_input_units(sources, draws):
    X, group = sources
    params, data = components(draws), group_data(Groups(X, group))
    with jax.enable_x64(True):
        wanted = [
            logsumexp(log_groups(TwoStageParams(*(a[s] for a in params)), data), -1)
            for s in (0, 7)
        ]
    got = draws["log_likelihood"]["x"]
    assert got.dims == ("chain", "draw", "source")
    np.testing.assert_allclose(got.to_numpy()[0, [0, 7]], wanted, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:loo")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_leave_one_out_takes_sources(draws):
    assert UNDETERMINED not in draws.attrs  # More sources than features: diagnostics.
    tree = draws.copy()
    tree.attrs = {**draws.attrs, "method": "nuts"}  # Of an approximation it is refused.
    found = pm.loo(tree)
    assert found.n_data_points == 60
    assert found.elpd == az.loo(tree).elpd


@pytest.mark.long
def test_posterior_metric_is_made_of_the_draws(model, draws, sources):
    metric = model.posterior_metric("intervals", draws=draws, n_draws=20)
    assert metric.n_draws == 20
    assert metric.source == "laplace"
    X = sources[0]
    A, B = X[0:40:2], X[1:41:2]
    params = components(draws)
    first = TwoStageParams(*(a[0] for a in params))
    np.testing.assert_allclose(metric.draw(0).noise, first.within)
    p = metric.same_probability(A, B)
    point = model.same_probability(np.stack([A, B], 1))
    assert np.abs(p - point).max() < 0.25
    low, high = metric.interval(A, B)[:2]
    plain = copy.deepcopy(model).set_params(calibration=None)
    dissimilarity = -plain.pair_score(np.stack([A, B], 1))
    assert np.mean((low <= dissimilarity) & (dissimilarity <= high)) > 0.8
    low, high = metric.same_interval(A, B)[:2]  # Calibrated as the estimator.
    assert np.mean((low <= point) & (point <= high)) > 0.8
    even, rare = (metric.same_interval(A, B, prior_odds=o).lower for o in (1.0, 0.01))
    np.testing.assert_allclose(logit(even) - logit(rare), np.log(100), rtol=1e-6)
    quiet = copy.deepcopy(model).set_params(database_noise=0.5)
    half = quiet.posterior_metric("prediction", draws=draws, n_draws=2).draw(0)
    np.testing.assert_allclose(half.noise_other, 0.5 * half.noise)


@pytest.mark.long
def test_generic_sample_takes_groups_as_they_come(sources):
    X = (sources[0] - sources[0].mean(0)) / sources[0].std(0)
    tree = pm.sample(
        two_stage,
        Groups(X, sources[1]),
        method="laplace",
        prior=default_prior(X, 1),
        options={"n_components": 1},
        seed=0,
        n_chains=1,
        n_draws=200,
        log_likelihood=True,
    )
    assert tree["log_likelihood"]["x_2"].shape == (1, 200, 60)
    assert tree["constant_data"]["group"].shape == (120,)
    assert tree.attrs["khat"] < 0.7
    np.testing.assert_allclose(
        tree["posterior"]["covariance_total"].mean(("chain", "draw")),
        np.cov(X.T),
        atol=0.25,
    )


@pytest.mark.long
def test_what_cannot_be_sampled_is_refused_by_name(sources, model):
    X, _ = sources
    pairs = X.reshape(60, 2, 2)
    changed = [
        TwoStageMixture(prior="flat").fit(X),
        TwoStageMixture((1, 2), blend="flat").fit(X),
        TwoStageMixture().partial_fit(X).partial_fit(X),
        copy.deepcopy(model).fit_alpha(pairs),
    ]
    calls = [partial(fitted.sample, "laplace") for fitted in changed]
    calls.append(lambda: model.sample("bootstrap"))
    calls.append(lambda: model.posterior_metric("votes"))
    calls.append(lambda: model.sample("laplace", n_draws=0))
    assert_refused(calls, "estimators/two_stage_sampling.txt")
