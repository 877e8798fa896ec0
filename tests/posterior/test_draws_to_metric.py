"""Draws of a model of one's own become metrics: by M, by a label, by a function."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr

import probmetric as pm
from probmetric.models.lca import Coincidence

RNG = np.random.default_rng(0)
W = RNG.normal(size=(2, 5, 3, 2, 2))
GROUPS = {"chain": range(2), "draw": range(5), "group": ["a", "b", "c"]}


def tree(**variables):
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables, GROUPS)})


def grouped():
    axes = ("chain", "draw", "group")
    return tree(
        M=((*axes, "feature", "feature_bis"), np.einsum("...pi,...pj->...ij", W, W)),
        W=((*axes, "latent", "feature"), W),
        b=(("chain", "draw"), RNG.gamma(1.0, size=(2, 5))),
    )


def test_a_function_makes_a_factor_or_a_metric_of_one_draw():
    def link(sites):
        assert set(sites) == {"M", "W", "b"}
        return pm.Mahalanobis(sites["W"], pm.metric.Link(sites["b"], np.asarray(0.5)))

    given = {"sel": {"group": "c"}, "n_draws": 4, "pairs_independent": True}
    draws = grouped()
    metrics = pm.draws_to_metric(draws, "intervals", to_metric=link, **given)
    factors = pm.draws_to_metric(
        draws, "intervals", to_metric=lambda sites: sites["W"], **given
    )
    assert metrics.n_draws == factors.n_draws == 4
    # Draws 0, 3, 6 and 9 of ten, chain after chain.
    kept = [W[0, 0, 2], W[0, 3, 2], W[1, 1, 2], W[1, 4, 2]]
    for found in metrics, factors:
        for draw, factor in zip(found.draws, kept, strict=True):
            np.testing.assert_array_equal(draw.factor, factor)
    every = pm.draws_to_metric(
        draws, "intervals", to_metric=lambda sites: sites["W"], sel={"group": "c"}
    )
    np.testing.assert_array_equal(every.draw(7).factor, W[1, 2, 2])
    low, high = metrics.interval(np.zeros(2), np.ones(2))
    assert 0 < low < high


def student_t(data):
    """Return pairs under another kernel than the package's."""
    delta = data["A"] - data["B"]
    scale = numpyro.sample("scale", dist.LogNormal(jnp.zeros(2), 0.3).to_event(1))
    numpyro.deterministic("M", jnp.diag(scale**2))
    b = numpyro.sample("b", dist.Gamma(5.0, 5.0))
    D = ((delta * scale) ** 2).sum(1)
    log_p = -b - 2 * jnp.log1p(D / 3)
    numpyro.sample("same", Coincidence(log_p), obs=data["same"])


def pairs(n=12):
    A, B = RNG.normal(size=(2, n, 2))
    return {"A": A, "B": B, "same": np.arange(n) % 2}


@pytest.mark.long
def test_a_model_of_ones_own_gets_no_link_that_it_did_not_state():
    draws = pm.sample(student_t, pairs(), method="laplace", n_draws=20, n_chains=1)
    found = pm.draws_to_metric(draws, "prediction", pairs_independent=True)
    assert found.draw(0).link is None
    with pytest.raises(ValueError, match="this metric only has distances"):
        found.same_probability(np.zeros(2), np.ones(2))

    def stated(sites):
        return pm.Mahalanobis(
            np.diag(sites["scale"]), pm.metric.Link(sites["b"], np.asarray(0.5))
        )

    own = pm.draws_to_metric(
        draws, "prediction", pairs_independent=True, to_metric=stated
    )
    assert 0 < own.same_probability(np.zeros(2), np.ones(2)) < 1


@pytest.mark.long
@pytest.mark.parametrize("axes", [["feature", "feature"], ["draw", "feature"]])
def test_axes_that_share_a_name_are_refused(axes):
    with pytest.raises(ValueError, match=r"dims must be distinct.*'M'"):
        pm.sample(
            student_t,
            pairs(),
            method="laplace",
            n_draws=5,
            n_chains=1,
            dims={"M": axes},
        )


def test_a_metric_that_JAX_does_not_know_is_told_how():
    class Plain:
        is_distance = symmetric = True

        def dissimilarity(self, q, Y):
            return abs(Y - q).sum(-1)

        def pairwise(self, Q, P):
            return abs(Q[:, None] - P).sum(-1)

    with pytest.raises(ValueError, match=r"draws .*got Plain"):
        pm.draws_to_metric(
            grouped(), "prediction", sel={"group": "a"}, to_metric=lambda s: Plain()
        )
