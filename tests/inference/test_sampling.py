"""``sample`` against posteriors known in closed form, and what it promises besides."""

import json
import warnings
from typing import NamedTuple

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import binom

from probmetric.data import Points
from probmetric.inference.agreement import compare, distance
from probmetric.inference.sampling import (
    Gaussian,
    SamplingWarning,
    Target,
    laplace_fit,
    nuts,
    sample,
)
from probmetric.inference.sampling_report import progress_bar, warn_of_trouble

TRACES = []


class Prior(NamedTuple):
    """Prior variance, an array so that it is an argument of the compiled code."""

    variance: object


def normal_model(data, prior, *, noise=1.0, batch=None):
    """mu ~ N(0, variance I); X[n] ~ N(mu, noise²)."""
    TRACES.append(None)
    d = data.X.shape[1]
    scale = jnp.sqrt(prior.variance)
    mu = numpyro.sample("mu", dist.Normal(jnp.zeros(d), scale).to_event(1))
    numpyro.deterministic("square", mu**2)
    with numpyro.plate("n", len(data.X), subsample_size=batch) as i:
        numpyro.sample("x", dist.Normal(mu, noise).to_event(1), obs=data.X[i])


def positive_model(data):
    """rate ~ Gamma(2, 1); counts ~ Poisson(rate): a site with a bijection."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    numpyro.sample(
        "count", dist.Poisson(rate).expand([len(data)]).to_event(1), obs=data
    )


def gaussian_density(position, data):
    """N(m, S) over a pytree of two leaves, with data (m, precision)."""
    delta = jnp.concatenate([position["a"], position["b"][None]]) - data[0]
    return -0.5 * delta @ data[1] @ delta


def gaussian_report(position, data):
    return {"a": position["a"], "b": position["b"]}


GAUSSIAN = Target(gaussian_density, gaussian_report)
POSITION = {"a": np.zeros(2), "b": np.zeros(())}


def gaussian_data(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3))
    return rng.normal(size=3), A @ A.T + 0.3 * np.eye(3)


def points(seed=0, n=20, d=2):
    return Points(np.random.default_rng(seed).normal(1.0, 1.0, size=(n, d)))


def normal_posterior(data, variance, noise=1.0):
    precision = 1 / variance + len(data.X) / noise**2
    return data.X.sum(0) / noise**2 / precision, 1 / precision


PRIOR = Prior(np.asarray(2.0))


@pytest.fixture(scope="module")
def tree():
    """One run that several tests read."""
    return sample(
        normal_model,
        points(),
        prior=PRIOR,
        seed=0,
        n_draws=1500,
        n_warmup=400,
        log_likelihood=True,
        feature_names=["ash", "hue"],
        dims={"mu": ["feature"], "square": ["feature"]},
    )


def test_nuts_agrees_with_a_conjugate_posterior(tree):
    mean, variance = normal_posterior(points(), 2.0)
    reference = {"mu": mean, "square": mean**2 + variance}
    assert compare(reference, tree).attrs["verdict"] == "agree"


def test_nuts_disagrees_with_a_posterior_under_a_wrong_noise(tree):
    mean, variance = normal_posterior(points(), 2.0, noise=1.5)
    wrong = {"mu": mean, "square": mean**2 + variance}
    assert compare(wrong, tree).attrs["verdict"] == "disagree"


def test_a_refit_with_equal_shapes_compiles_nothing(tree):
    TRACES.clear()
    again = {
        "prior": Prior(np.asarray(3.0)),
        "seed": 5,
        "n_draws": 1300,
        "n_warmup": 400,
    }
    target_traces = []
    refit = sample(normal_model, points(seed=9), **again)
    target_traces = len(TRACES)
    # The model runs twice outside the compiled code: for its shapes, for its data.
    assert target_traces == 2
    assert refit["posterior"].sizes["draw"] == 1300


def test_the_same_seed_gives_the_same_draws(tree):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        a, b, c = (
            sample(normal_model, points(), prior=PRIOR, seed=s, n_draws=5, n_warmup=400)
            for s in (1, 1, 2)
        )
    assert np.array_equal(a["posterior"]["mu"], b["posterior"]["mu"])
    assert not np.array_equal(a["posterior"]["mu"], c["posterior"]["mu"])


def test_the_result_is_float64_and_no_global_flag_is_touched(tree):
    assert tree["posterior"]["mu"].dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32


def test_float32_is_computed_when_asked_for():
    single = sample(normal_model, points(), prior=PRIOR, seed=0, dtype="float32")
    assert single["posterior"]["mu"].dtype == np.float32
    mean, _ = normal_posterior(points(), 2.0)
    assert compare({"mu": mean}, single).attrs["verdict"] == "agree"


def test_sample_statistics_are_kept_per_chain_and_draw(tree):
    statistics = tree["sample_stats"].to_dataset()
    assert {"num_steps", "energy", "accept_prob", "diverging"} <= set(
        statistics.data_vars
    )
    assert statistics["num_steps"].shape == (4, 1500)
    # Every draw costs at least one gradient; the step size was adapted to 0.8.
    assert int(statistics["num_steps"].min()) >= 1
    assert 0.7 < float(statistics["accept_prob"].mean()) < 0.98


def test_log_likelihood_is_that_of_every_observation(tree):
    at = {"chain": 1, "draw": 7}
    mu = tree["posterior"]["mu"].isel(at).to_numpy()
    expected = -0.5 * np.sum((points().X - mu) ** 2, 1) - np.log(2 * np.pi)
    actual = tree["log_likelihood"]["x"].isel(at).to_numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_provenance_names_versions_seed_method_and_arguments(tree):
    attributes = tree.attrs
    assert attributes["seed"] == 0
    assert attributes["method"] == "nuts"
    assert len(attributes["data_hash"]) == 64
    assert attributes["sum_of_weights"] == 20.0
    assert json.loads(attributes["model_arguments"])["prior"] == [2.0]
    assert {"jax_version", "numpyro_version", "probmetric_version"} <= set(attributes)


def test_coordinates_are_the_features_and_the_data_are_kept(tree):
    assert tree["posterior"]["mu"].coords["feature"].to_numpy().tolist() == [
        "ash",
        "hue",
    ]
    np.testing.assert_array_equal(tree["observed_data"]["x"], points().X)
    assert tree["constant_data"]["X"].dims == ("point", "feature")


def test_a_netcdf_file_gives_the_tree_back(tree, tmp_path):
    path = tmp_path / "draws.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    back = az.from_netcdf(path)
    back.load()
    back.close()
    assert tree.identical(back)


def test_a_site_on_the_positive_line_keeps_its_jacobian():
    counts = np.array([3, 1, 4])
    draws = sample(positive_model, counts, seed=0, n_draws=1500, n_warmup=400)
    shape, rate = 2 + counts.sum(), 1 + len(counts)
    reference = {"rate": shape / rate}
    assert compare(reference, draws).attrs["verdict"] == "agree"
    without_jacobian = {"rate": (shape - 1) / rate}
    assert compare(without_jacobian, draws).attrs["verdict"] == "disagree"


def test_a_target_is_sampled_from_its_laplace_approximation_with_a_short_warm_up(
    x64,
):
    data = gaussian_data()
    start = laplace_fit(GAUSSIAN, data, POSITION)
    draws = sample(GAUSSIAN, data, start=start, seed=1)
    reference = {"a": data[0][:2], "b": data[0][2]}
    assert compare(reference, draws).attrs["verdict"] == "agree"
    # The exact inverse mass matrix makes the target round: few steps a draw.
    assert float(draws["sample_stats"]["num_steps"].mean()) < 5


def test_laplace_of_a_gaussian_is_exact_and_says_so(x64):
    data = gaussian_data()
    draws = sample(
        GAUSSIAN, data, start=POSITION, method="laplace", seed=0, n_draws=5000
    )
    posterior = draws["posterior"]
    x = np.c_[posterior["a"][0].to_numpy(), posterior["b"][0].to_numpy()]
    covariance = np.linalg.solve(data[1], np.eye(3))
    error = np.sqrt(np.diag(covariance) / len(x))
    # Five standard errors of three means; k-hat of equal weights is far below 0.
    assert np.all(np.abs(x.mean(0) - data[0]) < 5 * error)
    spread = 5 * covariance.max() * np.sqrt(2 / len(x))
    np.testing.assert_allclose(np.cov(x.T), covariance, atol=spread)
    assert draws.attrs["khat"] < 0.5
    assert draws["posterior"].attrs["khat"] == draws.attrs["khat"]


def test_the_k_hat_of_a_far_too_narrow_gaussian_is_large(x64):
    data = gaussian_data()
    good = laplace_fit(GAUSSIAN, data, POSITION)
    narrow = Gaussian(good.mean, 0.2 * good.factor)
    draws = sample(GAUSSIAN, data, start=narrow, method="laplace", seed=0)
    assert draws.attrs["khat"] > 0.7


def flat_density(position, data):
    return -0.5 * jnp.sum(position[:1] ** 2) + 0 * data


def test_laplace_refuses_a_posterior_that_is_flat_along_a_direction(x64):
    target = Target(flat_density, lambda position, data: {"x": position})
    with pytest.raises(ValueError, match="curves downwards"):
        laplace_fit(target, np.zeros(()), np.ones(2))


def test_svi_of_a_conjugate_normal_is_close_to_it(tree):
    draws = sample(normal_model, points(), prior=PRIOR, method="svi", seed=0,
                   sampler={"n_steps": 2000})  # fmt: skip
    table = distance(tree["posterior"].to_dataset()[["mu"]], draws)
    assert float(np.abs(table["shift"]).max()) < 0.2
    assert float(np.abs(table["log_sd_ratio"]).max()) < 0.2
    assert draws.attrs["khat"] < 0.7
    assert {"mu", "square"} <= set(draws["posterior"].data_vars)


@pytest.mark.parametrize("method", ["nuts", "laplace"])
def test_a_subsample_is_refused_by_what_would_keep_it_for_ever(method):
    with pytest.raises(ValueError, match="options: wanted the full data"):
        sample(normal_model, points(), prior=PRIOR, seed=0, options={"batch": 5},
               method=method)  # fmt: skip


@pytest.mark.slow
def test_svi_takes_a_subsample_and_keeps_the_whole_data():
    options = {"batch": 5}
    draws = sample(normal_model, points(), prior=PRIOR, seed=0, options=options,
                   method="svi", n_draws=50, sampler={"n_steps": 40})  # fmt: skip
    assert draws["observed_data"]["x"].shape == (20, 2)


def subsampled(data):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", len(data), subsample_size=2) as i:
        numpyro.sample("x", dist.Normal(mu, 1.0), obs=data[i])


def discrete(data):
    numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(0.0, 1.0), obs=data)


def nothing_observed(data):
    numpyro.sample("mu", dist.Normal(0.0, 1.0))


def never_finite(position, data):
    return jnp.sum(jnp.log(-(position**2))) + data


X = np.zeros(3)
BAD = {
    "subsample": (lambda: sample(subsampled, X, seed=0), "model: .*'n'.*subsample"),
    "discrete": (lambda: sample(discrete, X, seed=0), "model: .*discrete 'k'"),
    "nothing": (lambda: sample(nothing_observed, X, seed=0), "model: .*observed"),
    "method": (lambda: sample(subsampled, X, seed=0, method="gibbs"), "method: wanted"),
    "sampler": (
        lambda: sample(subsampled, X, seed=0, sampler={"n_step": 3}),
        "sampler: wanted arguments of 'nuts' among .*'n_step'",
    ),
    "start": (lambda: sample(GAUSSIAN, X, seed=0), "start: wanted"),
    "likelihood": (
        lambda: sample(GAUSSIAN, X, seed=0, start=X, log_likelihood=True),
        "log_likelihood: wanted",
    ),
    "draws": (lambda: nuts(GAUSSIAN, X, start=X, seed=0, n_draws=0), "n_draws: wanted"),
    "accept": (
        lambda: nuts(GAUSSIAN, X, start=X, seed=0, target_accept=1.0),
        "target_accept: wanted",
    ),
    "dtype": (lambda: nuts(GAUSSIAN, X, start=X, seed=0, dtype="f"), "dtype: wanted"),
    "guide": (
        lambda: sample(normal_model, points(), prior=PRIOR, seed=0, method="svi",
                       sampler={"guide": "AutoDelta"}),
        "guide: wanted",
    ),
    "names": (
        lambda: sample(normal_model, points(), prior=PRIOR, seed=0, method="laplace",
                       feature_names=["a"]),
        "feature_names: wanted",
    ),
    "dims": (
        lambda: sample(normal_model, points(), prior=PRIOR, seed=0, method="laplace",
                       dims={"nu": ["feature"]}),
        "dims: wanted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_the_name_of_its_argument(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_target_without_a_finite_starting_point_is_refused():
    target = Target(never_finite, lambda position, data: {"x": position})
    with pytest.raises(ValueError, match="start: wanted a point of finite density"):
        nuts(target, np.zeros(()), start=X, seed=0)


def test_only_identified_quantities_are_judged():
    run = {"prior": PRIOR, "seed": 1, "n_draws": 5, "n_warmup": 400}
    with pytest.warns(SamplingWarning) as caught:
        sample(normal_model, points(), identified=["square"], **run)
    assert all("square" in str(w.message) for w in caught)
    assert not any("mu[" in str(w.message) for w in caught)
    with pytest.raises(ValueError, match="identified: wanted"):
        sample(normal_model, points(), identified=["nu"], **run)


@pytest.mark.parametrize(
    "values, diverging, message",
    [
        (np.arange(2000.0).reshape(2, 1000), False, "R-hat above 1.01 for M"),
        (np.repeat(np.random.default_rng(0).normal(size=(2, 20)), 50, 1), False,
         "effective sample size below 200 for M"),
        (np.random.default_rng(0).normal(size=(2, 1000)), True, "2000 of 2000 draws"),
        (np.full((2, 1000), np.nan), False, "draws of M are not all finite"),
    ],
)  # fmt: skip
def test_trouble_is_warned_of_by_name(values, diverging, message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_trouble({"M": values}, {"diverging": np.full((2, 1000), diverging)})
    assert all(w.category is SamplingWarning for w in caught)
    assert any(message in str(w.message) for w in caught)


def test_good_draws_raise_no_warning():
    values = np.random.default_rng(0).normal(size=(4, 1000, 3))
    warn_of_trouble({"M": values}, {"diverging": np.zeros((4, 1000), bool)})


def test_a_progress_bar_is_silent_unless_watched_or_asked_for(capfd):
    list(progress_bar(range(3), "quiet", None))
    assert capfd.readouterr().err == ""
    list(progress_bar(range(3), "loud", True))
    assert "loud" in capfd.readouterr().err


def test_chains_side_by_side_are_the_same_chains(x64):
    data = gaussian_data()
    run = dict(start=POSITION, seed=3, n_draws=25, n_warmup=60, warn=False)
    one = nuts(GAUSSIAN, data, **run)
    side = nuts(GAUSSIAN, data, vectorized=True, **run)
    # Equal up to rounding, which chaotic trajectories enlarge: the first draws.
    np.testing.assert_allclose(
        one.values["a"][:, :3], side.values["a"][:, :3], rtol=1e-5
    )


def test_the_block_size_does_not_change_the_draws(x64):
    data = gaussian_data()
    run = dict(start=POSITION, seed=3, n_draws=25, n_warmup=60, warn=False)
    one = nuts(GAUSSIAN, data, block_size=100, **run)
    cut = nuts(GAUSSIAN, data, block_size=7, **run)
    np.testing.assert_array_equal(one.values["a"], cut.values["a"])


def test_start_positions_are_over_dispersed(x64):
    from probmetric.inference.sampling_kernel import Settings, init

    data = gaussian_data()
    start = laplace_fit(GAUSSIAN, data, POSITION)
    keys = jax.random.split(jax.random.key(0), 400)
    state = init(GAUSSIAN, Settings(10, dense=True), keys, start, data)
    sd = np.std(np.asarray(state.z["b"]))
    # Twice the posterior's, within five standard errors (5 / √800).
    expected = 2 * np.sqrt(np.linalg.solve(data[1], np.eye(3))[2, 2])
    assert abs(sd / expected - 1) < 5 / np.sqrt(800)


@pytest.mark.slow
def test_false_alarms_of_nuts_and_compare_together_keep_their_level():
    # 60 data sets, 4 entries each, nominal 0.05; this test's own rate is below 1e-3.
    alarms = 0
    for seed in range(60):
        data = points(seed=100 + seed)
        mean, variance = normal_posterior(data, 2.0)
        reference = {"mu": mean, "square": mean**2 + variance}
        draws = sample(normal_model, data, prior=PRIOR, seed=seed, n_warmup=400,
                       n_draws=1500)  # fmt: skip
        table = compare(reference, draws, alpha=0.05)
        assert table.attrs["verdict"] != "inconclusive"
        alarms += table.attrs["verdict"] == "disagree"
    assert alarms <= binom.isf(1e-3, 60, 0.05)
