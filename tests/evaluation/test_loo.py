"""Model choice: LOO against quadrature, held-out votes by hand, and what is refused."""

import warnings

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold

import probmetric as pm
from probmetric.data.containers import Pairs
from probmetric.inference.lca.draws import log_likelihood
from probmetric.models.lca import LCAParams, LCAPrior, lca, simulate
from tests.dump import assert_refused

N = 40


@pytest.fixture(scope="module")
def pairs():
    """Draw labels of one-dimensional pairs that share no point."""
    X = np.random.default_rng(6).normal(size=(2 * N, 1))
    rows = np.arange(N)
    given = Pairs(X, rows, rows + N, None)
    with jax.enable_x64(True):
        params = LCAParams(np.array([[1.5]]), np.log(0.3), 1.0)
        drawn = simulate(jax.random.key(0), params, given)
    return drawn._replace(y=np.asarray(drawn.y))


@pytest.fixture(scope="module")
def draws(pairs):
    """Sample W and log σ² of those pairs with every pair's log likelihood."""
    return pm.sample(
        lca,
        pairs,
        prior=LCAPrior(np.ones((1, 1)), lam=4.0),
        method=pm.NUTS(n_warmup=200),
        seed=0,
        n_chains=2,
        n_draws=1000,
        identified=["M", "b"],
        log_likelihood=True,
    )


@pytest.mark.long
def test_loo_is_the_quadrature_of_each_pair_left_out(pairs, draws):
    w, s = np.linspace(-7, 9, 801)[:, None], np.linspace(-6, 4, 301)[None, :]
    sigma2 = np.exp(s)
    log_prior = -2 * (w - 1) ** 2 - 0.5 * (s - np.log(0.3)) ** 2
    delta = (pairs.X[pairs.i] - pairs.X[pairs.j])[:, 0]
    log_lik = np.empty((N, w.size, s.size))
    for n in range(N):
        t = 0.5 * np.log1p(2 * sigma2) + (w * delta[n]) ** 2 / (2 + 4 * sigma2)
        log_lik[n] = -t if pairs.y[n] else np.log(-np.expm1(-t))
    whole = log_prior + log_lik.sum(0)
    exact = np.array([logsumexp(whole) - logsumexp(whole - own) for own in log_lik])
    found = pm.loo(draws)
    # 2000 draws, at least 400 effective; a pair's log ratio has sd below .6 over the
    # posterior, so that .03 is its Monte Carlo error and 5 of them are .15 (false
    # alarm below 1e-4 over the 40 pairs); the sum's errors partly cancel.
    np.testing.assert_allclose(found.elpd_i, exact, atol=0.15)
    assert abs(found.elpd - exact.sum()) < 0.5
    # Control: the in-sample score, what LOO corrects, is further off than that.
    inside = logsumexp(log_lik + whole, axis=(1, 2)) - logsumexp(whole)
    assert abs(inside.sum() - exact.sum()) > 0.5


@pytest.mark.long
def test_an_estimators_log_likelihood_is_that_of_the_numpyro_model(pairs, draws):
    posterior = draws["posterior"]
    ours = log_likelihood(posterior["M"].to_numpy(), posterior["b"].to_numpy(), pairs)
    theirs = draws["log_likelihood"]["y"].to_numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def log_likelihoods(of_first):
    """Draws of 100 units, of which the first has importance weights of a heavy tail."""
    rng = np.random.default_rng(0)
    log_p = -rng.exponential(size=100) + 0.05 * rng.normal(size=(2, 2000, 100))
    log_p[:, :, 0] = of_first(rng.exponential(size=(2, 2000)), rng.random((2, 2000)))
    array = xr.DataArray(log_p, dims=("chain", "draw", "y_dim_0"))
    posterior = xr.Dataset({"m": array[:, :, 1].drop_vars("y_dim_0", errors="ignore")})
    groups = {"posterior": posterior, "log_likelihood": xr.Dataset({"y": array})}
    return xr.DataTree.from_dict(groups)


def test_a_high_k_hat_of_a_negligible_term_is_no_warning():
    # log p is 0 but for 4% of the draws: elpd_i is -0.2, the standard error 10.
    draws = log_likelihoods(lambda e, u: np.where(u < 0.04, -0.9 * e, -1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pm.loo(draws)
    assert found.pareto_k[0] > found.good_k
    assert abs(found.elpd_i[0]) < 0.1 * found.se


def test_a_high_k_hat_of_a_relevant_term_is_a_warning_with_its_share():
    draws = log_likelihoods(lambda e, u: -3.0 * e)
    with pytest.warns(UserWarning, match="0.70 for 1 of 100 observations") as told:
        found = pm.loo(draws)
    assert found.pareto_k[0] > 1
    share = f"which contribute {float(found.elpd_i[0]):.3g} to elpd {found.elpd:.3g}"
    assert share in str(told[0].message)


@pytest.mark.long
def test_loo_takes_dca_gms_class_probabilities():
    X, y = load_iris(return_X_y=True)
    model = pm.DCAGM().fit(X[::3], y[::3])
    drawn = model.sample("laplace", n_chains=1, n_draws=100, log_likelihood=True)
    P = drawn["posterior"]["class_probability"].to_numpy()
    own = drawn["log_likelihood"]["y"].to_numpy()
    np.testing.assert_allclose(np.exp(own[0, :, 3]), P[0, :, 3, y[9]])
    with pytest.raises(ValueError, match="queries must be None if log_likelihood"):
        model.sample("laplace", queries=X[:2], log_likelihood=True)


def test_loo_is_refused_where_it_is_invalid():
    def score(**attrs):
        tree = log_likelihoods(lambda e, u: e)
        tree.attrs = {"method": "nuts", **attrs}
        if "w" in attrs:
            w = xr.Dataset({"w": ("pair", tree.attrs.pop("w"))})
            tree["constant_data"] = xr.DataTree(w)
        return pm.loo(tree.drop_nodes(tree.attrs.pop("drop", [])))

    calls = {
        "laplace": lambda: score(method="laplace"),
        "bootstrap": lambda: score(method="bootstrap"),
        "rate": lambda: score(learning_rate=0.5),
        "weights": lambda: score(w=np.r_[2.0, np.ones(N - 1)]),
        "none": lambda: score(drop="log_likelihood"),
    }
    assert_refused(calls, "evaluation/loo_refused.txt")


@pytest.mark.filterwarnings("ignore:y. class 3 has only one row")
def test_held_out_is_the_score_of_each_fold_by_hand():
    """The only row of a fourth class trains every fold, and is never predicted."""
    X, y = load_iris(return_X_y=True)
    X, y = np.vstack([X, X[:1] + 9]), np.append(y, 3)
    table = pm.held_out({"lda": pm.PairLDA()}, X, y, n_folds=3, seed=1)
    scores = np.empty(0)
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    for train, test in folds.split(X[:150], y[:150]):
        train = np.append(train, 150)
        metric = pm.PairLDA().fit(X[train], y[train]).get_metric()
        votes = pm.KNeighborsClassifier(metric, 5).fit(X[train], y[train])
        P = votes.predict_proba(X[test])
        scores = np.append(scores, np.log(P[np.arange(len(test)), y[test]]))
    by_hand = scores.sum(), np.sqrt(150) * scores.std(ddof=1)
    np.testing.assert_allclose(table.loc["lda", ["elpd", "se"]], by_hand, rtol=1e-12)


def test_held_out_votes_are_averaged_where_there_are_draws():
    X, y = load_iris(return_X_y=True)
    asked = []

    class Drawn(pm.PairLDA):
        def posterior_metric(self, purpose):
            asked.append(purpose)
            return pm.posterior.PosteriorMetric([self.get_metric()] * 2, purpose)

    table = pm.held_out({"plain": pm.PairLDA(), "drawn": Drawn()}, X, y, n_folds=3)
    assert asked == ["prediction"] * 3
    np.testing.assert_allclose(table["elpd_diff"], 0, atol=1e-9)


@pytest.mark.long
def test_held_out_gives_labels_to_learners_of_groups_as_groups():
    seen = []

    class Grouped(pm.PairLDA):
        def fit(self, X, y=None, *, groups=None):
            seen.append((y, len(groups)))
            return super().fit(X, groups)

        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.target_tags.required = False
            return tags

    X, y = load_iris(return_X_y=True)
    pm.held_out({"sources": Grouped()}, X, y, n_folds=3)
    assert seen == [(None, 100)] * 3
