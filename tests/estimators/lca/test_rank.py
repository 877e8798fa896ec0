"""How ``LCA`` chooses the number of rows of its map: by folds, by refits."""

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.data.padding import pad_pairs
from probmetric.data.pairs import all_pairs
from probmetric.estimators.lca import rank
from probmetric.estimators.lca.rank import TOLERANCE
from probmetric.inference import lca
from probmetric.inference.choose import choose_strength
from probmetric.neighbors.votes import BANDWIDTHS


def classes_in(rows, n, seed, *, noise=3):
    """Return n points, with noise, of ``rows + 1`` classes at a simplex's corners."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % (rows + 1)
    corners = np.vstack([np.zeros(rows), 6 * np.eye(rows)])
    X = corners[y] + rng.normal(size=(n, rows))
    return np.hstack([X, rng.normal(size=(n, noise))]), y


@pytest.mark.long
@pytest.mark.parametrize("how", ["cv", "loo"])
def test_classes_apart_in_one_direction_need_one_row_and_in_three_more(how):
    X, y = classes_in(1, 60, 0)
    model = pm.LCA(how).fit(X, y)
    assert len(model.components_) == 1
    assert [choice.n_components for choice in model.ranks_] == [1, 2, 3, 4]
    X, y = classes_in(3, 60, 0, noise=1)
    model = pm.LCA(how).fit(X, y)
    assert len(model.components_) > 1
    least = min(choice.loss for choice in model.ranks_)
    assert model.ranks_[0].loss - least > 3 * model.ranks_[0].standard_error


@pytest.fixture(scope="module")
def by_folds():
    """Return points, classes and a map whose rows folds chose."""
    X, y = classes_in(2, 45, 1, noise=1)
    return X, y, pm.LCA("cv", standardize=False).fit(X, y)


def log_votes(W, X, y, at, width, among):
    """Return log P of one point's class by soft votes of others, straight from Eqs."""
    Z = X @ W.T
    squares = ((Z[among, None] - Z[None, among]) ** 2).sum(2)
    k = min(5, len(among) - 1)
    scale = np.median(np.sort(squares, 1)[:, k])
    kernel = np.exp(-((Z[among] - Z[at]) ** 2).sum(1) / (2 * scale * width))
    same = y[among] == y[at]
    return np.log(0.98 * kernel[same].sum() / kernel.sum() + 0.02 * same.mean())


@pytest.mark.long
def test_losses_of_loo_are_those_of_maps_fitted_without_each_point():
    """Of all pairs those without a point are all pairs of the others."""
    X, y = classes_in(1, 16, 3, noise=1)
    X[:, 0] /= 4  # So that votes are not all of one mind.
    X = (X - X.mean(0)) / X.std(0)
    settings = {"pairs": "all", "standardize": False, "tol": 1e-9}
    model = pm.LCA("loo", **settings).fit(X, y)
    for choice in model.ranks_:
        p = choice.n_components
        whole = pm.LCA(p, **settings).fit(X, y).fitted_
        sums, seen = np.zeros((2, len(BANDWIDTHS)))
        for i in range(len(X)):
            rest = np.delete(np.arange(len(X)), i)
            pairs = all_pairs(X[rest], y[rest])
            with jax.enable_x64(True):
                found = lca.fit(
                    pad_pairs(pairs),
                    whole.prior,
                    init=whole.fit.params,
                    learning_rate=whole.learning_rate,
                    tol=1e-9,
                )
            W = np.asarray(found.params.W)
            seen -= [
                log_votes(whole.fit.params.W, X, y, i, width, rest)
                for width in BANDWIDTHS
            ]
            sums -= [log_votes(W, X, y, i, width, rest) for width in BANDWIDTHS]
        assert choice.loss == pytest.approx(sums.min() / len(X), abs=5e-4)
        assert abs(choice.loss - seen.min() / len(X)) > 1e-3, "refits would not matter"


@pytest.mark.long
def test_losses_of_cv_are_those_of_the_whole_recipe_on_folds(by_folds):
    X, y, model = by_folds

    def learn(rows):
        for choice in model.ranks_:
            own = pm.LCA(choice.n_components, standardize=False)
            yield own.fit(X[rows], y[rows]).components_

    ranks = [choice.n_components for choice in model.ranks_]
    by_hand = choose_strength(learn, X, y, ranks, tolerance=1.0)
    assert len(model.components_) == by_hand.strength
    losses = [choice.loss for choice in model.ranks_]
    np.testing.assert_allclose(losses, by_hand.losses, rtol=1e-9)


@pytest.mark.long
def test_the_fewest_rows_within_a_standard_error_are_taken(by_folds):
    model = by_folds[2]
    least = min(choice.loss for choice in model.ranks_)
    fits = [c.loss - least <= TOLERANCE * c.standard_error for c in model.ranks_]
    assert model.ranks_[fits.index(True)].n_components == len(model.components_)
    assert not fits[0], "one row should be too few here, or this test says nothing"
    best = min(model.ranks_, key=lambda choice: choice.loss)
    assert best.standard_error == 0


@pytest.mark.long
def test_what_follows_a_fit_has_the_rows_chosen():
    X, y = classes_in(1, 24, 0, noise=1)
    model = pm.LCA("cv", regularization="cv").fit(X, y)
    assert model.choices_
    p = len(model.components_)
    assert p < X.shape[1]
    again = pm.LCA(p, regularization="cv").fit(X, y)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert not again.ranks_
    drawn = model.sample("laplace", n_draws=3, n_chains=1)
    M = drawn["posterior"]["M"].values[0]
    assert [np.linalg.matrix_rank(one, tol=1e-6) for one in M] == [p] * 3


@pytest.mark.parametrize(
    "given, what",
    [
        ({"n_anchors": 20}, "n_anchors"),
        ({"prior_mean": np.eye(5)[:2]}, "a matrix as prior_mean"),
    ],
)
@pytest.mark.parametrize("how", ["cv", "loo"])
def test_what_folds_and_refits_cannot_have_is_refused(given, what, how):
    X, y = classes_in(2, 45, 1)
    words = f"n_components must be an integer or None with {what}, got '{how}'"
    with pytest.raises(ValueError, match=words):
        pm.LCA(how, **given).fit(X, y)


@pytest.mark.long
def test_folds_need_three_of_a_class_and_take_no_more_neighbors_than_there_are():
    X, y = classes_in(1, 24, 0, noise=1)
    small = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    words = r"n_components='cv' requires 3 rows in each class.* with 2\. Use 'loo'"
    with pytest.raises(ValueError, match=words):
        pm.LCA("cv").fit(X[small], y[small])
    found = pm.LCA("cv", n_targets=11, n_impostors=12).fit(X, y)
    assert np.isfinite([choice.loss for choice in found.ranks_]).all()


@pytest.mark.long
def test_refits_that_do_not_converge_leave_a_number_of_rows_out(monkeypatch):
    X, y = classes_in(1, 24, 0, noise=1)
    real = rank.leave_out

    def stuck(fitted, group):
        if len(fitted.fit.params.W) == 1:
            raise RuntimeError("jackknife: MAX_STEPS")
        return real(fitted, group)

    monkeypatch.setattr(rank, "leave_out", stuck)
    with pytest.warns(UserWarning, match="n_components=1 was not considered"):
        found = pm.LCA("loo").fit(X, y)
    assert found.ranks_[0].loss == np.inf
    assert np.isnan(found.ranks_[0].standard_error)
    assert len(found.components_) == 2


def test_pairs_weights_sources_and_other_words_are_refused():
    X, y = classes_in(2, 45, 1)
    pairs = np.stack([X[:20], X[20:40]], 1)
    with pytest.raises(ValueError, match=r"n_components must .* with pairs, got 'cv'"):
        pm.LCA("cv").fit_pairs(pairs, np.arange(20) % 2)
    with pytest.raises(ValueError, match=r"n_components must .* with sample_weight"):
        pm.LCA("loo").fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match=r"n_components must .* with a source"):
        pm.LCA("loo").fit(pm.open(X, label=y))
    with pytest.raises(ValueError, match=r"n_components must .*'cv'.*'loo'.*elbow"):
        pm.LCA("elbow").fit(X, y)
