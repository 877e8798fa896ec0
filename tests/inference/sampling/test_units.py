"""Only log likelihoods of units that can be left out stand alone in their group."""

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from sklearn.datasets import load_iris

import probmetric as pm
from probmetric.data.containers import Pairs, Points
from probmetric.inference.lca.draws import log_likelihood
from probmetric.inference.sampling.units import with_terms
from probmetric.models.lca import LCAPrior, lca
from probmetric.storage.draws_file import load_draws, save_draws

N = 40


def disjoint(seed=0, w=None):
    rng = np.random.default_rng(seed)
    rows, y = np.arange(N), (rng.uniform(size=N) < 0.4).astype(int)
    return Pairs(rng.normal(size=(2 * N, 1)), rows, rows + N, y, w)


def drawn(pairs, **options):
    """Sample by Laplace: what is stored under which name needs no exact draws."""
    prior = LCAPrior(np.ones((1, 1)), lam=4.0)
    arguments = {"method": "laplace", "n_chains": 1, "n_draws": 100, "seed": 0}
    return pm.sample(
        lca, pairs, prior=prior, options=options, log_likelihood=True, **arguments
    )


def stands_apart(tree, message):
    """Check what the group says of itself, and that ArviZ and ``loo`` refuse it."""
    assert "pseudo_log_likelihood" not in tree.children
    assert set(tree["log_likelihood"].data_vars) == {"y", "power"}
    assert message in tree["log_likelihood"].attrs["reason"]
    with pytest.raises(TypeError, match="several log likelihood arrays"):
        az.loo(tree)
    with pytest.raises(ValueError, match=message):
        pm.loo(tree)


@pytest.fixture(scope="module")
def tempered():
    return drawn(disjoint(), learning_rate=0.5)


@pytest.mark.long
def test_a_tempered_likelihood_is_no_log_likelihood(tempered):
    tree = tempered
    stands_apart(tree, "learning_rate must be 1 for loo, got 0.5")
    M, b = (tree["posterior"][name].to_numpy() for name in ("M", "b"))
    terms, power = (tree["log_likelihood"][name] for name in ("y", "power"))
    assert terms.dims == ("chain", "draw", "pair")
    plain = log_likelihood(M, b, disjoint())
    np.testing.assert_allclose(terms, plain, rtol=1e-10)
    powered = log_likelihood(M, b, disjoint(), 0.5).sum(-1)
    np.testing.assert_allclose(terms.sum("pair") + power, powered, rtol=1e-10)


@pytest.mark.long
def test_weighted_pairs_have_no_log_likelihood():
    w = np.r_[2.0, np.ones(N - 1)]
    tree = drawn(disjoint(w=w))
    stands_apart(tree, "w must be 1 for loo")
    first = tree["log_likelihood"]["y"][..., 0]
    np.testing.assert_allclose(tree["log_likelihood"]["power"], first, atol=1e-9)


def test_pairs_built_from_labels_have_no_log_likelihood():
    X, y = load_iris(return_X_y=True)
    model = pm.LCA(1, learning_rate=1).fit(X[::5], y[::5])
    tree = model.sample("laplace", n_chains=1, n_draws=100, log_likelihood=True)
    stands_apart(tree, "must not share points")


def powered_model(points, *, learning_rate):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", len(points.X)):
        numpyro.sample("x", dist.Normal(mu, learning_rate**-0.5), obs=points.X[:, 0])


@pytest.mark.parametrize("rates", [np.ones(5), np.r_[1.0, 1.0, 1.0, 1.0, 0.5]])
def test_a_learning_rate_a_unit_is_one_where_all_are(rates):
    data = Points(np.arange(5.0)[:, None])
    options = {"learning_rate": rates}
    arguments = {"method": "laplace", "n_chains": 1, "n_draws": 100, "seed": 0}
    tree = pm.sample(
        powered_model, data, options=options, log_likelihood=True, **arguments
    )
    assert ("power" not in tree["log_likelihood"]) == np.all(rates == 1)


@pytest.mark.long
def test_a_file_that_calls_a_tempered_likelihood_a_log_likelihood_is_read(
    tmp_path, tempered
):
    tree = tempered
    terms = 0.5 * tree["log_likelihood"].to_dataset()[["y"]]
    old = tree.assign({"log_likelihood": xr.DataTree(terms)})
    save_draws(old, tmp_path / "old.nc")
    back = load_draws(tmp_path / "old.nc")
    np.testing.assert_array_equal(back["log_likelihood"]["y"], terms["y"])
    with pytest.raises(ValueError, match="learning_rate must be 1"):
        pm.loo(back)
    older = with_terms(tree.drop_nodes("log_likelihood"), dict(terms))
    assert "pseudo_log_likelihood" in older.children
    assert "log_likelihood" not in older.children
    with pytest.raises(ValueError, match="learning_rate must be 1"):
        pm.loo(older)


@pytest.mark.long
def test_a_total_is_no_unit():
    tree = pm.sample(
        lca,
        disjoint(),
        prior=LCAPrior(np.ones((1, 1)), lam=4.0),
        method="laplace",
        n_draws=100,
    )
    assert set(tree["log_likelihood"].data_vars) == {"total", "power"}
    with pytest.raises(TypeError, match="several log likelihood arrays"):
        az.loo(tree)
    with pytest.raises(ValueError, match="draws must contain a log likelihood for"):
        pm.loo(tree)
