"""Draws of the two-stage mixture: the target, the methods, the pointwise likelihood."""

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_likelihood
from scipy.integrate import trapezoid
from scipy.special import logsumexp

from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.sampling.target import Draws
from probmetric.inference.two_stage.draws import draw, pointwise
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.pairs import _alpha_data, alpha_step
from probmetric.inference.two_stage.target import Fitted, position
from probmetric.models.two_stage import TwoStageParams, two_stage

pytestmark = pytest.mark.usefixtures("x64")


def sources(seed=0, G=40):
    """Return sources of 1 to 3 instances from two far components in d = 2."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(G), 1 + np.arange(G) % 3)
    means = np.array([[0.0, 0.0], [6.0, 2.0]])[np.arange(G) % 2]
    x = (means + rng.normal(size=(G, 2)))[group]
    return Groups(x + 0.4 * rng.normal(size=x.shape), group)


def holes(groups):
    X = groups.X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    return groups._replace(X=X)


CASES = {
    "points": (Points(sources().X), True, 0.3),
    "missing": (holes(sources()), False, None),
}


def posterior(name, k=2):
    data, tied, alpha = CASES[name]
    prior = default_prior(data.X, k, strength=0.3)._replace(concentration=1.5)
    form = "proportional" if tied else "free"
    share = 0.5 if alpha is None else alpha
    end = fit(data, n_components=k, prior=prior, covariance=form, alpha=share)
    return Fitted(data, prior, end.params, tied, alpha)


@pytest.mark.long
def test_pointwise_likelihood_is_that_of_the_numpyro_model_by_source():
    given = posterior("missing")
    p = given.params
    stretched = p._replace(means=p.means + 0.1, weights=p.weights[::-1])
    both = [np.stack([a, b])[None] for a, b in zip(p, stretched, strict=True)]
    draws = Draws(dict(zip(TwoStageParams._fields, both, strict=True)), {}, {})
    got = pointwise(given, draws)
    stacks = stack(given.data)
    theirs = log_likelihood(
        two_stage, draws.values, stacks, None, n_components=2, batch_ndims=2
    )
    size = np.bincount(given.data.group)
    for n in (1, 2, 3):
        np.testing.assert_allclose(got[..., size == n], theirs[f"x_{n}"], rtol=1e-10)


@pytest.mark.long
def test_laplace_of_alpha_has_the_moments_of_its_exact_posterior():
    """One component of known data size: α on a grid, the rest at the mode, d = 1.

    400 pairs: Laplace's error is O(1/400) sd; 4000 draws: 5 standard errors.
    """
    rng = np.random.default_rng(3)
    x = np.repeat(rng.normal(size=(400, 1)), 2, 0) + 0.5 * rng.normal(size=(800, 1))
    data = Groups(x, np.repeat(np.arange(400), 2))
    prior = default_prior(x, 1)
    end = fit(data, prior=prior, covariance="proportional")
    given = Fitted(data, prior, end.params, True, None)
    alpha = draw(given, "laplace", seed=0).values["alpha"].ravel()
    p, grid = end.params, np.linspace(0.1, 0.4, 301)
    mixture = MixtureParams(p.weights, p.means, p.within + p.between)
    pairs = _alpha_data(mixture, x[::2], x[1::2], np.ones(400))
    log_p = jax.vmap(lambda a: alpha_step(a, pairs)[1])(grid)
    log_p = log_p + np.log(grid * (1 - grid))
    density = np.exp(log_p - logsumexp(log_p))
    density = density / trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    sd = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))
    assert abs(alpha.mean() - mean) < 0.2 * sd
    # Σ is uncertain too, and correlates with α: not less than at the mode.
    assert 0.95 * sd < alpha.std() < 1.6 * sd


@pytest.mark.long
def test_one_component_has_a_position_and_draws():
    given = posterior("points", 1)
    assert position(given)["weights"].shape == (0,)
    drawn = draw(given, "laplace", seed=0, n_draws=100, n_chains=1)
    np.testing.assert_array_equal(drawn.values["weights"], 1.0)
    W, B = drawn.values["within"], drawn.values["between"]
    np.testing.assert_allclose(W / (W + B), 0.3, rtol=1e-9)  # α as given
