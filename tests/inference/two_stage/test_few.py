"""The default prior of few sources: where it holds, and what it says."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.data.containers import Groups
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.two_stage.few import POINTS, prior_of_groups
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.strength import variances
from probmetric.models.two_stage import TwoStageParams


def drawn(n_sources, members, d, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_sources), members)
    X = 2 * rng.normal(size=(n_sources, d))[codes]
    return X + rng.normal(size=X.shape), codes


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_precisions_have_the_means_of_the_variances():
    """E[S⁻¹] = df Ψ⁻¹ of an inverse Wishart distribution."""
    X, codes = drawn(4, 5, 6)
    V = X.var(0)
    prior, (w, b) = prior_of_groups(Groups(X, codes), 1), variances(X / V**0.5, codes)
    within = float(prior.within_df) * np.linalg.inv(prior.within_scale)
    between = float(prior.df) * np.linalg.inv(prior.scale)
    np.testing.assert_allclose(within, np.diag(1 / V / w), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(between, np.diag(1 / V / b), rtol=1e-12, atol=1e-12)
    assert float(prior.within_df) == POINTS * 6


@pytest.mark.parametrize(
    "size, k, covariance, few",
    [
        ((6, 3), 1, "free", True),
        ((7, 3), 1, "free", False),
        ((6, 3), 2, "free", False),
        ((6, 3), 1, "proportional", False),
        ((6, 1), 1, "free", False),
        ((1, 6), 1, "free", False),
    ],
)
def test_it_is_that_of_no_more_sources_than_features(size, k, covariance, few):
    data = Groups(*drawn(*size, 6))
    prior = prior_of_groups(data, k, covariance)
    assert same(prior, default_prior(data.X, k)) is not few


def test_units_of_the_features_do_not_matter():
    X, codes = drawn(3, 10, 4)
    units = np.array([1.0, 1000.0, 1.0, 1e-3])
    a, b = (fit(Groups(Z, codes), tol=1e-13).params for Z in (X, units * X))
    for name in ("within", "between"):
        found = getattr(b, name) / np.outer(units, units)
        np.testing.assert_allclose(found, getattr(a, name), rtol=1e-5, atol=1e-9)


def test_where_no_feature_is_seen_twice_in_a_source_the_weak_prior_stays():
    nan = np.nan
    X = np.array([[1, nan, 0.3], [nan, 2, nan], [3, nan, 1], [nan, 4, nan]])
    codes = np.array([0, 0, 1, 1])
    assert same(prior_of_groups(Groups(X, codes), 1), default_prior(X, 1))


def test_constant_columns_leave_the_marginal_as_it_is():
    """Of IW(df, Ψ) a block of q fewer rows is IW(df - q, its block of Ψ)."""
    X, codes = drawn(4, 5, 6)
    wide = np.column_stack([X[:, :2], np.full(len(X), 3.0), X[:, 2:]])
    live = np.arange(7) != 2
    a, b = (prior_of_groups(Groups(Z, codes), 1) for Z in (X, wide))
    for name in ("within_", ""):
        assert getattr(b, f"{name}df") == getattr(a, f"{name}df") + 1
        scale = getattr(b, f"{name}scale")[np.ix_(live, live)]
        np.testing.assert_allclose(scale, getattr(a, f"{name}scale"), rtol=1e-12)
    # A column that does not vary does not make six sources few.
    six = Groups(np.column_stack([drawn(6, 3, 5)[0], np.ones(18)]), codes[:18] * 0)
    six = six._replace(group=np.repeat(np.arange(6), 3))
    assert same(prior_of_groups(six, 1), default_prior(six.X, 1))


def test_missing_entries_are_left_out():
    """Of 2000 sources, W = I and B = 4 I, a fifth of the entries missing."""
    X, codes = drawn(2000, 3, 3)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    w, b = variances(X, codes)
    assert w == pytest.approx(1, rel=0.05)
    assert b == pytest.approx(4, rel=0.1)


def test_the_estimator_and_the_fit_take_it_and_a_weak_one_differs():
    X, codes = drawn(4, 5, 6)
    X = (X - X.mean(0)) / X.std(0)
    model = pm.TwoStageMixture(standardize=False).fit(X, groups=codes)
    data = Groups(X, codes)
    prior = prior_of_groups(data, 1)
    close = fit(data).params
    assert isinstance(close, TwoStageParams)
    np.testing.assert_allclose(model.within_, close.within, rtol=1e-6)
    given = fit(data, prior=prior).params
    np.testing.assert_array_equal(close.within, given.within)
    weak = fit(data, prior=default_prior(X, 1)).params
    ratios = [np.ptp(np.log(np.linalg.eigvalsh(p.within[0]))) for p in (close, weak)]
    assert ratios[0] < 0.5 * ratios[1]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:X has constant columns")
def test_a_source_of_rows_has_the_prior_of_the_rows():
    X, codes = drawn(4, 5, 6)
    X[:, 3] = 1.0
    whole = pm.TwoStageMixture().fit(X, groups=codes)
    read = pm.TwoStageMixture().fit(pm.open(X, label=codes), groups="label")
    a, b = whole._learned.prior, read._learned.prior
    assert a is not None
    assert b is not None
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    assert float(b.within_df) == POINTS * 5 + 1
    np.testing.assert_allclose(whole.between_, read.between_, rtol=1e-5, atol=1e-10)
