"""DCA-GM's strength of the prior: what folds try, and what they choose."""

import numpy as np
import pytest
import xarray as xr
from sklearn.datasets import load_iris

from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm import choice
from probmetric.inference.dca_gm.draws import metrics
from probmetric.inference.dca_gm.start import lda_rca
from probmetric.linalg import mixed_with_identity
from probmetric.models.dca_gm import DCAGMPrior
from probmetric.neighbors.strength import STRENGTHS, Chosen, tuned_losses

RAW, Y = load_iris(return_X_y=True)
X = ((RAW - RAW.mean(0)) / RAW.std(0))[::4]
Y = Y[::4]


def maps_of(monkeypatch, X, y, rows, **how):
    """Return what a fold tries."""
    found = []

    def kept(learn, *data, losses, tolerance):
        found.append(learn)
        assert losses is tuned_losses
        assert tolerance == 1  # Twice what is ordinary.
        return Chosen(1.0, *np.zeros((2, len(STRENGTHS))))

    monkeypatch.setattr(choice, "choose_by_folds", kept)
    choice.choose_strength(Labeled(X, y), 2, **how)
    return found[0](rows)


def test_folds_try_the_start_of_a_fold_mixed_with_euclid(monkeypatch):
    rows = np.arange(0, len(X), 2)
    wide = np.insert(X, 1, 5.0, axis=1)  # A constant column.
    maps = maps_of(monkeypatch, wide, Y, rows)
    for s, L in zip(STRENGTHS, maps, strict=True):
        A = lda_rca(Labeled(X[rows], Y[rows]), 2, strength=s)
        w = 1.0 if np.isinf(s) else s / (len(rows) + s)
        M = (1 - w) * A.T @ A + w * np.sum(A**2) / 4 * np.eye(4)
        found = np.delete(np.delete(L.T @ L, 1, 0), 1, 1)
        # The ridge of the start is relative to the mean variance, which a constant
        # column lowers: .1 % of 4/5 here.
        np.testing.assert_allclose(found, M, rtol=2e-3, atol=2e-3 * np.trace(M))
        assert not L[:, 1].any()


def test_a_subspace_is_not_mixed(monkeypatch):
    rows = np.arange(0, len(X), 2)
    maps = maps_of(monkeypatch, X, Y, rows, mixed=False)
    for s, L in zip(STRENGTHS, maps, strict=True):
        A = lda_rca(Labeled(X[rows], Y[rows]), 2, strength=s)
        np.testing.assert_array_equal(L, A)


def test_folds_of_equal_points_leave_euclid():
    points = np.zeros((12, 3))
    points[0] = 1.0
    found = choice.choose_strength(Labeled(points, np.arange(12) % 2), 2)
    assert found.strength == np.inf


@pytest.mark.long
def test_labels_that_mean_nothing_teach_nothing():
    """Of 40 seeds 34 chose ∞: of six, fewer than three do by chance 1 time in 170."""
    chosen = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = Labeled(rng.standard_normal((24, 6)), np.arange(24) % 2)
        chosen.append(choice.choose_strength(data, 2).strength)
    assert np.sum(np.isinf(chosen)) >= 3
    # The control: a feature that tells classes apart beside a wide one.
    points = data.X * [1.0, 50.0, 1.0, 1.0, 1.0, 1.0]
    points[:, 0] += 6 * data.y
    assert choice.choose_strength(Labeled(points, data.y), 2).strength <= 16


@pytest.mark.parametrize("column", [0, 1])
def test_draws_are_mixed_in_scaled_units(column):
    """Units of 10⁸ to one in any column: distances of draws are those of the fit."""
    rng, scale = np.random.default_rng(0), np.ones(5)
    scale[column] = 1e8
    A = rng.standard_normal((2, 5))
    J = (A / scale).T @ (A / scale)
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"J": (("chain", "draw", "f", "g"), J[None, None])})}
    )
    tree.attrs.update(prior_share=20 / 70, prior_scale=scale.tolist())
    (metric,) = metrics(tree)
    differences = scale * rng.standard_normal((20, 5))
    expected = differences / scale @ mixed_with_identity(A, 20, 50).T
    found = differences @ np.asarray(metric.factor).T
    np.testing.assert_allclose(np.sum(found**2, 1), np.sum(expected**2, 1), rtol=1e-12)


@pytest.mark.parametrize("s, expected", [(0.0, 1.0), (10.0, 2.0), (np.inf, 101.0)])
def test_the_projection_is_held_by_the_points_of_the_prior(s, expected):
    assert choice.held(s, 10) == expected


@pytest.mark.parametrize("s, hold", [(1e-9, 10.0), (10.0, 20.0), (np.inf, 1010.0)])
def test_a_prior_of_any_strength_is_closed(s, hold):
    given = DCAGMPrior(X[:2], np.ones((3, 1), bool), 0.7, 3.0, 1.3, 2.0, 0.6)
    found = choice.close_prior(given, s, 10)
    assert found.lam == pytest.approx(3 * hold)
    assert found.chol_scale == pytest.approx(44**-0.5)
    assert found.mu_scale == pytest.approx(2 * (10 / 32) ** 0.5)
    same = {"lam": 3.0, "mu_scale": 2.0, "chol_scale": 0.6}
    assert found._replace(**same)[2:] == given[2:]
    assert choice.close_prior(given, 0.0, 10) is given
