"""Curves of metrics of splines: their limits, and what is refused."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.metric import SplineCityBlock
from probmetric.posterior import curves

KNOTS = np.array([[0.0, 1.0, 4.0], [-2.0, 0.0, 3.0]])


def metrics(n, seed=0):
    rng = np.random.default_rng(seed)
    return [SplineCityBlock(KNOTS, rng.exponential(size=(2, 3))) for _ in range(n)]


def test_curves_are_the_images_of_points():
    metric = metrics(1)[0]
    found = curves(metric, n_points=7)
    np.testing.assert_allclose(found.s, metric.transform(found.x.T).T)
    np.testing.assert_array_equal(found.x[:, [0, -1]], KNOTS[:, [0, -1]])
    assert found.lower is None


def test_limits_of_draws_are_quantiles():
    draws = metrics(50)
    posterior = pm.posterior.PosteriorMetric(draws, "intervals", pairs_independent=True)
    found = curves(draws[0], posterior, prob=0.8, n_points=5)
    each = [d.transform(found.x.T).T for d in draws]
    np.testing.assert_allclose(found.lower, np.quantile(each, 0.1, axis=0))
    np.testing.assert_allclose(found.upper, np.quantile(each, 0.9, axis=0))


def test_limits_of_refits_are_those_of_the_jackknife_and_not_below_zero():
    fits = metrics(9)
    made = pm.posterior.IntervalMetric(fits[0], fits[1:], factor=0.3, df=3)
    found = curves(fits[0], made, n_points=5)
    each = np.array([m.transform(found.x.T).T for m in fits[1:]])
    V = 0.3 * 7 / 8 * ((each - each.mean(0)) ** 2).sum(0)
    half = 2.353363 * np.sqrt(V)  # t of 3 degrees of freedom, .95
    np.testing.assert_allclose(found.upper, found.s + half, rtol=1e-6)
    np.testing.assert_allclose(found.lower, np.maximum(found.s - half, 0), atol=1e-6)


def test_metrics_of_other_kinds_or_knots_are_refused():
    metric = metrics(1)[0]
    with pytest.raises(ValueError, match=r"metric .*got Mahalanobis"):
        curves(pm.Mahalanobis(np.eye(2)))
    moved = SplineCityBlock(KNOTS + 1, metric.heights)
    other = pm.posterior.PosteriorMetric([moved], "intervals", pairs_independent=True)
    with pytest.raises(ValueError, match=r"uncertainty .*knots"):
        curves(metric, other)
    euclid = pm.posterior.PosteriorMetric([pm.Mahalanobis(np.eye(2))], "prediction")
    with pytest.raises(ValueError, match=r"uncertainty .*draws or refits"):
        curves(metric, euclid)


def test_draws_that_have_no_intervals_have_no_limits_either():
    draws = metrics(3)
    with pytest.raises(ValueError, match=r"curves .*got purpose='prediction'"):
        curves(draws[0], pm.posterior.PosteriorMetric(draws, "prediction"))
    with pytest.warns(UserWarning, match=r"curves: .*intervals from 'laplace' draws"):
        curves(draws[0], pm.posterior.PosteriorMetric(draws, "intervals"))
    curves(
        draws[0], pm.posterior.PosteriorMetric(draws, "intervals", source="bootstrap")
    )
