"""``HierarchicalLCA``: scikit-learn's contract, groups, units, draws, bad input."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

import probmetric as pm
from probmetric.estimators.hierarchical_lca import HierarchicalLCA
from probmetric.registry import fit_named, takes_groups
from tests.dump import assert_refused

X, Y = load_wine(return_X_y=True)
X = X[:, :3]
SITE = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
PAIRS = np.stack([X[:40], X[40:80]], 1)


@pytest.fixture(scope="module")
def fitted():
    return HierarchicalLCA().fit(X, Y, groups=SITE)


def grouped_pairs(seed=0, n=120, scales=((3.0, 0.2), (0.2, 3.0))):
    """Independent pairs in groups to which other features matter."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(scales)), n)
    x, delta = rng.normal(size=(2, len(group), 2))
    squared = np.sum((np.asarray(scales)[group] * delta) ** 2, 1)
    y = (rng.exponential(size=len(group)) > 0.1 + squared / 2).astype(int)
    return np.stack([x, x + delta], 1), y, group


@pytest.mark.long
def test_groups_to_which_other_features_matter_are_told_apart():
    pairs, y, group = grouped_pairs()
    model = HierarchicalLCA(standardize=False).fit_pairs(pairs, y, groups=group)
    assert model.spread_ > 0.1
    first, second = (np.asarray(model.get_metric(g).matrix) for g in (0, 1))
    assert first[0, 0] > 3 * first[1, 1]
    assert second[1, 1] > 3 * second[0, 0]
    known = model.same_probability(pairs, groups=group)
    fresh = model.same_probability(pairs)
    loss = [-np.mean(np.log(np.where(y == 1, p, 1 - p))) for p in (known, fresh)]
    assert loss[0] < loss[1]


@pytest.mark.long
def test_names_of_groups_are_only_names(fitted):
    names = {"a": 7, "b": 3, "c": 5}
    other = HierarchicalLCA().fit(X, Y, groups=[names[s] for s in SITE])
    for old, new in names.items():
        np.testing.assert_allclose(
            other.get_metric(new).matrix, fitted.get_metric(old).matrix, rtol=1e-4
        )


@pytest.mark.long
def test_unknown_groups_are_new_ones(fitted):
    fresh = fitted.same_probability(PAIRS)
    np.testing.assert_array_equal(
        fitted.same_probability(PAIRS, groups=["z"] * 40), fresh
    )
    assert np.all((fresh >= 0) & (fresh <= 1))
    with pytest.raises(ValueError, match=r"group must be one of \['a', 'b', 'c'\]"):
        fitted.get_metric("z")


def test_a_given_spread_of_zero_is_one_metric():
    model = HierarchicalLCA(spread=0.0).fit(X, Y, groups=SITE)
    assert model.spread_ == 0
    np.testing.assert_array_equal(model.group_components_[1], model.components_)
    with pytest.raises(ValueError, match=r"method must be .*nuts"):
        model.sample("nuts")


@pytest.mark.parametrize("groups", [None, ["all"] * 150])
def test_one_group_is_lca_as_it_says_nothing_of_the_spread(groups):
    iris, y = load_iris(return_X_y=True)
    model = HierarchicalLCA().fit(iris, y, groups=groups)
    assert model.spread_ == 0
    assert model.spread_posterior()[0].tolist() == [0]
    pairs = np.stack([iris[:75], iris[75:]], 1)
    own = model.get_metric(None if groups is None else "all")
    np.testing.assert_array_equal(own.factor, model.get_metric().factor)
    np.testing.assert_allclose(
        model.same_probability(pairs, groups=groups and groups[:75]),
        model.same_probability(pairs),
        rtol=1e-10,
    )
    with pytest.raises(ValueError, match=r"method must be .* one group"):
        model.sample("nuts")


def test_one_group_of_pairs_has_the_model_of_lca():
    pairs, y, _ = grouped_pairs()
    model = HierarchicalLCA().fit_pairs(pairs, y)
    lca = pm.LCA(regularization=10.0, tol=1e-8).fit_pairs(pairs, y)
    np.testing.assert_allclose(
        model.get_metric().matrix, lca.get_metric().matrix, rtol=1e-3, atol=1e-4
    )


def test_draws_are_metrics_by_group_and_go_to_files(fitted, tmp_path):
    draws = fitted.sample("laplace", n_draws=25)
    assert draws["posterior"]["M_group"].dims[2:] == ("group", "feature", "feature_bis")
    assert draws["posterior"]["group"].to_numpy().tolist() == ["a", "b", "c"]
    metrics = fitted.posterior_metric("prediction", group="b", draws=draws, n_draws=10)
    M = draws["posterior"]["M_group"].sel(group="b")[0, 0].to_numpy()
    first = np.asarray(metrics.metrics()[0].matrix)
    np.testing.assert_allclose(first, M, rtol=1e-8, atol=1e-12)
    pm.save_metric(fitted.get_metric("b"), tmp_path / "b.npz")
    again = pm.load_metric(tmp_path / "b.npz")
    np.testing.assert_array_equal(again.factor, fitted.get_metric("b").factor)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:R-hat above 1.01")  # Two short chains: 1.01 here.
def test_nuts_draws_lie_around_the_fit():
    scales = ((1.2, 0.6), (0.6, 1.2), (1.0, 1.0), (1.3, 0.8))
    pairs, y, group = grouped_pairs(n=60, scales=scales)
    model = HierarchicalLCA(standardize=False).fit_pairs(pairs, y, groups=group)
    nuts = pm.NUTS(n_warmup=200)
    draws = model.sample(nuts, n_draws=500, n_chains=2, progress=False)["posterior"]
    spread = draws["spread"].to_numpy()
    low, high = np.quantile(spread, [0.01, 0.99])
    assert low < max(model.spread_, 0.1) < high
    assert set(draws["group"].to_numpy()) == {0, 1, 2, 3}


def test_a_file_with_classes_and_groups_is_fitted_by_both(fitted):
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    data = SimpleNamespace(frame=frame, y=Y, groups=SITE)
    named = fit_named(HierarchicalLCA(), data)
    np.testing.assert_array_equal(named.group_components_, fitted.group_components_)
    assert not takes_groups(named)
    assert takes_groups(pm.TwoStageMixture())


def one_far_point(spread):
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(30, 3)), np.arange(30) % 3
    points[0] *= 1e8
    return HierarchicalLCA(spread=spread).fit(points, labels)


def draws_of(groups):
    model = HierarchicalLCA(spread=0.0).fit(X, Y, groups=groups)
    return model.sample("laplace", n_draws=2, n_chains=1)


def of_draws(model, draws):
    return model.posterior_metric("prediction", group="c", draws=draws)


FAR = np.where(Y == 2, "far", "near")
REFUSED = [
    lambda m: HierarchicalLCA().fit(X, Y, groups=SITE[:5]),
    lambda m: HierarchicalLCA().fit(X, Y, groups=Y),
    lambda m: HierarchicalLCA().fit(X, Y, groups=FAR),
    lambda m: m.same_probability(PAIRS, groups=SITE[:5]),
    lambda m: m.same_probability(PAIRS, groups=[0] * 40),
    lambda m: m.posterior_metric("prediction", group=0),
    lambda m: m.get_metric(["a", "b"]),
    lambda m: m.get_metric(float("nan")),
    lambda m: of_draws(m, pm.LCA().fit(X, Y).sample("laplace", n_draws=2)),
    lambda m: of_draws(m, draws_of(np.where(SITE == "c", "d", SITE))),
    lambda m: one_far_point(None),
]


def test_bad_input_is_refused(fitted):
    calls = [partial(call, fitted) for call in REFUSED]
    assert_refused(calls, "estimators/hierarchical_lca.txt")


def test_numbers_are_no_labels_of_text():
    numbered = HierarchicalLCA(spread=0.0).fit(X, Y, groups=np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match=r"group must be a number, .*, got '0'"):
        numbered.get_metric("0")
    numbered.get_metric(np.int64(1))


def test_steps_that_end_before_a_mode_are_warned_of():
    with pytest.warns(ConvergenceWarning, match="MAX_STEPS"):
        HierarchicalLCA(max_iter=1).fit(X, Y, groups=SITE)
