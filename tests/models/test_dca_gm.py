"""DCA-GM's generative model: its sites, its prior, simulation and the metrics."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest

from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.fit import Conditioned, log_joint
from probmetric.inference.dca_gm.likelihood import apply_gauge, with_fisher
from probmetric.metric import ClassDistribution, LocalFisher, Mahalanobis
from probmetric.models.dca_gm import (
    DCAGMParams,
    DCAGMPrior,
    DCAGMSites,
    constrain,
    dca_gm,
    simulate,
    to_metric,
    unconstrain,
)
from tests.dca_gm import tilt

EPS = np.finfo(float).eps
N, D, P, C, K = 12, 4, 2, 3, 2
BOTH = jax.jit(jax.value_and_grad(log_joint))


@pytest.fixture
def params(golden):
    """Golden parameters, as NumPy."""
    case = golden("lca_dca")["dca_gm"]
    return DCAGMParams(
        A=np.array(case["A"]),
        log_alpha=np.log(case["alpha"]),
        log_beta=np.log(case["beta"]),
        mu=np.array(case["mu"]),
        chol=np.linalg.cholesky(case["Sigma"])[:, None],
    )


@pytest.fixture
def points(golden):
    case = golden("lca_dca")["dca_gm"]
    return Labeled(np.array(case["X"]), np.array(case["labels"]))


def random_case(covariance="class", p=P, ragged=False):
    rng = np.random.default_rng(3)
    q = K if covariance == "component" else 1
    present = np.ones((C, K), bool)
    present[1, 1] = not ragged
    shapes = DCAGMSites((p, D), (C,), (C, K), (C, K, p), (C, q, p), None)
    draw = [jnp.asarray(rng.normal(size=s)) for s in shapes[:5]]
    sites = DCAGMSites(*draw, jnp.asarray(rng.normal(size=(C, q, p * (p - 1) // 2))))
    w = jnp.asarray(rng.uniform(0, 2, N))
    y = jnp.asarray(rng.integers(0, C, N))
    data = Labeled(jnp.asarray(rng.normal(size=(N, D))), y, w)
    mean = jnp.asarray(rng.normal(size=(p, D)))
    prior = DCAGMPrior(mean, jnp.asarray(present), 0.7, 3.0, 1.3, 2.0, 0.6)
    return sites, data, prior


def as_dict(sites):
    """Leave out a site of size zero, which the model does not have."""
    return {k: v for k, v in sites._asdict().items() if v.size}


def test_sites_and_parameters_are_inverse_up_to_the_logits_shift(x64):
    sites, _, prior = random_case("component", 3, ragged=True)
    params = constrain(sites, prior.present)
    again = constrain(unconstrain(params), prior.present)
    for one, other in zip(params[:5], again[:5], strict=True):
        np.testing.assert_allclose(one, other, atol=10 * EPS)
    assert np.exp(params.log_beta)[1, 1] == 0


@pytest.mark.long
def test_no_shift_of_logits_is_likelier_than_that_of_the_sites(x64):
    sites, data, prior = random_case("class", P, ragged=True)

    def best_shift(sites):
        _, slope = BOTH(sites, Conditioned(data, prior))
        # Along a shift of all logits of a vector the density is quadratic.
        slope = [slope.alpha_logit[None], slope.beta_logit * prior.present]
        return [np.sum(s, 1) for s in slope]

    found = best_shift(unconstrain(constrain(sites, prior.present)))
    for at_site, anywhere in zip(found, best_shift(sites), strict=True):
        np.testing.assert_allclose(at_site, 0, atol=1e3 * EPS)
        assert (abs(anywhere) > 0.01).all()


@pytest.mark.long
def test_a_minibatch_density_is_that_of_the_chosen_points_scaled_up(x64):
    sites, data, prior = random_case()

    @jax.jit
    def density(key):
        model = numpyro.handlers.seed(dca_gm, key)
        substituted = numpyro.handlers.substitute(model, as_dict(sites))
        trace = numpyro.handlers.trace(substituted).get_trace(data, prior, batch=4)
        assert "J" not in trace
        observed = trace["y"]
        log_p = observed["fn"].log_prob(observed["value"])
        return trace["point"]["value"], observed["scale"] * jnp.sum(log_p)

    chosen, found = map(np.asarray, density(jax.random.key(5)))
    assert len(np.unique(chosen)) == 4
    part = Labeled(data.X[chosen], data.y[chosen], data.w[chosen])
    flat = prior._replace(c=1.0, lam=1.0)
    one, _ = BOTH(sites, Conditioned(part, flat))
    none, _ = BOTH(sites, Conditioned(part._replace(w=jnp.zeros(4)), flat))
    np.testing.assert_allclose(found, N / 4 * (one - none), rtol=1e3 * EPS)


def test_simulated_classes_have_the_models_frequencies(x64, params, points):
    # 4000 copies of one point: a frequency is off by more than 4.5 standard errors
    # with probability below 7e-6 for each of 3 classes.
    many = Labeled(jnp.asarray(np.repeat(points.X[1:2], 4000, 0)), None)
    drawn = simulate(jax.random.key(0), jax.tree.map(jnp.asarray, params), many)
    p = np.array([0.35156031576391966, 0.5603591351206987, 0.08808054911538163])
    frequency = np.bincount(np.asarray(drawn.y), minlength=3) / 4000
    assert np.all(np.abs(frequency - p) < 4.5 * np.sqrt(p * (1 - p) / 4000))


def test_the_average_fisher_metric_is_the_golden_matrix(params, points, golden):
    found = to_metric(params, points.X).matrix
    expected = golden("lca_dca")["dca_gm"]["J_x_mean"]
    np.testing.assert_allclose(found, expected, atol=1e2 * EPS)


def test_every_kind_of_metric_ignores_the_gauge(params, points, golden, x64):
    B = jnp.asarray(golden("lca_dca")["dca_gm"]["gauge"]["B"])
    data = jax.tree.map(jnp.asarray, points)
    before = with_fisher(jax.tree.map(jnp.asarray, params), data)
    after = apply_gauge(before, B)
    for kind in ("average_fisher", "subspace", "local_fisher", "hellinger"):
        one, other = (to_metric(p, kind=kind) for p in (before, after))
        np.testing.assert_allclose(
            one.pairwise(data.X, data.X),
            other.pairwise(data.X, data.X),
            atol=1e-11,
            err_msg=kind,
        )
    # Control: the Euclidean distance after the projection depends on the gauge.
    one, other = (Mahalanobis(p.A).pairwise(data.X, data.X) for p in (before, after))
    assert not np.allclose(one, other, rtol=0.1)


@pytest.mark.long
def test_a_tilt_moves_the_subspace_metric_but_not_the_fisher_one(
    params, points, golden, x64
):
    case = golden("lca_dca")["dca_gm"]["tilt"]
    data = jax.tree.map(jnp.asarray, points)
    before = jax.tree.map(jnp.asarray, params)
    after = tilt(before, jnp.array(case["Q"]), jnp.array(case["h"]))
    one, other = (to_metric(p, data.X).matrix for p in (before, after))
    np.testing.assert_allclose(one, other, atol=1e-12)
    one, other = (to_metric(p, kind="subspace").matrix for p in (before, after))
    assert not np.allclose(one, other, rtol=0.05)


def test_a_fisher_matrix_that_vanishes_falls_back_to_the_subspace(params, points):
    certain = params._replace(log_alpha=np.array([0.0, -200.0, -200.0]))
    found = to_metric(certain, points.X).matrix
    np.testing.assert_array_equal(found, to_metric(certain, kind="subspace").matrix)


def test_kinds_are_their_classes_and_an_unknown_one_is_refused(params, points):
    assert isinstance(to_metric(params, kind="local_fisher"), LocalFisher)
    assert isinstance(to_metric(params, kind="jensen_shannon"), ClassDistribution)
    with pytest.raises(ValueError, match="X is required"):
        to_metric(params)
