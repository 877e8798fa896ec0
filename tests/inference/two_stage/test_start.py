"""Where EM of the mixtures starts: M-steps of clusters, by direct sums."""

import numpy as np
import pytest

from probmetric.data.containers import Groups
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.start import start_mixture
from probmetric.inference.two_stage.fit import start_groups
from probmetric.inference.two_stage.groups import group_data
from probmetric.inference.two_stage.groups_missing import filled

RNG = np.random.default_rng(0)
LABEL = np.arange(30) % 3 // 2  # Twenty points in one cluster, ten far from them.
X = RNG.normal(size=(30, 2)) + np.array([[0.0, 0.0], [30.0, 10.0]])[LABEL]
W = 0.5 + np.arange(30) % 3


def m_step(X, w, label, prior):
    """Return the mode of (c, μ, Σ) of each cluster, in the order of their first."""
    d, c, mu, S = X.shape[1], [], [], []
    m0, k0 = np.asarray(prior.mean), prior.strength
    for k in (0, 1):
        rows, v = X[label == k], w[label == k]
        R = v.sum()
        c.append(R + prior.concentration - 1)
        mu.append((v @ rows + k0 * m0) / (R + k0))
        off, shift = rows - mu[-1], mu[-1] - m0
        scatter = prior.scale + (off * v[:, None]).T @ off + k0 * np.outer(shift, shift)
        S.append(scatter / (R + prior.df + d + 2))
    return np.array(c) / np.sum(c), np.array(mu), np.array(S)


def assert_starts(found, wanted):
    order = np.argsort(np.asarray(found.means)[:, 0])
    for value, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(value)[order], want, rtol=1e-9)


def test_a_mixture_starts_at_the_mode_given_its_clusters():
    prior = default_prior(X, 2)._replace(concentration=1.7, strength=0.4)
    found = start_mixture(X, W, 2, prior=prior)
    assert_starts(found, m_step(X, W, LABEL, prior))


@pytest.mark.parametrize("seed", [1, 2])
def test_clusters_do_not_depend_on_rounding_order_or_units(seed):
    """5000 rows of five clusters that overlap, where k-means has many optima."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(5000, 4))
    rows += 2 * rng.normal(size=(5, 4))[rng.integers(0, 5, 5000)]
    order, swap = rng.permutation(5000), [2, 0, 3, 1]
    w = np.ones(5000)
    want = start_mixture(rows, w, 5, seed=seed).means
    single = start_mixture(rows.astype(np.float32), w.astype(np.float32), 5, seed=seed)
    np.testing.assert_allclose(single.means, want, atol=0.05)
    moved = start_mixture(rows[order][:, swap], w, 5, seed=seed)
    np.testing.assert_allclose(moved.means, want[:, swap], atol=1e-9)


def test_groups_start_with_the_pooled_covariance_within_them():
    group = np.arange(30) // 3 * 2 + LABEL  # Groups of two and of one.
    codes = np.unique(group, return_inverse=True)[1]
    w = 0.5 + (codes % 3)
    found = start_groups(group_data(Groups(X, group, w)), 2)
    mean = np.stack([X[codes == g].mean(0) for g in range(20)])
    size, each = np.bincount(codes), np.array([w[codes == g][0] for g in range(20)])
    off = X - mean[codes]
    pooled = (off * w[:, None]).T @ off / np.sum(each * (size - 1))
    prior = default_prior(mean, 2)
    c, mu, B = m_step(mean, each, np.arange(20) % 2, prior)
    order = np.argsort(np.asarray(found.means)[:, 0])
    np.testing.assert_allclose(np.asarray(found.weights)[order], c)
    np.testing.assert_allclose(np.asarray(found.means)[order], mu)
    np.testing.assert_allclose(np.asarray(found.between)[order], B)
    # A twentieth of the total variance keeps W regular.
    ridge = 0.05 * np.diag(np.diag(pooled) + np.diagonal(B.mean(0)))
    np.testing.assert_allclose(found.within, [pooled + ridge] * 2)


def test_missing_entries_start_at_the_mean_of_their_group_or_column():
    nan = np.nan
    rows = np.array([[1.0, nan], [3.0, 4.0], [nan, 6.0], [nan, 9.0]])
    groups = filled(Groups(rows, np.array([0, 0, 1, 1])))
    np.testing.assert_allclose(groups.X, [[1, 4], [3, 4], [2, 6], [2, 9]])


def test_the_default_prior_has_the_mean_and_the_floored_variances_of_the_points():
    holes = np.column_stack([X, np.full(30, 4.0)])
    holes[::7, 0] = np.nan
    prior = default_prior(holes, 3, strength=0.3, floor=2.0, alpha=(2.0, 5.0))
    np.testing.assert_allclose(prior.mean, np.append(np.nanmean(holes[:, :2], 0), 4.0))
    # A column that does not vary has variance 1; a component has 3^(-2/d) of it.
    scale = 2.0 * np.append(np.nanvar(holes[:, :2], 0), 1.0) / 3 ** (2 / 3)
    np.testing.assert_allclose(prior.scale, np.diag(scale))
    np.testing.assert_allclose(prior.within_scale, np.diag(scale) / 2)
    rest = prior.concentration, prior.strength, prior.df, prior.within_df
    assert (*rest, prior.alpha_a, prior.alpha_b) == (1.0, 0.3, 5.0, 5.0, 2.0, 5.0)
