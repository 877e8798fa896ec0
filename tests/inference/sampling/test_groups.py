"""ArviZ's checks of a model work on what every learner's ``sample`` returns."""

import warnings

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from sklearn.datasets import load_iris

import probmetric as pm
from probmetric.data.containers import Pairs
from probmetric.inference.dca_gm.draws import new_classes
from probmetric.inference.lca.draws import new_labels
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.models.lca import LCAPrior, lca
from probmetric.storage.draws_file import load_draws, save_draws

FEW = {"n_chains": 2, "n_draws": 150, "seed": 1, "progress": False}
ALL = {"log_likelihood": True, "predictive": True, "prior_draws": 120}
X, Y = load_iris(return_X_y=True)
X, Y = X[::3, :2], Y[::3]


def own_model(data, *, learning_rate=1.0):
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("n", len(data)):
        one = dist.Normal(mean, scale)
        numpyro.sample("x", one, obs=data)


def pairs():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 2, 2))
    squared = np.sum((A[:, 0] - A[:, 1]) ** 2, 1)
    return A, (rng.uniform(size=60) < np.exp(-0.3 - 0.3 * squared)).astype(int)


def of_pairs():
    return pm.LCA(2, learning_rate=1).fit_pairs(*pairs()).sample


def of_model(method="nuts", **options):
    return pm.sample(own_model, X[:, 0], method=method, **options)


# The sampler; quantities to look at; the observed site; whether a unit may be left out,
# and whether that unit is one number.
LEARNERS = {
    "own model": (lambda: of_model, ["mean", "scale"], "x", True, True),
    "LCA": (lambda: pm.LCA(1).fit(X, Y).sample, ["M", "b"], "y", False, True),
    "LCA of pairs": (of_pairs, ["M", "b"], "y", True, True),
    "two-stage": (
        lambda: pm.TwoStageMixture(1).fit(X).sample,
        ["mean", "covariance_total"],
        "X",
        True,
        False,
    ),
    "DCA-GM": (
        lambda: pm.DCAGM(n_components=1, n_gaussians=1).fit(X, Y).sample,
        ["J"],
        "y",
        True,
        True,
    ),
}


STUDIES = {*LEARNERS} - {"own model", "LCA"}
"""A minute each, for the same questions as the others."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.study if name in STUDIES else pytest.mark.slow
        )
        for name in LEARNERS
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_arviz_works_on_what_a_learner_returns(name, tmp_path):
    learner, quantities, site, units, numbers = LEARNERS[name]
    tree = learner()("nuts", **FEW, **ALL)
    save_draws(tree, tmp_path / "draws.nc")
    back = load_draws(tmp_path / "draws.nc")
    assert back.identical(tree)
    statistics = tree["sample_stats"].to_dataset()
    assert {
        "diverging", "energy", "tree_depth", "reached_max_treedepth", "n_steps",
        "acceptance_rate", "step_size", "lp",
    } <= set(statistics)  # fmt: skip
    table = az.psense_summary(tree, var_names=quantities)
    assert np.isfinite(table[["prior", "likelihood"]].to_numpy(float)).all()
    observed, new = tree["observed_data"][site], tree["posterior_predictive"][site]
    assert new.dims == ("chain", "draw", *observed.dims)
    assert new.shape == (2, 150, *observed.shape)
    assert tree["prior_predictive"][site].shape == (1, 120, *observed.shape)
    assert set(tree["prior"].data_vars) == set(tree["posterior"].data_vars)
    az.plot_ppc_dist(tree, num_samples=10)
    az.plot_ppc_dist(tree, num_samples=10, group="prior_predictive")
    az.plot_prior_posterior(tree, var_names=quantities)
    az.plot_energy(tree)
    if observed.dtype.kind == "i":
        az.plot_ppc_rootogram(tree)
    if units:
        assert np.isfinite(az.loo(tree).elpd)
        assert az.loo(tree).elpd == pm.loo(tree).elpd
    else:
        with pytest.raises(TypeError, match="several log likelihood arrays"):
            az.loo(tree)
    if units and numbers:
        pit = az.loo_pit(tree)[site]
        assert ((pit >= 0) & (pit <= 1)).all()
        az.plot_loo_pit(tree)


class Setup:
    """LCA of one row, whose posterior has two sheets, and its draws."""

    prior = LCAPrior(np.array([[0.6, 0.3]]), c=0.8, lam=2.0, b_shape=1.0, b_rate=1.0)

    def __init__(self, **options):
        A, y = pairs()
        rows = np.arange(60)
        self.pairs = Pairs(A.transpose(1, 0, 2).reshape(-1, 2), rows, rows + 60, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            self.tree = pm.sample(
                lca, self.pairs, prior=self.prior, prior_draws=4000, **FEW, **options
            )

    def log_W(self, W):
        sd = self.prior.c / np.sqrt(self.prior.lam)
        return stats.norm(self.prior.mean, sd).logpdf(W).sum((-1, -2))


@pytest.fixture(scope="module")
def setup():
    return Setup(log_likelihood=True, options={"learning_rate": 0.5})


@pytest.mark.long
def test_the_log_prior_of_pooled_draws_is_that_of_the_folded_prior(setup):
    W, log_b = (setup.tree["posterior"][k].to_numpy() for k in ("W", "log_b"))
    found = setup.tree["log_prior"]
    # One row has one mirror image, -W; the draws lie on the more probable side.
    assert (setup.log_W(W) >= setup.log_W(-W)).all()
    both = np.logaddexp(setup.log_W(W), setup.log_W(-W))
    np.testing.assert_allclose(found["W"], both, rtol=1e-9)
    of_b = stats.expon.logpdf(np.exp(log_b)) + log_b
    np.testing.assert_allclose(found["log_b"], of_b, rtol=1e-9)


@pytest.mark.long
def test_draws_of_the_folded_prior_are_its_own(setup):
    """An integral over them of q/p, for a q on the same half of the plane, is one."""
    W = setup.tree["prior"]["W"].to_numpy()[0]
    assert (setup.log_W(W) >= setup.log_W(-W)).all()
    b = setup.tree["prior"]["b"].to_numpy()[0]
    assert stats.kstest(b, stats.expon.cdf).pvalue > 1e-3
    log_p = np.logaddexp(setup.log_W(W), setup.log_W(-W))
    q = stats.norm(0, 0.5).logpdf(W).sum((-1, -2)) + np.log(2)  # folded, too
    ratio = np.exp(q - log_p)
    z = (ratio.mean() - 1) / (ratio.std() / np.sqrt(len(ratio)))
    assert abs(z) < 4
    unfolded = 2 * ratio  # the prior of W alone would be half as high: a wrong claim
    assert abs(unfolded.mean() - 1) > 20 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.long
def test_parts_add_up_to_the_density_that_is_sampled(setup):
    total = sum(setup.tree["log_prior"].to_dataset().values())
    likelihood = setup.tree["log_likelihood"]
    total = total + likelihood["y"].sum("pair") + likelihood["power"]
    # The sampler's density halves both sheets, and its coordinates have no Jacobian.
    lp = setup.tree["sample_stats"]["lp"]
    np.testing.assert_allclose(total - np.log(2), lp, rtol=1e-8)


@pytest.mark.long
def test_statistics_of_the_sampler_say_how_deep_trees_are():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        tree = of_model(pm.NUTS(max_tree_depth=2), **FEW)
    found = tree["sample_stats"].to_dataset()
    assert found["reached_max_treedepth"].any()
    full = found["n_steps"] == 3
    np.testing.assert_array_equal(found["reached_max_treedepth"], full)
    depth = np.floor(np.log2(found["n_steps"] + 1))
    np.testing.assert_array_equal(found["tree_depth"], depth)
    # lp is the density of (mean, log scale): by hand, Jacobian included.
    mean, scale = (tree["posterior"][k].to_numpy() for k in ("mean", "scale"))
    prior = stats.norm(0, 10).logpdf(mean), stats.halfnorm.logpdf(scale)
    np.testing.assert_allclose(tree["log_prior"]["mean"], prior[0], rtol=1e-9)
    np.testing.assert_allclose(tree["log_prior"]["scale"], prior[1], rtol=1e-9)
    terms = stats.norm(mean[..., None], scale[..., None]).logpdf(X[:, 0])
    np.testing.assert_allclose(tree["log_likelihood"]["total"], terms.sum(-1))
    np.testing.assert_allclose(sum(prior) + terms.sum(-1) + np.log(scale), found["lp"])


def test_new_labels_have_the_probability_of_the_model():
    rng = np.random.default_rng(0)
    points, rows = rng.normal(size=(20, 2)), np.arange(10)
    data = Pairs(points, rows, rows + 10, None)
    M, b = np.array([[1.0, 0.2], [0.2, 0.5]]), 0.3
    draws = np.broadcast_to(M, (1, 20_000, 2, 2)), np.full((1, 20_000), b)
    new = new_labels(*draws, data, seed=0)[0]
    delta = points[:10] - points[10:]
    p = np.exp(-b - np.einsum("ni,ij,nj->n", delta, M, delta) / 2)
    z = (new.mean(0) - p) / np.sqrt(p * (1 - p) / 20_000)
    assert abs(z).max() < 4


def test_new_classes_follow_their_probabilities():
    P = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    new = new_classes(np.broadcast_to(P, (20_000, 2, 3)), seed=0)
    share = np.stack([(new == c).mean(0) for c in range(3)], 1)
    np.testing.assert_allclose(share, P, atol=0.015)
    assert (new[:, 1] == 0).all()


def test_axes_of_a_users_own_model_are_labeled():
    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("x", dist.Normal(mean, 1.0).to_event(1), obs=data)

    tree = pm.sample(
        model, X[0], method="laplace", n_chains=1, n_draws=5, dims={"mean": ["group"]},
        coords={"group": ["a", "b"]},
    )  # fmt: skip
    assert list(tree["posterior"]["group"].to_numpy()) == ["a", "b"]


@pytest.mark.long
def test_a_model_without_a_plate_is_replicated_in_the_shape_of_its_data():
    def model(data):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("k", dist.Poisson(rate), obs=data)

    data = np.array([1, 2, 3, 5])
    few = {"n_chains": 1, "n_draws": 400, "seed": 0, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        tree = pm.sample(
            model, data, method="laplace", predictive=True, prior_draws=300, **few
        )
    new = tree["posterior_predictive"]["k"].to_numpy()
    assert new.shape == (1, 400, 4)
    assert np.ptp(new, axis=2).max() > 0  # Four observations, not one four times.
    assert tree["prior_predictive"]["k"].shape == (1, 300, 4)
