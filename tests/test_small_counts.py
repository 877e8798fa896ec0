"""Counts of NumPy's small integer types are the numbers that they stand for."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.arguments import check_count, check_counts, check_number
from probmetric.densities.classes import ClassDensities
from probmetric.evaluation import evaluate
from probmetric.metric.local import local_metric

pytestmark = pytest.mark.usefixtures("unchecked")
SMALL = pytest.mark.parametrize("small", [np.int8, np.uint8])
LINE = np.arange(130.0)[:, None]
EUCLID = pm.Mahalanobis(np.eye(1))


@pytest.fixture(scope="module")
def local():
    """Return a local metric on a line, which is one number and ranks as Euclid."""
    one = np.ones((2, 1))
    parts = np.log([0.5, 0.5]), 0 * one, np.zeros((2, 1, 1)), np.ones((2, 1, 1, 1))
    return local_metric(ClassDensities(*parts, 0 * one), rule="fisher", gamma=1.0)


@SMALL
def test_checked_counts_are_python_integers(small):
    found = (
        check_number("n", small(100), 1, whole=True),
        check_count("n", small(100), 127, "why"),
    )
    assert [type(n) for n in (*found, *check_counts(n=small(100)))] == [int] * 3


@SMALL
def test_nearest_returns_100_of_130_points_on_a_line(small):
    _, index = pm.nearest(EUCLID, [[-1.0]], LINE, small(100))
    assert index.tolist() == [list(range(100))]


@SMALL
def test_small_tiles_and_shortlists_change_no_neighbors(small, local):
    Q = np.array([[-1.0]])
    for options in {"tile": small(100)}, {"shortlist": small(100)}:
        index = pm.nearest(local, Q, LINE, small(60), **options)[1]
        assert index.tolist() == [list(range(60))]


@SMALL
def test_count_votes_of_all_of_one_class(small):
    """100 of the nearest vote, of which the first 65 are of class 0."""
    y = (np.arange(130) >= 65).astype(int)
    votes = pm.KNeighborsClassifier(EUCLID, small(100), votes="count", prior_weight=1.0)
    P = votes.fit(LINE, y).predict_proba([[-1.0]])
    np.testing.assert_allclose(P, [[65.5 / 101, 35.5 / 101]])


@SMALL
def test_pairs_drawn_for_the_roc_are_as_many_as_asked(small):
    """Far apart classes are told apart by any 100 pairs."""
    X = np.where(LINE < 65, LINE, LINE + 1e6)
    codes = (LINE[:, 0] >= 65).astype(int)
    found = evaluate(X, codes, metric=EUCLID, max_pairs=small(100))
    assert found["pair_roc_auc"] == 1


@SMALL
def test_settings_of_samplers_are_python_integers(small):
    n = small(100)
    found = (
        pm.NUTS(n_warmup=n, thin=n, block_size=n, max_tree_depth=n),
        pm.SVI(n_steps=n, n_particles=n),
        pm.Laplace(max_steps=n),
        pm.inference.lca.Bootstrap(block_size=n, max_steps=n),
    )
    counts = [v for one in found for v in vars(one).values() if v == 100]
    assert [type(v) for v in counts] == [int] * 9


@SMALL
def test_settings_of_learners_may_be_of_small_types(small):
    X = np.array([[0.0, 0], [1, 5], [8, 1], [9, 4], [0, 2], [9, 3]])
    y = [0, 0, 1, 1, 0, 1]
    for learner in pm.LCA, pm.LDA:
        assert learner(n_components=small(1)).fit(X, y).components_.shape == (1, 2)
    mixture = pm.TwoStageMixture(1, n_starts=small(2), max_iter=small(100))
    assert mixture.fit(X, y).get_metric().means.shape == (1, 2)
