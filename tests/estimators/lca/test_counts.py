"""``LCA`` on counts: k of m judgments, which are the labels that they count."""

from functools import partial

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.checks.lca.criticism import criticize
from probmetric.data.containers import Pairs
from probmetric.data.padding import pad_pairs
from probmetric.data.pairs import as_labels
from probmetric.estimators.lca.estimator import LCA
from probmetric.inference.effects.groups import stacked
from probmetric.inference.effects.points import rows_of
from probmetric.inference.lca.draws import log_likelihood, new_labels
from probmetric.inference.lca.likelihood import log_likelihood as pooled
from probmetric.inference.lca.statistics import prepare
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior, hierarchical_lca
from probmetric.models.lca import LCAParams, LCAPrior, lca, simulate
from probmetric.models.point_effects import PointEffectsPrior, point_effects
from tests.dump import assert_refused

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) * [1.0, 2.0, 0.5]
INDEX = np.arange(200).reshape(100, 2)
TRIALS = RNG.integers(1, 6, 100)
NEAR = np.exp(-0.1 - 0.4 * (X[INDEX[:, 0], 0] - X[INDEX[:, 1], 0]) ** 2)
COUNTS = RNG.binomial(TRIALS, NEAR)
REPEATED = np.repeat(INDEX, TRIALS, 0)
LABELS = np.concatenate([np.arange(m) < k for k, m in zip(COUNTS, TRIALS, strict=True)])
LABELS = LABELS.astype(int)
PAIRS = Pairs(X, *INDEX.T, COUNTS, trials=TRIALS)
PRIOR = LCAPrior(np.eye(2, 3), c=0.8, lam=2.0)


def learner(**settings):
    return LCA(preprocessor=X, tol=1e-12, **settings)


def of_counts(**settings):
    return learner(**settings).fit_pairs(INDEX, COUNTS, trials=TRIALS)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 2},
        {"regularization": "evidence", "learning_rate": 0.7},
    ],
    ids=str,
)
def test_counts_and_the_labels_that_they_count_fit_alike(settings):
    # Solvers end where the objective is flat to rounding: √eps in the position.
    tol = 1e-6
    one = of_counts(**settings)
    two = learner(**settings).fit_pairs(REPEATED, LABELS)
    for name in ("mean_", "scale_", "regularization_", "threshold_", "intercept_"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=tol)
    np.testing.assert_allclose(
        one.get_mahalanobis_matrix(), two.get_mahalanobis_matrix(), atol=tol
    )
    np.testing.assert_array_equal(one.predict(INDEX), two.predict(INDEX))
    ways = one.learning_rate_ * float(prepare(one.fitted_.pairs).ways)
    value = float(one.fitted_.fit.objective) - ways
    assert value == pytest.approx(float(two.fitted_.fit.objective), rel=1e-9)
    # One judgment less is another fit.
    fewer = np.maximum(COUNTS - (np.arange(100) == COUNTS.argmax()), 0)
    other = learner(**settings).fit_pairs(INDEX, fewer, trials=TRIALS)
    assert abs(other.intercept_ / two.intercept_ - 1) > 1e-4


def test_weights_go_with_counts():
    w = 0.5 + RNG.uniform(size=100)
    settings = {"standardize": False, "prior_mean": np.eye(3)}
    one = learner(**settings)
    one.fit_pairs(INDEX, COUNTS, sample_weight=w, trials=TRIALS)
    two = learner(regularization=one.regularization_, **settings)
    two.fit_pairs(REPEATED, LABELS, sample_weight=np.repeat(w, TRIALS))
    np.testing.assert_allclose(
        one.get_mahalanobis_matrix(), two.get_mahalanobis_matrix(), rtol=1e-5, atol=1e-7
    )


@pytest.mark.long
def test_draws_are_those_of_the_labels():
    one = of_counts(learning_rate=1)
    two = learner(learning_rate=1).fit_pairs(REPEATED, LABELS)
    draws = [m.sample("laplace", n_draws=40, n_chains=1, seed=3) for m in (one, two)]
    M, other = (d["posterior"]["M"].to_numpy() for d in draws)
    np.testing.assert_allclose(M, other, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:loo")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probmetric.inference.sampling.SamplingWarning")
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_each_count_has_its_binomial_term_in_draws_and_in_what_is_stored():
    model = of_counts(learning_rate=1)
    tree = model.sample(
        pm.NUTS(n_warmup=150),
        n_draws=100,
        n_chains=2,
        log_likelihood=True,
        predictive=True,
        prior_draws=50,
        progress=False,
    )
    M, b = (tree["posterior"][k].to_numpy() for k in ("M", "b"))
    found = tree["log_likelihood"]["y"].to_numpy()
    assert found.shape == (2, 100, 100)
    # The whole is the sum over labels and the number of their orders.
    labels = Pairs(X, *REPEATED.T, LABELS)
    whole = log_likelihood(M, b, labels).sum(-1) + float(prepare(PAIRS).ways)
    np.testing.assert_allclose(found.sum(-1), whole, rtol=1e-9)
    np.testing.assert_array_equal(tree["constant_data"]["trials"], TRIALS)
    for group in ("posterior_predictive", "prior_predictive"):
        drawn = tree[group]["y"].to_numpy()
        assert drawn.min() >= 0
        assert np.all(drawn <= TRIALS)
        assert np.any(drawn > 1)
    share = tree["posterior_predictive"]["y"].to_numpy().mean((0, 1)) / TRIALS
    assert abs(np.mean(share * TRIALS) / np.mean(COUNTS) - 1) < 0.2
    assert pm.loo(tree).n_data_points == 100
    pm.plots.predictive_check(tree, PAIRS)


def test_new_counts_have_the_moments_of_the_model():
    M, b = np.eye(3)[None, None].repeat(4000, 1) * 0.3, np.full((1, 4000), 0.2)
    drawn = new_labels(M, b, PAIRS, seed=0)[0]
    delta = X[INDEX[:, 0]] - X[INDEX[:, 1]]
    P = np.exp(-0.2 - 0.15 * np.sum(delta**2, 1))
    error = np.sqrt(TRIALS * P * (1 - P) / 4000) + 1e-3
    assert np.all(np.abs(drawn.mean(0) - TRIALS * P) < 5 * error)


def test_check_model_takes_counts_and_sees_judges_that_lapse():
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(300, 2, 2))
    P = np.exp(-0.1 - 0.5 * np.sum((pairs[:, 0] - pairs[:, 1]) ** 2, 1))
    trials = np.full(300, 6)
    found = {}
    for lapse in (0.0, 0.25):
        y = rng.binomial(trials, (1 - lapse) * P + 0.5 * lapse)
        model = LCA(learning_rate=1).fit_pairs(pairs, y, trials=trials)
        found[lapse] = {f.part: f for f in criticize(model, seed=0)}
    assert found[0.0]["predictive"].p_value > 0.01
    assert found[0.25]["predictive"].p_value < 0.01
    assert len(found[0.0]) == 4


def test_counts_pad_to_buckets_and_count_for_what_they_are():
    padded = pad_pairs(PAIRS)
    params = LCAParams(np.full((2, 3), 0.3), np.asarray(-1.0))
    with jax.enable_x64(True):
        values = [
            float(pooled(params, prepare(pairs, by_points=by_points)))
            for pairs in (PAIRS, padded)
            for by_points in (True, False)
        ]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    rows = as_labels(padded)
    assert int(np.sum(rows.y == 1)) == int(np.sum(rows.y == 0)) == 512
    assert as_labels(Pairs(X, *INDEX.T, COUNTS > 0)).trials is None


def test_the_model_simulates_counts():
    truth = LCAParams(np.eye(2, 3), np.asarray(-2.0))
    with jax.enable_x64(True):
        drawn = simulate(jax.random.key(0), truth, PAIRS._replace(y=None))
    assert np.all((drawn.y >= 0) & (drawn.y <= TRIALS))
    assert np.max(drawn.y) > 1


WRONG = [
    (COUNTS, TRIALS[:-1]),
    (COUNTS[:-1], TRIALS),
    (COUNTS, 0 * TRIALS),
    (COUNTS, TRIALS + 2**31),
    (COUNTS, TRIALS + 0.5),
    (COUNTS + 0.5, TRIALS),
    (TRIALS + 1, TRIALS),
    (COUNTS - 9, TRIALS),
    (COUNTS * np.nan, TRIALS),
    (COUNTS, TRIALS * np.inf),
    (0 * COUNTS, TRIALS),
    (TRIALS, TRIALS),
]


def test_bad_counts_are_named():
    fit = LCA(preprocessor=X).fit_pairs
    calls = [partial(fit, INDEX, y, trials=trials) for y, trials in WRONG]
    assert_refused(calls, "estimators/lca_counts.txt")


def test_bad_weights_of_counts_are_named():
    fit = partial(LCA(preprocessor=X).fit_pairs, INDEX, COUNTS, trials=TRIALS)
    weights = -np.ones(100), np.where(COUNTS > 0, 0.0, 1.0), np.ones(3)
    calls = [partial(fit, sample_weight=w) for w in weights]
    assert_refused(calls, "estimators/lca_count_weights.txt")


def test_models_without_counts_refuse_them():
    grouped = PAIRS._replace(anchor=np.arange(100) % 2)
    calls = [
        lambda: lca(PAIRS, PRIOR, latent=True),
        lambda: point_effects(PAIRS, PointEffectsPrior(PRIOR)),
        lambda: rows_of(PAIRS),
        lambda: stacked(grouped),
        lambda: hierarchical_lca(grouped, HierarchicalLCAPrior(PRIOR), n_groups=2),
    ]
    assert_refused(calls, "estimators/lca_models.txt")


def test_stated_probabilities_of_few_pairs_with_many_judges_are_judged():
    rng = np.random.default_rng(2)
    pairs = np.stack([np.zeros((40, 1)), np.linspace(0.1, 3, 40)[:, None]], 1)
    pairs = pairs + 10 * np.arange(40)[:, None, None]  # No two share a point.
    P = np.exp(-0.1 - 0.5 * (pairs[:, 0, 0] - pairs[:, 1, 0]) ** 2)
    trials = np.full(40, 100)
    found = []
    for lapse in (0.0, 0.5):
        y = rng.binomial(trials, (1 - lapse) * P + 0.5 * lapse)
        model = LCA(learning_rate=1).fit_pairs(pairs, y, trials=trials)
        own = {f.part: f for f in criticize(model, seed=0)}["calibration"]
        assert own.summary.startswith("P(same) of the model")
        assert "4,000 judgments of 40 held-out pairs" in own.summary
        found.append(own.p_value)
    assert found[0] > 0.01 > found[1]
