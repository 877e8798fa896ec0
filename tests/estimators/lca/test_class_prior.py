"""The prior of ``LCAClassifier`` by held-out classes: its centre, limits and choice."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from probmetric.estimators.lca import class_prior
from probmetric.estimators.lca.class_prior import (
    SCALES,
    STRENGTHS,
    ClassPrior,
    choose_prior,
    common_centre,
    held_out,
)
from probmetric.estimators.lca.classifier import LCAClassifier
from probmetric.inference import lca
from probmetric.inference.lca.recipe import Recipe
from probmetric.models.lca import LCAPrior, to_metric
from probmetric.neighbors.strength import folds

RAW, Y = load_iris(return_X_y=True)
X = ((RAW - RAW.mean(0)) / RAW.std(0))[::5]
Y = Y[::5]
RECIPE = Recipe(n_components=4, prior_mean="identity")


def by_hand(Z, codes, Q, prior):
    """Return log P of every class, normalised, from LCA fits of class means."""
    scores = []
    for code in np.unique(codes):
        mean, member = Z[codes == code].mean(0), codes == code
        params = lca.fit(class_prior.class_pairs(Z, mean, member), prior).params
        metric = to_metric(params)
        D = np.sum(((Q - mean) @ metric.factor.T) ** 2, 1)
        scores.append(-metric.link.b - D / 2)
    scores = np.stack(scores, 1)
    return scores - np.logaddexp.reduce(scores, 1)[:, None]


def test_the_centre_is_set_by_distances_from_the_mean_of_the_others():
    W0, c = common_centre(X, Y, RECIPE)
    squares = [
        np.sum((X[i] - X[(Y == Y[i]) & (np.arange(len(X)) != i)].mean(0)) ** 2)
        for i in range(len(X))
    ]
    np.testing.assert_allclose(c, 1 / np.sqrt(np.median(squares)), rtol=1e-12)
    np.testing.assert_allclose(W0, c * np.eye(4), rtol=1e-12)


def test_fewer_rows_are_principal_axes_of_the_same_scale():
    W0, c = common_centre(X, Y, RECIPE._replace(n_components=2))
    np.testing.assert_allclose(W0 @ W0.T, c**2 * np.eye(2), atol=1e-12)
    axes = np.linalg.svd(X - X.mean(0), full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(W0 @ axes.T), c * np.eye(2), atol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("rows", [4, 2])
def test_the_loss_is_that_of_every_fold_by_hand(rows, monkeypatch):
    monkeypatch.setattr(class_prior, "TOLERANCE", 1e-8)
    W0, c = common_centre(X, Y, RECIPE._replace(n_components=rows))
    grid = (2.0, 30.0), (4.0, 10.0), (1.5, STRENGTHS[0])
    priors = [ClassPrior(W0, c, k, lam) for k, lam in grid]
    expected = np.zeros(len(grid))
    for fold in folds(X, Y, 5, 1):
        for q, (_, _, k, lam) in enumerate(priors):
            given = LCAPrior(k * W0, c=k * c, lam=lam)
            log_p = by_hand(X[fold.learned], Y[fold.learned], X[fold.asked], given)
            expected[q] -= log_p[np.arange(len(fold.asked)), Y[fold.asked]].sum()
    found = held_out(X, Y, priors)
    np.testing.assert_allclose(found, expected / len(X), rtol=1e-4)


@pytest.mark.long
def test_the_choice_is_the_least_of_what_is_tried():
    found = choose_prior(X, Y, RECIPE, "cv", "cv")
    at_middle = [found._replace(k=k, lam=class_prior.MIDDLE) for k in SCALES]
    assert found.k == SCALES[np.argmin(held_out(X, Y, at_middle))]
    at_scale = [found._replace(lam=lam) for lam in STRENGTHS]
    assert found.lam == STRENGTHS[np.argmin(held_out(X, Y, at_scale))]


def test_where_no_class_has_two_voters_nothing_is_chosen():
    Z = np.random.default_rng(0).normal(size=(3000, 2))
    found = choose_prior(Z, np.arange(3000) // 2, Recipe(n_components=2), "cv", "cv")
    assert (found.k, found.lam) == (SCALES[0], class_prior.MIDDLE)


@pytest.mark.long
def test_the_fit_is_that_of_the_numbers_chosen_and_of_the_model():
    how = {"standardize": False, "prior_mean": "identity"}
    chosen = LCAClassifier(**how).fit(X, Y)
    numbers = {
        "regularization": chosen.regularization_,
        "prior_scale": chosen.prior_scale_,
    }
    given = LCAClassifier(**numbers, **how).fit(X, Y)
    np.testing.assert_array_equal(given.components_, chosen.components_)
    W0, c = common_centre(X, Y, RECIPE)
    k = chosen.prior_scale_
    prior = LCAPrior(k * W0, c=k * c, lam=chosen.regularization_)
    log_p = by_hand(X, Y, X, prior)
    np.testing.assert_allclose(chosen.predict_log_proba(X), log_p, atol=1e-4)
    # Another scale is another model.
    other = by_hand(X, Y, X, prior._replace(mean=2 * prior.mean))
    assert np.abs(other - log_p).max() > 0.1


def test_the_strongest_prior_learns_no_map():
    k = 2.0
    fitted = LCAClassifier(
        regularization=STRENGTHS[0],
        prior_scale=k,
        prior_mean="identity",
        standardize=False,
    ).fit(X, Y)
    W0 = common_centre(X, Y, RECIPE)[0]
    for L, sigma2 in zip(fitted.components_, fitted.sigma2_, strict=True):
        W = L * np.sqrt(1 + 2 * sigma2)
        np.testing.assert_allclose(W.T @ W, k**2 * W0.T @ W0, atol=0.01)


@pytest.mark.long
def test_two_points_a_class_are_enough():
    rows = [0, 1, 10, 11, 20, 21]  # Folds leave one of each.
    fitted = LCAClassifier().fit(X[rows], Y[rows])
    P = fitted.predict_proba(X)
    assert np.all(np.isfinite(P))
    assert log_loss(Y, P) < np.log(3)


def test_points_that_coincide_within_every_class_are_refused():
    Z, codes = np.repeat(X[[0, -1]], 3, 0), np.repeat([0, 1], 3)
    with pytest.raises(ValueError, match="one pair with y = 1 must have two different"):
        LCAClassifier(regularization=9).fit(Z, codes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior_scale": 0.0}, "prior_scale must be a number in"),
        ({"prior_scale": "auto"}, "prior_scale must be .*'cv'"),
        ({"regularization": "evidence"}, "regularization must be .*'auto', 'cv'"),
        ({"prior_scale": None}, "prior_scale must be .* got None"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        LCAClassifier(**settings).fit(X, Y)
