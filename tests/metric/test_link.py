"""Links: P(same) of a squared distance, at odds that the link can answer for."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.metric import Link, LogLogisticLink, Mahalanobis
from probmetric.metric.link import IsotonicLink

MODEL = Link(np.array(0.1), np.array(0.5), "nearest")
# D₀ = 2, γ = 3: log odds = 3 log 2 - 3 log D.
CALIBRATED = LogLogisticLink(
    np.array(3 * np.log(2.0)), np.array(3.0), np.array(0.01), np.array(0.5), "all"
)
ISOTONIC = IsotonicLink(
    np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.6, 0.2]), np.array(0.5), "all"
)
LINKS = {"model": MODEL, "calibrated": CALIBRATED, "isotonic": ISOTONIC}
D = np.array([0.0, 0.01, 0.5, 1.5, 3.0, 50.0, np.inf])
A, B = np.random.default_rng(0).normal(size=(2, 6, 3))


def test_the_model_states_the_exponential():
    np.testing.assert_allclose(MODEL.probability(D), np.exp(-(0.1 + D / 2)), rtol=1e-14)


def test_the_log_logistic_is_its_formula_and_constant_below_what_was_seen():
    wanted = 1 / (1 + (np.maximum(D, 0.01) / 2) ** 3)
    np.testing.assert_allclose(CALIBRATED.probability(D), wanted, rtol=1e-13)
    assert CALIBRATED.probability(D)[-1] == 0


def test_a_log_logistic_without_slope_is_constant_to_infinity():
    flat = replace(CALIBRATED, slope=np.array(0.0))
    np.testing.assert_allclose(flat.probability(D), 8 / 9, rtol=1e-14)


def test_the_isotonic_link_is_linear_between_knots_and_constant_beyond():
    wanted = [0.9, 0.9, 0.9, 0.75, 0.4, 0.2, 0.2]
    np.testing.assert_allclose(ISOTONIC.probability(D), wanted, rtol=1e-13)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_link_decreases_and_its_logarithm_is_that_of_the_probability(link):
    P = link.probability(D)
    assert np.all(np.diff(P) <= 0)
    assert P.dtype == np.float64
    with np.errstate(divide="ignore"):
        got = link.log_probability(D)
        np.testing.assert_allclose(got, np.log(P), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("link", [CALIBRATED, ISOTONIC])
@pytest.mark.parametrize("odds", [1 / 9, 0.5, 3.0])
def test_prior_odds_are_bayes_rule(link, odds):
    # p(D | 1) / p(D | 0) = P/(1 - P) / (odds of the pairs); constant odds change it.
    P = link.probability(D[:-1])
    ratio = P / (1 - P) / 0.5
    wanted = ratio * odds / (1 + ratio * odds)
    np.testing.assert_allclose(link.probability(D[:-1], odds), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "link", [MODEL, *(replace(k, pairs="nearest") for k in (CALIBRATED, ISOTONIC))]
)
def test_prior_odds_need_a_link_calibrated_on_pairs_chosen_at_random(link):
    metric = Mahalanobis(np.eye(3), replace(link, pairs="all" if link is MODEL else ""))
    for ask in (
        lambda odds: metric.same_probability(A, B, prior_odds=odds),
        lambda odds: link.probability(D, odds),
        jax.jit(lambda odds: link.probability(D, odds)),
    ):
        with pytest.raises(ValueError, match=r"prior_odds must be None .*, got"):
            ask(0.1)


@pytest.mark.parametrize("odds", [0.0, -1.0, np.nan])
def test_prior_odds_have_a_range(odds):
    with pytest.raises(ValueError, match="prior_odds must be a number"):
        Mahalanobis(np.eye(3), CALIBRATED).same_probability(A, B, prior_odds=odds)


@pytest.mark.parametrize("name", LINKS)
def test_a_metric_says_its_link_and_the_pairs_of_it(name):
    kind = "model" if name == "model" else "calibrated"
    link = LINKS[name]
    shown = repr(Mahalanobis(np.eye(2), link))
    assert f"link={type(link).__name__}({kind} on {link.pairs} pairs: " in shown
    assert f"({kind}: " in repr(replace(link, pairs=""))


@pytest.mark.parametrize("link", [CALIBRATED, ISOTONIC])
def test_prior_odds_may_be_traced_or_an_array(link):
    with jax.enable_x64(True):
        got = jax.jit(lambda odds: link.probability(D, odds))(3.0)
        metric = Mahalanobis(np.eye(3), link)
        by_metric = jax.jit(lambda odds: metric.same_probability(A, B, prior_odds=odds))
        of_metric = by_metric(3.0)
    np.testing.assert_allclose(got, link.probability(D, 3.0), rtol=1e-12)
    wanted = metric.same_probability(A, B, prior_odds=3.0)
    np.testing.assert_allclose(of_metric, wanted, rtol=1e-12)
    one = link.probability(D, np.array(3.0))
    np.testing.assert_allclose(one, link.probability(D, 3.0), rtol=1e-12)
    with pytest.raises(ValueError, match="prior_odds must be a number"):
        link.probability(D, np.array(-3.0))


def test_the_slope_of_p_same_in_the_distance_is_finite_at_equal_points():
    slope = jax.grad(lambda d: CALIBRATED.probability(d))
    assert np.isfinite(slope(0.0))
    assert np.isfinite(slope(1.0))


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_stored_metric_keeps_its_link(link, tmp_path):
    metric = Mahalanobis(np.eye(3), link)
    pm.save_metric(metric, tmp_path / "m.npz")
    again = pm.load_metric(tmp_path / "m.npz")
    assert repr(again) == repr(metric)
    assert again.link.pairs == link.pairs
    np.testing.assert_array_equal(
        again.same_probability(A, B), metric.same_probability(A, B)
    )
