"""Draws of a model of one's own become metrics: by M, by a label, by a function."""

import numpy as np
import pytest
import xarray as xr

import probmetric as pm

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


def test_the_metric_of_a_group_has_its_M_and_the_common_b():
    draws = grouped()
    found = pm.draws_to_metric(draws, "prediction", sel={"group": "b"})
    assert (found.n_draws, found.source, found.pairs_independent) == (10, "nuts", False)
    L = found.draw(7).factor
    np.testing.assert_allclose(L.T @ L, W[1, 2, 1].T @ W[1, 2, 1], atol=1e-12)
    b = draws["posterior"]["b"].to_numpy()[1, 2]
    assert found.draw(7).link.b == b


def test_a_function_makes_a_factor_or_a_metric_of_one_draw():
    def link(sites):
        assert set(sites) == {"M", "W", "b"}
        return pm.Mahalanobis(sites["W"], pm.Link(sites["b"], np.asarray(0.5)))

    given = {"sel": {"group": "c"}, "n_draws": 4, "pairs_independent": True}
    draws = grouped()
    metrics = pm.draws_to_metric(draws, "intervals", to_metric=link, **given)
    factors = pm.draws_to_metric(
        draws, "intervals", to_metric=lambda sites: sites["W"], **given
    )
    assert metrics.n_draws == factors.n_draws == 4
    np.testing.assert_array_equal(metrics.draw(0).factor, W[0, 0, 2])
    np.testing.assert_array_equal(factors.draw(3).factor, W[1, 4, 2])
    low, high = metrics.interval(np.zeros(2), np.ones(2))
    assert 0 < low < high


@pytest.mark.parametrize(
    ("draws", "given", "error", "words"),
    [
        (grouped(), {}, ValueError, r"sel: expected one matrix M .* \['group', 'feat"),
        (grouped(), {"sel": {"site": 0}}, ValueError, r"sel: expected an axis among"),
        (grouped(), {"sel": {"group": 1}}, ValueError, r"one of \['a', 'b', 'c'\] for"),
        (tree(b=(("chain", "draw"), W[..., 0, 0, 0])), {}, ValueError, "to_metric"),
        (grouped(), {"to_metric": lambda s: s["b"]}, TypeError, r"factor \(p, d\) or"),
        (xr.DataTree(), {}, ValueError, "draws: expected a group 'posterior'"),
    ],
)
def test_what_is_no_metric_is_refused_with_what_helps(draws, given, error, words):
    with pytest.raises(error, match=words):
        pm.draws_to_metric(draws, "prediction", **given)


def test_an_unknown_purpose_is_refused_before_any_draw_is_read():
    def never(sites):
        raise AssertionError(sites)

    with pytest.raises(ValueError, match="purpose: expected"):
        pm.draws_to_metric(grouped(), "votes", to_metric=never)
