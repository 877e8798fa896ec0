"""α does not depend on where the features' origin is, nor on their units."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from probmetric.estimators.two_stage.estimator import TwoStageMixture


def pairs_of_one_source():
    """60 pairs with α = 0.3 in two dimensions; on a grid, so that shifts are exact."""
    rng = np.random.default_rng(3)
    source = rng.normal(size=(60, 1, 2)) * [2.0, 0.5]
    noise = rng.normal(size=(60, 2, 2)) * [2.0, 0.5]
    pairs = np.sqrt(0.7) * source + np.sqrt(0.3) * noise
    return np.round(pairs * 1024) / 1024


def alpha_of_estimator(pairs):
    rows = pairs.reshape(-1, pairs.shape[2])
    return TwoStageMixture(1).fit(rows).fit_alpha(pairs).alpha_


def best_alpha(pairs):
    """Maximise the density of the stacked pair by SciPy, under the fitted mixture."""
    model = TwoStageMixture(1).fit(pairs.reshape(-1, 2))
    mean, S = model.means_[0], model.within_[0] + model.between_[0]
    rows = pairs.reshape(len(pairs), 4)

    def loss(alpha):
        cross = (1 - alpha) * S
        both = np.block([[S, cross], [cross, S]])
        return -multivariate_normal(np.tile(mean, 2), both).logpdf(rows).sum()

    options = {"xatol": 1e-10}
    end = minimize_scalar(loss, method="bounded", bounds=(0.01, 0.99), options=options)
    return end.x


def test_alpha_is_the_maximum_of_the_likelihood():
    pairs = pairs_of_one_source()
    # Brent's method finds a minimum to the square root of eps of the loss.
    assert alpha_of_estimator(pairs) == pytest.approx(best_alpha(pairs), abs=1e-6)


@pytest.mark.parametrize("shift", [1e8])
def test_alpha_of_the_estimator_does_not_see_a_shift(shift):
    pairs = pairs_of_one_source()
    # eps * 1e8 / 0.5, the smallest standard deviation, is 4e-8 in standard units.
    want = pytest.approx(alpha_of_estimator(pairs), abs=1e-6)
    assert alpha_of_estimator(pairs + shift) == want


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_alpha_of_the_estimator_does_not_see_the_units(scale):
    pairs = pairs_of_one_source()
    want = pytest.approx(alpha_of_estimator(pairs), abs=1e-9)
    assert alpha_of_estimator(pairs * [scale, 1.0]) == want
