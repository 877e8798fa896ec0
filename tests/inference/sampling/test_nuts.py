"""``sample`` by NUTS against conjugate posteriors, and what it promises besides."""

import json
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from probmetric.checks.compare import compare
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.warnings import SamplingWarning
from tests.inference.sampling.problems import (
    PRIOR,
    normal_model,
    normal_posterior,
    points,
    positive_model,
)

SHORT = NUTS(n_warmup=400)


@pytest.fixture(scope="module")
def tree():
    """One run that several tests read."""
    return sample(
        normal_model,
        points(),
        prior=PRIOR,
        seed=0,
        n_draws=1500,
        method=SHORT,
        log_likelihood=True,
        feature_names=["ash", "hue"],
        dims={"mu": ["feature"], "square": ["feature"]},
    )


@pytest.mark.long
def test_nuts_agrees_with_a_conjugate_posterior(tree):
    mean, variance = normal_posterior(points(), 2.0)
    reference = {"mu": mean, "square": mean**2 + variance}
    assert compare(reference, tree).attrs["verdict"] == "agree"


@pytest.mark.long
def test_nuts_disagrees_with_a_posterior_under_a_wrong_noise(tree):
    mean, variance = normal_posterior(points(), 2.0, noise=1.5)
    wrong = {"mu": mean, "square": mean**2 + variance}
    assert compare(wrong, tree).attrs["verdict"] == "disagree"


def test_the_same_seed_gives_the_same_draws(tree):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        a, b, c = (
            sample(
                normal_model,
                points(),
                prior=PRIOR,
                seed=s,
                n_draws=5,
                method=SHORT,
            )
            for s in (1, 1, 2)
        )
    assert np.array_equal(a["posterior"]["mu"], b["posterior"]["mu"])
    assert not np.array_equal(a["posterior"]["mu"], c["posterior"]["mu"])


def test_the_result_is_float64_and_no_global_flag_is_touched(tree):
    assert tree["posterior"]["mu"].dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.long
def test_float32_is_computed_when_asked_for():
    run = {"prior": PRIOR, "seed": 0, "n_draws": 1000, "method": SHORT}
    single = sample(normal_model, points(), dtype="float32", **run)
    assert single["posterior"]["mu"].dtype == np.float32
    mean, _ = normal_posterior(points(), 2.0)
    assert compare({"mu": mean}, single).attrs["verdict"] == "agree"


def test_sample_statistics_are_kept_per_chain_and_draw(tree):
    statistics = tree["sample_stats"].to_dataset()
    assert {"n_steps", "energy", "acceptance_rate", "diverging"} <= set(
        statistics.data_vars
    )
    assert statistics["n_steps"].shape == (4, 1500)
    # Every draw costs at least one gradient; the step size was adapted to 0.8.
    assert int(statistics["n_steps"].min()) >= 1
    assert 0.7 < float(statistics["acceptance_rate"].mean()) < 0.98


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


@pytest.mark.long
def test_a_site_on_the_positive_line_keeps_its_jacobian():
    counts = np.array([3, 1, 4])
    draws = sample(positive_model, counts, seed=0, n_draws=1500, method=SHORT)
    shape, rate = 2 + counts.sum(), 1 + len(counts)
    reference = {"rate": shape / rate}
    assert compare(reference, draws).attrs["verdict"] == "agree"
    without_jacobian = {"rate": (shape - 1) / rate}
    assert compare(without_jacobian, draws).attrs["verdict"] == "disagree"


def test_only_identified_quantities_are_judged():
    run = {"prior": PRIOR, "seed": 1, "n_draws": 5, "method": SHORT}
    with pytest.warns(SamplingWarning) as caught:
        sample(normal_model, points(), identified=["square"], **run)
    assert all("square" in str(w.message) for w in caught)
    assert not any("mu[" in str(w.message) for w in caught)
    with pytest.raises(ValueError, match="identified must"):
        sample(normal_model, points(), identified=["nu"], **run)


@pytest.mark.slow
def test_false_alarms_of_nuts_and_compare_together_keep_their_level():
    # 30 data sets, 4 entries each, nominal 0.05; this test's own rate is below 1e-3.
    alarms = 0
    for seed in range(30):
        data = points(seed=100 + seed)
        mean, variance = normal_posterior(data, 2.0)
        reference = {"mu": mean, "square": mean**2 + variance}
        draws = sample(normal_model, data, prior=PRIOR, seed=seed, method=SHORT,
                       n_draws=1500)  # fmt: skip
        table = compare(reference, draws, alpha=0.05)
        assert table.attrs["verdict"] != "inconclusive"
        alarms += table.attrs["verdict"] == "disagree"
    assert alarms <= binom.isf(1e-3, 30, 0.05)
