"""``PointEffectsLCA``: scikit-learn's contract, points, units, draws, bad input."""

import copy
from functools import partial

import numpy as np
import pytest

import probmetric as pm
from probmetric.estimators.point_effects.estimator import PointEffectsLCA
from probmetric.storage import posterior_of
from tests.dump import assert_refused


def judged(n=25, seed=0):
    """Pairs of points judged by the first feature alone, half of the points hard."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    rows = np.stack(np.triu_indices(n, 1), 1)
    rows = np.tile(rows, (6, 1))  # Six judges.
    b = np.where(np.arange(n) % 2, 0.1, 2.0)
    t = b[rows].mean(1) + 1.5 * (X[rows[:, 0]] - X[rows[:, 1]])[:, 0] ** 2
    return X, rows, (rng.random(len(rows)) < np.exp(-t)).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X, rows, y = judged()
    return PointEffectsLCA(preprocessor=X).fit_pairs(rows, y)


def test_hard_points_and_the_feature_are_found(fitted):
    b, M = fitted.point_intercepts_, fitted.get_mahalanobis_matrix()
    assert b[::2].mean() > 1.5 * b[1::2].mean()
    assert M[0, 0] > 2 * M[1, 1]
    assert fitted.spread_ > 0.3
    assert fitted.gap_ < 1e-9
    np.testing.assert_array_equal(fitted.points_, np.arange(25))


@pytest.mark.long
def test_three_forms_of_pairs_are_one_fit():
    X, rows, y = judged(n=12)
    fitted = PointEffectsLCA(preprocessor=X).fit_pairs(rows, y)
    side = PointEffectsLCA().fit_pairs(X[rows], y)
    named = PointEffectsLCA().fit_pairs(X[rows], y, points=rows)
    M = fitted.get_mahalanobis_matrix()
    for other in (side, named):
        np.testing.assert_allclose(other.get_mahalanobis_matrix(), M, rtol=1e-4)
    # Every end a point of its own: nothing is shared.
    alone = np.arange(2 * len(rows)).reshape(-1, 2)
    apart = PointEffectsLCA().fit_pairs(X[rows], y, points=alone)
    assert np.abs(apart.get_mahalanobis_matrix() / M - 1).max() > 0.01


@pytest.mark.long
def test_known_points_have_their_own_probability(fitted):
    _, rows, _ = judged()
    new = fitted.same_probability(rows)
    known = fitted.same_probability(rows, points=rows)
    easy = (rows % 2 == 1).all(1)
    assert known[easy].mean() > new[easy].mean()
    strange = fitted.same_probability(rows, points=rows + 1000)
    np.testing.assert_allclose(strange, new)


@pytest.mark.long
def test_laplace_draws_have_the_intercept_of_new_points_of_their_own_spread(fitted):
    drawn = fitted.sample("laplace", n_draws=50, n_chains=1)["posterior"]
    b, omega, new = (drawn[k].to_numpy()[0] for k in ("b", "spread", "b_new"))
    z = np.linspace(-12, 12, 4001)  # Finer than the function's own nodes.
    w = np.exp(-(z**2) / 2)
    effect = np.exp(-b[:, None] / 2 * np.exp(omega[:, None] * z)) @ w / w.sum()
    np.testing.assert_allclose(new, -2 * np.log(effect), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:loo")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probmetric.inference.sampling.SamplingWarning")
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_draws_become_metrics_are_stored_and_leave_points_out(fitted, tmp_path):
    quick = pm.NUTS(n_warmup=100, target_accept=0.95)
    draws = fitted.sample(quick, n_draws=50, n_chains=2, log_likelihood=True)
    assert draws["posterior"]["b_point"].dims == ("chain", "draw", "point")
    found = pm.loo(draws)
    assert found.n_data_points == 25
    near = fitted.posterior_metric("intervals", draws=draws)
    assert len(near.draws) == 100
    M = draws["posterior"]["M"].to_numpy().reshape(-1, 2, 2)
    np.testing.assert_allclose(near.draws[3].matrix, M[3], atol=1e-9)
    pm.save_draws(draws, tmp_path / "draws.nc")
    kept = pm.load_draws(tmp_path / "draws.nc")
    np.testing.assert_array_equal(kept["posterior"]["M"], draws["posterior"]["M"])
    # Read as metrics they have the P(same) of new points, under every draw.
    A, B = np.zeros((1, 2)), np.array([[0.7, -0.4]])
    again = posterior_of(kept, purpose="intervals")
    b = draws["posterior"]["b"].to_numpy().ravel()
    omega = draws["posterior"]["spread"].to_numpy().ravel()
    z = np.random.default_rng(0).normal(size=200_000)
    for s in 3, 77:
        d2 = (B - A)[0] @ M[s] @ (B - A)[0]
        effect = np.mean(np.exp(-b[s] / 2 * np.exp(omega[s] * z)))
        same = again.draws[s].same_probability(A, B)[0]
        np.testing.assert_allclose(same, effect**2 * np.exp(-d2 / 2), rtol=0.01)
        assert same == near.draws[s].same_probability(A, B)[0]


REFUSED = [
    lambda m: m.sample("bootstrap"),
    lambda m: m.posterior_metric("votes"),
    lambda m: m.same_probability([[0, 1]], points=[0, 1]),
    lambda m: m.fit_pairs([[0, 0], [1, 2], [3, 4]], [1, 0, 1]),
    lambda m: (
        m.set_params(spread=0.0).fit_pairs([[0, 1], [1, 2]], [1, 0]).sample("nuts")
    ),
]


@pytest.mark.long
def test_bad_input_is_refused(fitted):
    calls = [partial(call, copy.copy(fitted)) for call in REFUSED]
    assert_refused(calls, "estimators/point_effects.txt")
