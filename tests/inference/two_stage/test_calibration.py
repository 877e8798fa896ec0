"""Calibration of log ratios: independent values, bounds, folds of sources."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from probmetric.inference.two_stage.calibration import (
    HeldOut,
    bound_only,
    fit_calibration,
    held_out_ratios,
    source_folds,
)
from probmetric.metric import PairSimilarity


def overlapping(n_sources=40):
    """560 log ratios; log odds of *same* rise by 0.4 for, and by 0.2 against."""
    rng = np.random.default_rng(5)
    ratios = rng.uniform(-8, 8, 560)
    odds = 0.4 * np.maximum(ratios, 0) + 0.2 * np.minimum(ratios, 0) - 0.5
    return HeldOut(ratios, rng.random(560) < expit(odds), n_sources)


def penalized_loss(theta, pairs, times, penalty):
    """Return Eq. (2) with another factor of the loss and another penalty."""
    a, up, down = theta
    bound = np.log(pairs.n_sources + 1)
    losses: dict[bool, list[float]] = {True: [], False: []}
    for ratio, same in zip(pairs.log_ratio, pairs.same, strict=True):
        limited = min(max(ratio, -bound), bound)
        line = a + (up if limited > 0 else down) * limited
        losses[bool(same)].append(-np.log(expit(line if same else -line)))
    loss = (np.mean(losses[True]) + np.mean(losses[False])) / 2
    return times * loss + penalty * ((up - 1) ** 2 + (down - 1) ** 2) / 2


@pytest.mark.parametrize("n_sources", [6, 40])
def test_fit_minimizes_the_penalized_loss(n_sources):
    pairs = overlapping(n_sources)

    def minimum(times, penalty):
        end = minimize(
            penalized_loss,
            [0.0, 0.5, 0.5],
            (pairs, times, penalty),
            method="Nelder-Mead",
            options={"xatol": 1e-7, "fatol": 1e-10},
        )
        return end.x

    fitted = fit_calibration(pairs)[:3]
    np.testing.assert_allclose(fitted, minimum(n_sources, 1.0), atol=1e-5)
    # Negative controls: no penalty, and a loss that counts pairs.
    for times, penalty in ((n_sources, 0.0), (len(pairs.same), 1.0)):
        assert np.abs(fitted - minimum(times, penalty)).max() > 0.02


def test_many_sources_give_logistic_regression_with_equal_weight_of_both_kinds():
    pairs = overlapping(10**8)  # The bound log(n + 1) is larger than all ratios.
    limited = pairs.log_ratio
    features = np.stack([np.maximum(limited, 0), np.minimum(limited, 0)], 1)
    n_same = pairs.same.sum()
    weight = np.where(pairs.same, 560 - n_same, n_same)
    oracle = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky")
    oracle.fit(features, pairs.same, weight)
    fitted = fit_calibration(pairs)
    expected = [*oracle.intercept_, *oracle.coef_[0], np.log(10**8 + 1)]
    np.testing.assert_allclose(fitted, expected, atol=1e-5)
    expected = oracle.decision_function([[1.2, 0.0], [0.0, -2.5]])
    np.testing.assert_allclose(fitted(np.array([1.2, -2.5])), expected, atol=1e-4)


def test_ratios_are_bounded_by_the_number_of_sources():
    extreme = np.array([-1e6, -np.log(26), np.log(26), 1e6])
    for pairs in (overlapping(25), overlapping(25)._replace(same=np.arange(560) < 3)):
        ratios = fit_calibration(pairs)(extreme)
        assert np.all(np.abs(ratios) <= np.log(26))
    np.testing.assert_array_equal(
        bound_only(4)(np.array([-9.0, 0.3, 9.0])), [-np.log(5), 0.3, np.log(5)]
    )


def test_calibration_is_increasing():
    grid = np.linspace(-30, 30, 601)
    assert np.all(np.diff(fit_calibration(overlapping())(grid)) >= 0)


def test_separable_pairs_give_finite_slopes():
    pairs = HeldOut(np.array([3.0, 4.0, -2.0, -7.0]), np.arange(4) < 2, 30)
    fitted = fit_calibration(pairs)
    assert np.all(np.isfinite(fitted))
    assert fitted.slope_for <= 2
    assert fitted.slope_against <= 2


def test_reversed_ratios_give_no_evidence():
    pairs = overlapping(200)
    fitted = fit_calibration(pairs._replace(log_ratio=-pairs.log_ratio))
    assert fitted.slope_for == pytest.approx(0, abs=1e-6)
    assert fitted.slope_against == pytest.approx(0, abs=1e-6)


def test_no_source_is_split_between_folds():
    rng = np.random.default_rng(2)
    group = rng.permutation(np.repeat(np.arange(31), np.arange(31) % 4 + 1))
    fold = source_folds(group)
    for source in range(31):
        assert len(set(fold[group == source])) == 1
    repeated = np.bincount(group)[group] > 1
    assert set(fold[repeated]) == set(range(5))


def scored(X, group):
    """Return held-out ratios of one feature, and the sources of each fit."""
    fitted_to: list[set[int]] = []

    def learn(rows):
        fitted_to.append(set(group[rows].tolist()))
        W = np.full((1, 1, 1), 0.09)
        return PairSimilarity(np.zeros(1), np.zeros((1, 1)), 10 * W, W)

    return held_out_ratios(X, group, learn), fitted_to


def test_models_score_only_pairs_of_sources_that_they_were_not_fitted_to():
    """25 sources of 3 rows, and one of 40: 5 or 6 sources in each fold."""
    rng = np.random.default_rng(3)
    group = np.append(np.repeat(np.arange(25), 3), np.full(40, 25))
    X = rng.normal(size=(26, 1))[group] + 0.3 * rng.normal(size=(115, 1))
    pairs, fitted_to = scored(X, group)
    left_out = [set(range(26)) - sources for sources in fitted_to]
    assert sorted(s for sources in left_out for s in sources) == list(range(26))
    # At most four rows of the large source are used: 6 pairs.
    assert pairs.same.sum() == 25 * 3 + 6
    rows = [sum(4 if s == 25 else 3 for s in sources) for sources in left_out]
    assert len(pairs.same) == sum(n * (n - 1) // 2 for n in rows)
    assert pairs.n_sources == 26


def test_few_sources_leave_out_each_pair_of_folds():
    """Five sources in five folds: every two sources are left out once."""
    group = np.repeat(np.arange(5), 3)
    X = np.random.default_rng(3).normal(size=(15, 1))
    pairs, fitted_to = scored(X, group)
    left_out = [frozenset(range(5)) - sources for sources in fitted_to]
    assert len(left_out) == 10
    assert set(left_out) == {frozenset({i, j}) for i in range(5) for j in range(i)}
    # Each fit scores 3 + 3 pairs within two sources, and 9 pairs between them.
    assert pairs.same.sum() == 60
    assert (~pairs.same).sum() == 90
    assert pairs.n_sources == 5
