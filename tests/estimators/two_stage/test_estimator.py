"""``TwoStageMixture``: units, ranges, pairs, parts, bad input."""

import copy

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score

from probmetric import TwoStageMixture


@pytest.fixture(scope="module")
def sources():
    """60 sources of three instances from two components in d = 2."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 3)
    means = np.array([[0.0, 0.0], [6.0, 2.0]])[np.arange(60) % 2]
    x = means + rng.normal(size=(60, 2))
    return x[group] + 0.4 * rng.normal(size=(180, 2)), group


@pytest.fixture(scope="module")
def fitted(sources):
    return TwoStageMixture(2).fit(sources[0])


@pytest.fixture(scope="module")
def grouped(sources):
    return TwoStageMixture(2).fit(sources[0], groups=sources[1])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, TwoStageMixture(3).fit(X)


def same_pairs(X, n=60):
    first = np.arange(0, 3 * n, 3)
    return np.stack([X[first], X[first + 1]], 1)


def test_cross_validation_scores_by_held_out_density(sources):
    scores = [
        cross_val_score(TwoStageMixture(k), sources[0], cv=2).mean() for k in (1, 2)
    ]
    assert scores[1] > scores[0]


@pytest.mark.long
def test_groups_teach_the_share_of_noise(grouped, sources):
    """True W = 0.16 I, about 180 - 60 degrees of freedom."""
    W = np.einsum("k,kij->ij", grouped.weights_, grouped.within_)
    np.testing.assert_allclose(W, 0.16 * np.eye(2), atol=0.07)
    assert grouped.alpha_ is None
    tied = TwoStageMixture(2, covariance="proportional")
    tied.fit(sources[0], groups=sources[1])
    assert tied.alpha_ == pytest.approx(0.16 / 1.16, abs=0.08)


def test_pairs_teach_the_same_as_groups_of_two(sources):
    pairs = same_pairs(sources[0])
    a = TwoStageMixture(2).fit_pairs(pairs)
    b = TwoStageMixture(2).fit(pairs.reshape(-1, 2), groups=np.repeat(np.arange(60), 2))
    np.testing.assert_allclose(a.within_, b.within_, rtol=1e-9)
    c = TwoStageMixture(2).fit_pairs(pairs, np.ones(60))
    np.testing.assert_array_equal(a.within_, c.within_)


def test_alpha_is_learned_from_pairs_with_the_mixture_kept(fitted, sources):
    model = copy.deepcopy(fitted).fit_alpha(same_pairs(sources[0]))
    total = fitted.within_ + fitted.between_
    np.testing.assert_allclose(model.within_ + model.between_, total, rtol=1e-10)
    assert model.alpha_ == pytest.approx(0.16 / 1.16, abs=0.06)


def test_a_similarity_refuses_to_be_a_distance(fitted, sources):
    with pytest.raises(ValueError, match="Use pair_score"):
        fitted.pair_distance(same_pairs(sources[0]))


@pytest.mark.long
def test_missing_entries_are_integrated_out(sources):
    X = sources[0].copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = TwoStageMixture(2).fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert abs(abs(model.means_[0, 0] - model.means_[1, 0]) - 6) < 1
    assert np.all(np.isfinite(model.pair_score(same_pairs(X))))


@pytest.mark.long
def test_missing_entries_are_integrated_out_of_groups_and_pairs(sources):
    X = sources[0]
    whole = TwoStageMixture(2).fit_pairs(same_pairs(X))
    holes = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    pairs = same_pairs(holes)
    model = TwoStageMixture(2).fit(
        pairs.reshape(-1, 2), groups=np.repeat(np.arange(60), 2)
    )
    order = np.argsort(model.means_[:, 0]), np.argsort(whole.means_[:, 0])
    # A tenth of the entries gone: within about two standard errors of the whole.
    np.testing.assert_allclose(model.means_[order[0]], whole.means_[order[1]], atol=0.3)
    np.testing.assert_allclose(
        model.within_[order[0]], whole.within_[order[1]], atol=0.1
    )
    again = TwoStageMixture(2).fit_pairs(pairs)
    np.testing.assert_allclose(again.within_, model.within_, rtol=1e-9)


def test_database_elements_may_have_noise_of_their_own(fitted, sources):
    """Factor 0: they are representatives, EQ-5."""
    model = clone(fitted).set_params(database_noise=0.0, similarity="joint")
    pairs = same_pairs(sources[0])
    got = model.fit(sources[0]).pair_score(pairs)
    params = model.weights_, model.means_, model.within_, model.between_
    wanted = sum(
        c
        * multivariate_normal(np.zeros(2), W).pdf(pairs[:, 0] - pairs[:, 1])
        * multivariate_normal(mu, B).pdf(pairs[:, 1])
        for c, mu, W, B in zip(*params, strict=True)
    )
    np.testing.assert_allclose(got, np.log(wanted), rtol=1e-8)
    assert fitted.get_metric().noise_other is None


@pytest.mark.long
def test_nearly_singular_components_are_reported_or_kept_regular(sources):
    """A column that is another plus 1e-9: the prior holds, or EM says it cannot."""
    X, group = sources
    twin = np.column_stack([X[:, 0], X[:, 0] + 1e-9 * X[:, 1]])
    for call in ({}, {"groups": group}):
        model = TwoStageMixture(2).fit(twin, **call)
        assert np.all(np.linalg.eigvalsh(model.within_) > 0)
        assert np.all(np.isfinite(model.score_samples(twin)))
        with pytest.raises(RuntimeError, match="TwoStageMixture: NONFINITE"):
            TwoStageMixture(2, prior="flat").fit(X[:, [0, 0]], **call)


def test_range_is_chosen_or_blended(sources):
    X = sources[0]
    chosen = TwoStageMixture((1, 2)).fit(X)
    assert len(chosen.weights_) == chosen.choice_.best == 2
    for how in ("flat", "bic", "held-out"):
        both = TwoStageMixture((1, 2), blend=how).fit(X)
        assert both.metric_.blocks == (1, 2)
        assert both.weights_.sum() == pytest.approx(1)
    assert both.weights_[0] < 1e-3  # one component is far less probable
    with pytest.raises(ValueError, match="got a blend of 2 models"):
        both.bic(X)


def test_batches_add_up_and_a_fit_forgets_what_came_before(sources):
    X = sources[0]
    model = TwoStageMixture(2).partial_fit(X[:60])
    before = model.score(X)
    model.partial_fit(X[60:])
    assert model.online_.sums.mass.sum() == pytest.approx(180)
    assert model.score(X) > before - 0.05
    again = model.fit(X).partial_fit(X[60:120])
    assert again.online_.sums.mass.sum() == pytest.approx(60)
    chosen = TwoStageMixture([1, 2]).fit(X)
    assert not hasattr(chosen.set_params(n_components=1).fit(X), "choice_")
    blended = TwoStageMixture((1, 2), blend="flat")
    with pytest.raises(ValueError, match="partial_fit requires a single model"):
        blended.partial_fit(X)


@pytest.mark.long
def test_groups_of_one_warn_and_keep_alpha(sources):
    with pytest.warns(UserWarning, match="groups: every group has one row"):
        model = TwoStageMixture(alpha=0.3).fit(sources[0], groups=np.arange(180))
    assert model.alpha_ == pytest.approx(0.3)


@pytest.mark.long
def test_fewer_points_than_features_and_repeated_rows_are_fitted():
    X = np.random.default_rng(0).normal(size=(3, 4))
    for rows in (X, np.concatenate([X, X])):
        model = TwoStageMixture(3).fit(rows)
        assert np.all(np.isfinite(model.score_samples(rows)))


@pytest.mark.long
def test_flattening_is_given_or_chosen(sources):
    diagonal = TwoStageMixture(2, flattening=0.0).fit(sources[0])
    assert np.all(diagonal.within_[:, 0, 1] == 0)
    with pytest.raises(ValueError, match=r"flattening=None, got 0\.0"):
        diagonal.sample("laplace")
    chosen = TwoStageMixture(2, flattening="held-out").fit(sources[0])
    assert np.all(np.isfinite(chosen.within_))


BAD = [
    (dict(alpha=0.0), {}, "alpha must be a number in \\(0, 1\\], got 0.0"),
    (dict(covariance="full"), {}, "covariance must be one of 'free', 'proportional'"),
    (dict(flattening=2.0), {}, "flattening must be a number in"),
    (dict(similarity="distance"), {}, "similarity must be one of 'log_ratio'"),
    (dict(n_components=0), {}, "n_components must be a whole number"),
    (dict(n_components=500), {}, "n_components must be at most 180.*, got 500"),
    (
        dict(n_components=80),
        dict(groups=np.arange(180) // 3),
        "n_components must be at most 60.*, got 80",
    ),
    ({}, dict(groups="label"), "groups must have shape .*'label' only for"),
    (dict(blend="flat"), {}, "blend must be None unless"),
    (dict(prior="none"), {}, "prior must be one of 'default', 'flat'"),
    (dict(database_noise=-1.0), {}, "database_noise must be a number in"),
    ({}, dict(groups=np.zeros(3)), "groups must have shape \\(180,\\), got \\(3,\\)"),
    ({}, dict(groups=np.where(np.arange(180) > 90, np.nan, 1.0)), "groups .*finite"),
    (
        {},
        dict(groups=[None, *"ab" * 89, "a"]),
        "groups must have a label in every row, got a missing",
    ),
]


@pytest.mark.parametrize(("settings", "call", "message"), BAD)
def test_bad_input_is_refused_by_name(sources, settings, call, message):
    with pytest.raises(ValueError, match=message):
        TwoStageMixture(**settings).fit(sources[0], **call)


def test_bad_points_and_pairs_are_refused_by_name(sources, fitted):
    X = sources[0].copy()
    X[:, 0] = np.nan
    with pytest.raises(ValueError, match="X: every column must contain a number"):
        TwoStageMixture().fit(X)
    pairs = same_pairs(sources[0])
    with pytest.raises(ValueError, match="y must be 1 for at least one pair"):
        TwoStageMixture().fit_pairs(pairs, np.zeros(60))
    with pytest.raises(ValueError, match="y must be pair labels all in"):
        TwoStageMixture().fit_pairs(pairs, np.arange(60))
    with pytest.raises(ValueError, match="pairs must have shape"):
        TwoStageMixture().fit_pairs(pairs[:, 0])
    with pytest.raises(ValueError, match="pairs must have 2 features"):
        fitted.pair_score(np.zeros((3, 2, 5)))
    with pytest.raises(ValueError, match="pairs must not contain NaN"):
        copy.deepcopy(fitted).fit_alpha(np.where(pairs > 6, np.nan, pairs))
    with pytest.raises(
        ValueError, match="pairs: at least one pair must have two different"
    ):
        copy.deepcopy(fitted).fit_alpha(pairs[:, [0, 0]])


@pytest.mark.long
def test_criteria_are_those_of_scikit_learns_mixture_at_the_same_parameters(
    fitted, sources, iris
):
    """Of 2 components in 2 dimensions and of 3 in 4; of other points than learned."""
    for model, points in ((fitted, sources[0] + 0.1), (iris[2], iris[0] + 0.1)):
        other = GaussianMixture(len(model.weights_))
        other.weights_, other.means_ = model.weights_, model.means_
        covariances = model.between_ + model.within_
        factors = np.linalg.cholesky(np.linalg.inv(covariances))
        other.covariances_, other.precisions_cholesky_ = covariances, factors
        for name in ("bic", "aic"):
            expected = getattr(other, name)(points)
            np.testing.assert_allclose(getattr(model, name)(points), expected, 1e-9)
