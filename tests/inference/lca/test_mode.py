"""The mode of LCA is a stationary point of the model's own density, at its value."""

import numpy as np
import pytest

from probmetric.data.containers import Pairs
from probmetric.inference.lca import fit
from probmetric.models.lca import LCAPrior
from tests.inference.lca.problem import model_value_and_grad

pytestmark = pytest.mark.usefixtures("x64")


def labeled(rng, n, d, n_pairs, **options):
    X = rng.normal(size=(n, d)) + 1.0
    i, j = rng.integers(0, n, (2, n_pairs))
    near = np.linalg.norm(X[i, :2] - X[j, :2], axis=1)
    y = (near + 0.5 * rng.normal(size=n_pairs) < np.median(near)).astype(int)
    return Pairs(X, i, j, y, w=rng.uniform(0.5, 1.5, n_pairs), **options)


@pytest.mark.parametrize(
    ("n", "d", "n_pairs", "p"),
    [(20, 3, 120, 2), (6, 9, 20, 9), (6, 9, 20, 2)],
    ids=["points", "fewer points than features", "a narrow map of few points"],
)
def test_gradient_of_the_numpyro_density_vanishes(n, d, n_pairs, p):
    rng = np.random.default_rng(1)
    pairs = labeled(rng, n, d, n_pairs)
    mean = 0.5 * np.eye(p, d) + 0.1 * rng.normal(size=(p, d))
    prior = LCAPrior(mean, c=0.6, lam=4.0, b_shape=2.0, b_rate=1.5)
    found = fit(pairs, prior, learning_rate=0.7, tol=0.0)
    value, gradient = model_value_and_grad(pairs, prior, 0.7, found.params)
    np.testing.assert_allclose(found.objective, value, rtol=1e-12)
    for slope in gradient.values():
        np.testing.assert_allclose(slope, 0.0, atol=2e-6)


def test_judgments_count_as_their_labels():
    rng = np.random.default_rng(2)
    pairs = labeled(rng, 30, 2, 60)
    m = rng.integers(1, 4, 60)
    counts = pairs._replace(y=pairs.y * m, trials=m, w=None)
    labels = pairs._replace(w=m.astype(float))
    ends = [fit(each, LCAPrior(np.eye(2))).params for each in (counts, labels)]
    np.testing.assert_allclose(ends[0].W, ends[1].W, rtol=1e-9)
