"""``compare`` and ``distance``: their errors happen as often as they say."""

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base.array import array_stats
from scipy import signal, stats

from probmetric.checks.compare import compare, distance, without_skew
from probmetric.checks.summary import summarize


def dataset(**arrays):
    """Draws whose axes after chain and draw get names of their own."""
    return xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{i}" for i in range(a.ndim - 2))), a)
            for name, a in arrays.items()
        }
    )


def autoregressive(rng, rho, shape):
    """Stationary AR(1) chains with unit variance: (chain, draw, entries)."""
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    noise[:, 0] = rng.normal(size=(shape[0], *shape[2:]))
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.fixture
def rng():
    return np.random.default_rng(2)


@pytest.mark.long
def test_family_wise_false_alarms_on_autoregressive_draws_keep_their_level(rng):
    # Nominal 0.05 over 8 entries; ESS of the mean about 1300. Squares as well.
    alpha, n_runs, alarms = 0.05, 100, 0
    for _ in range(n_runs):
        x = autoregressive(rng, 0.5, (4, 1000, 4))
        draws = dataset(x=x, square=x**2)
        table = compare({"x": np.zeros(4), "square": np.ones(4)}, draws, alpha=alpha)
        alarms += table.attrs["verdict"] == "disagree"
    # This test's own false-alarm rate is below 1e-3.
    assert alarms <= stats.binom.isf(1e-3, n_runs, alpha)


def tails(z):
    """Shares of z below -2.58 and above 2.58."""
    return np.mean(z < -2.576), np.mean(z > 2.576)


@pytest.mark.long
def test_both_tails_of_a_skewed_mean_are_nearly_those_of_a_normal_one(rng):
    # Of means of 400 log-normals. Nominal .5 % each; without Eq. (2) it is 1.8 % and
    # .07 %. Standard errors .05 % to .09 %.
    x = np.exp(rng.normal(size=(20_000, 400)))
    sd, root = x.std(1, ddof=1), np.sqrt(400)
    z = (x.mean(1) - np.exp(0.5)) / sd * root
    low, high = tails(without_skew(z, stats.skew(x, axis=1) / root))
    left, right = tails(z)
    assert max(low, high) < 0.011 < left
    assert min(low, high) > 0.003 > right


def test_too_heavy_a_tail_for_the_run_is_inconclusive(rng):
    x = np.exp(2 * rng.normal(size=(4, 2000)))
    assert compare({"x": 100.0}, dataset(x=x)).attrs["verdict"] == "inconclusive"
    light = np.exp(0.5 * rng.normal(size=(4, 2000)))
    assert compare({"x": 100.0}, dataset(x=light)).attrs["verdict"] == "disagree"


def test_skewness_counts_on_the_side_it_comes_from(rng):
    x, normal = np.exp(rng.normal(size=(4, 300))), rng.normal(size=(4, 300)) + 1.6
    q = stats.skew(x.ravel()) / np.sqrt(summarize(dataset(x=x)).ess)
    ours, theirs = summarize(dataset(x=x)), summarize(dataset(x=normal))
    alone = compare({"x": 1.6}, dataset(x=x))
    z = (ours.estimate - 1.6) / ours.mcse
    np.testing.assert_allclose(alone["z"], without_skew(z, q), rtol=1e-3)
    # Of a difference: third moments subtract, variances add.
    both = np.hypot(ours.mcse, theirs.mcse)
    third = q * ours.mcse**3 - theirs.skew / np.sqrt(theirs.ess) * theirs.mcse**3
    z = (ours.estimate - theirs.estimate) / both
    found = compare(dataset(x=normal), dataset(x=x))["z"]
    np.testing.assert_allclose(found, without_skew(z, third / both**3), rtol=1e-3)
    turned = compare(dataset(x=x), dataset(x=normal))["z"]
    np.testing.assert_allclose(turned, -found, rtol=1e-9)


def test_a_shift_of_the_stated_size_is_found_with_the_stated_power(rng):
    shift, n_runs, found = 0.1, 60, 0
    for _ in range(n_runs):
        draws = dataset(x=rng.normal(size=(4, 440, 3)))
        table = compare({"x": np.array([shift, 0, 0])}, draws, tol=shift)
        found += str(table["verdict"].to_numpy()[0]) == "disagree"
        detectable = table["detectable"].to_numpy()[0]
    assert detectable == pytest.approx(shift, rel=0.15)  # the run is sized for it
    assert found >= stats.binom.ppf(1e-3, n_runs, 0.8)


def test_a_run_below_the_effective_sample_size_is_inconclusive_even_when_far_off(rng):
    draws = dataset(x=autoregressive(rng, 0.95, (4, 1000)))
    assert compare({"x": 5.0}, draws).attrs["verdict"] == "inconclusive"


def test_chains_that_do_not_mix_are_inconclusive(rng):
    x = rng.normal(size=(4, 2000)) + np.array([0, 0, 0, 0.5])[:, None]
    assert compare({"x": 0.125}, dataset(x=x)).attrs["verdict"] == "inconclusive"


def test_constants_are_compared_exactly_and_do_not_count_among_the_tests(rng):
    draws = dataset(x=rng.normal(size=(4, 3000)), c=np.full((4, 3000), 0.1))
    exact = compare({"x": 0.0, "c": 0.1}, draws)
    assert (exact.attrs["verdict"], exact.attrs["m"]) == ("agree", 1)
    for gap, verdict in (1e-14, "agree"), (1e-12, "disagree"):  # 1000 ε: 2e-13.
        table = compare({"x": 0.0, "c": 0.1 * (1 + gap)}, draws)
        assert table.attrs["verdict"] == verdict


def test_a_reference_of_draws_counts_with_its_own_error(rng):
    ours, theirs = dataset(x=rng.normal(size=(4, 3000))), rng.normal(size=(4, 6000))
    table = compare(dataset(x=theirs), ours)
    alone = compare({"x": theirs.mean()}, ours)
    ratio = table["mcse"].to_numpy()[0] / alone["mcse"].to_numpy()[0]
    assert ratio == pytest.approx(np.sqrt(1.5), rel=0.1)


def test_a_reference_run_counts_from_its_own_effective_sample_size(rng):
    # 800 independent draws, far off: only their number is in the way of a verdict.
    few, many = dataset(x=rng.normal(size=(4, 200))), rng.normal(2, 1, size=(4, 3000))
    result = summarize(few)
    assert 600 < result.ess[0] < 950
    assert result.rhat[0] < 1.01
    for ess_min, verdict in (950, "inconclusive"), (600, "disagree"):
        table = compare(few, dataset(x=many), ess_min=ess_min)
        assert table.attrs["verdict"] == verdict


def test_a_reference_run_counts_only_with_an_r_hat_below_the_limit(rng):
    apart = rng.normal(size=(4, 2000)) + np.array([0.3, 0, 0, -0.3])[:, None]
    reference, draws = dataset(x=apart), dataset(x=rng.normal(5, 1, size=(4, 2000)))
    assert summarize(reference).rhat[0] > 1.01
    assert compare(reference, draws, ess_min=1).attrs["verdict"] == "inconclusive"
    loose = compare(reference, draws, ess_min=1, rhat_max=1.2)
    assert loose.attrs["verdict"] == "disagree"


def test_a_reference_error_widens_the_comparison(rng):
    draws = dataset(x=rng.normal(size=(4, 3000)))
    far = compare({"x": 0.2}, draws)
    wide = compare({"x": 0.2}, draws, reference_mcse={"x": 0.1})
    assert far.attrs["verdict"] == "disagree"
    assert wide.attrs["verdict"] == "inconclusive"


def test_distance_is_the_shift_in_sd_and_the_log_ratio_of_sd(rng):
    reference = dataset(x=rng.normal(1.0, 2.0, size=(4, 20_000)))
    approximation = dataset(x=rng.normal(2.0, 1.0, size=(1, 40_000)))
    table = distance(reference, approximation)
    for name, truth in (("shift", 0.5), ("log_sd_ratio", -np.log(2))):
        error = table[f"{name}_mcse"].to_numpy()[0]
        assert 0 < error < 0.02
        # Four standard errors: false-alarm rate 6e-5 each.
        assert abs(table[name].to_numpy()[0] - truth) < 4 * error


def test_errors_of_a_distance_are_in_sd_of_the_reference(rng):
    x, y = rng.normal(1.0, 4.0, size=(4, 500)), rng.normal(2.0, 0.5, size=(1, 900))
    table = distance(dataset(x=x), dataset(x=y)).isel(entry=0)
    columns = ("reference", "estimate", "sd", "estimate_sd", "shift", "log_sd_ratio")
    sd = x.std(ddof=1), y.std(ddof=1)
    shift = (y.mean() - x.mean()) / sd[0]
    wanted = x.mean(), y.mean(), *sd, shift, np.log(sd[1] / sd[0])
    np.testing.assert_allclose([table[name] for name in columns], wanted, rtol=1e-12)
    # Mean and sd are of independent draws, their errors of about sd/√n and sd/√2n.
    mean_error = np.hypot(sd[0] / np.sqrt(2000), sd[1] / np.sqrt(900))
    np.testing.assert_allclose(table["shift_mcse"], mean_error / sd[0], rtol=0.15)
    log_error = np.hypot(1 / np.sqrt(4000), 1 / np.sqrt(1800))
    np.testing.assert_allclose(table["log_sd_ratio_mcse"], log_error, rtol=0.15)


def test_the_sd_of_draws_is_over_all_chains_with_what_chains_differ_by():
    x = np.array([[1.0, 2, 3, 4], [11, 12, 13, 16]])  # Within chains 1.3 and 2.2.
    squares = np.sum((x - 7.75) ** 2)
    result = summarize(dataset(x=x))
    assert result.estimate[0] == 7.75
    np.testing.assert_allclose(result.sd, np.sqrt(squares / 7), rtol=1e-12)
    np.testing.assert_allclose(result.skew, stats.skew(x.ravel()) * (7 / 8) ** 1.5)


def test_entries_share_the_level_and_many_of_them_need_a_longer_run(rng):
    # 2000 independent draws: .086 sd is detectable in one entry, .112 in fifty.
    m, alpha = 50, 0.01
    x = rng.normal(size=(4, 500, m))
    many = compare({"x": np.zeros(m)}, dataset(x=x), alpha=alpha)
    z = stats.norm.isf(alpha / 2 / m)
    assert many.attrs["z_crit"] == pytest.approx(z, rel=1e-12)
    assert many.attrs["verdict"] == "inconclusive"
    detectable = (z + stats.norm.isf(0.1)) / np.sqrt(x[..., 0].size)
    # The effective sample size is an estimate: ten per cent in its root.
    np.testing.assert_allclose(many["detectable"].mean(), detectable, rtol=0.1)
    one = compare({"x": 0.0}, dataset(x=x[..., 0]), alpha=alpha)
    assert one.attrs["verdict"] == "agree"


def test_the_effective_sample_size_is_that_of_the_mean_and_not_of_the_bulk(rng):
    rho, shape = 0.5, (4, 4000, 6)
    x = autoregressive(rng, rho, shape)
    square = x**2
    entries = np.moveaxis(square, 2, 0)
    found = summarize(dataset(square=square))
    mean = array_stats.ess(entries, method="mean")
    np.testing.assert_allclose(found.ess, mean, rtol=1e-12)
    np.testing.assert_allclose(found.mcse, found.sd / np.sqrt(mean), rtol=1e-12)
    # The squares have the autocorrelations rho^(2t).
    exact = shape[0] * shape[1] * (1 - rho**2) / (1 + rho**2)
    assert found.ess.mean() == pytest.approx(exact, rel=0.05)
    # Negative control: of exp(2x), whose own autocorrelations are far below those of
    # its ranks, the bulk's is another number by more than any noise.
    skewed = np.moveaxis(np.exp(2 * x), 2, 0)
    own = summarize(dataset(skewed=np.exp(2 * x))).ess
    assert np.all(array_stats.ess(skewed, method="bulk") < 0.8 * own)
