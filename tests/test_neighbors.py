"""Neighbours are exact, ties included; votes are what their formula says."""

import pickle
import tracemalloc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier as Reference
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probmetric import neighbors_scan
from probmetric.metric import Mahalanobis
from probmetric.neighbors import KNeighborsClassifier, nearest
from probmetric.neighbors_tuning import BANDWIDTHS
from probmetric.neighbors_votes import VOTE_TILE, _soft, soft_votes
from probmetric.posterior import PosteriorMetric
from tests.metric_kinds import build, largest_intermediate
from tests.oracles import loo_log_score, soft_vote_shares, sorted_neighbors

EPS = np.finfo(float).eps


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wrapped:
    """A kind that no library serves: squared distances plus a shift per query."""

    inner: Any
    shift: Any = 0.0
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    def dissimilarity(self, q, Y):
        return self.inner.dissimilarity(q, Y) + self.shift * jnp.sum(q)

    def pairwise(self, Q, P):
        return jax.vmap(lambda q: self.dissimilarity(q, P))(Q)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coarse:
    """A kind whose pairwise cancels (a product form) and whose refine does not."""

    offset: Any
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    def dissimilarity(self, q, Y):
        return jnp.sum((Y - q) ** 2, -1)

    def pairwise(self, Q, P):
        Q, P = Q + self.offset, P + self.offset
        return jnp.sum(Q**2, 1)[:, None] + jnp.sum(P**2, 1) - 2 * Q @ P.T

    def refine(self, Q, P, idx):
        return np.sum((P[idx] - Q[:, None]) ** 2, -1)


@pytest.fixture
def grid():
    """Integer points with duplicates: nearly every query has ties."""
    rng = np.random.default_rng(0)
    points = rng.integers(-2, 3, (90, 2)).astype(float)
    return points, rng.integers(-2, 3, (40, 2)).astype(float)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y], y


# --- Search ---------------------------------------------------------------------------

KINDS = {"linear": lambda metric: metric, "scanned": Wrapped}
both_paths = pytest.mark.parametrize("path", KINDS)


@both_paths
@pytest.mark.parametrize("tile", [7, 1024])
@pytest.mark.parametrize("d", [2, 17], ids=["tree", "brute"])
def test_ties_go_to_the_lowest_index(grid, path, tile, d):
    points, queries = (np.pad(A, ((0, 0), (0, d - 2))) for A in grid)
    L = np.eye(d) * 2.0
    L[0, 1] = 1.0
    D, index = nearest(KINDS[path](Mahalanobis(L)), queries, points, 5, tile=tile)
    expected_D, expected = sorted_neighbors(L, queries, points, 5)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(D, expected_D, rtol=4 * EPS)


@both_paths
def test_a_point_is_not_its_own_neighbour_but_its_duplicate_is(grid, path):
    points = grid[0]
    metric = KINDS[path](Mahalanobis(np.eye(2)))
    D, index = nearest(metric, points, points, 5, exclude_self=True, tile=16)
    expected_D, expected = sorted_neighbors(
        np.eye(2), points, points, 5, exclude_self=True
    )
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(D, expected_D, rtol=4 * EPS)
    assert (index != np.arange(len(points))[:, None]).all()
    assert (D[:, 0] == 0).any()


def test_ties_far_from_the_origin_are_seen(grid):
    points, queries = (A + 2.0**22 for A in grid)
    _, index = nearest(Mahalanobis(np.eye(2)), queries, points, 5)
    expected = sorted_neighbors(np.eye(2), *grid[::-1], 5)[1]
    np.testing.assert_array_equal(index, expected)


def test_all_points_equal_gives_the_first_ones():
    points = np.ones((50, 3))
    D, index = nearest(Mahalanobis(np.eye(3)), points, points, 4, exclude_self=True)
    np.testing.assert_array_equal(D, 0.0)
    np.testing.assert_array_equal(index[10], [0, 1, 2, 3])
    np.testing.assert_array_equal(index[1], [0, 2, 3, 4])


def test_a_shortlist_is_deepened_until_refinement_settles_it(grid):
    points, queries = grid
    # At this offset the product form is off by units of 64: all ranks are noise.
    coarse = Coarse(np.array(2.0**29))
    near = nearest(Wrapped(Coarse(np.array(0.0))), queries, points, 3)[1]
    rough = nearest(Wrapped(coarse), queries, points, 3)[1]
    settled = nearest(coarse, queries, points, 3)[1]
    np.testing.assert_array_equal(settled, near)
    assert rough.shape == settled.shape


def test_infinite_dissimilarities_come_last_and_never_from_padding():
    points = np.arange(5.0)[:, None]

    far = Wrapped(Mahalanobis(np.full((1, 1), 1e200)))
    D, index = nearest(far, points, points, 4, exclude_self=True)
    np.testing.assert_array_equal(D, np.inf)
    np.testing.assert_array_equal(index[2], [0, 1, 3, 4])


def test_a_single_point_is_found():
    D, index = nearest(Mahalanobis(np.eye(1)), 2 * np.ones((1, 1)), np.zeros((1, 1)), 1)
    assert D[0, 0] == 4.0
    assert index[0, 0] == 0


def test_the_search_holds_no_queries_by_points_array_in_a_linear_search():
    n = 6000
    X = np.random.default_rng(0).normal(size=(n, 2))
    tracemalloc.start()
    nearest(Mahalanobis(np.eye(2)), X, X, 3, tile=64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.05 * 8 * n**2


@pytest.mark.parametrize("n_tiles", [4, 64])
def test_the_scan_holds_no_queries_by_points_array(n_tiles):
    t, k = 32, 5
    Q, tiles, own = np.zeros((t, 2)), np.zeros((n_tiles, t, 2)), np.zeros(t, int)
    metric = Wrapped(Mahalanobis(np.eye(2)))
    largest = largest_intermediate(
        lambda q, p: neighbors_scan._scan(metric, q, p, n_tiles * t, own, k), Q, tiles
    )
    # A tile with the k kept beside it, or the points themselves.
    assert largest <= max(t * (t + k), t * t * 2, n_tiles * t * 2)


def test_the_memory_check_sees_a_full_matrix():
    X = np.zeros((100, 2))
    assert largest_intermediate(build_euclid().pairwise, X, X) >= 100**2


def build_euclid(d=2):
    return Mahalanobis(np.eye(d))


X3 = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(points=np.full((3, 2), np.nan)), "points: wanted finite"),
        (
            dict(queries=np.zeros((3, 3)), points=np.zeros((3, 3))),
            "queries: wanted 2 features",
        ),
        (dict(points=np.zeros((0, 2))), "points: wanted shape"),
        (dict(k=0), "k: wanted 1 to 3"),
        (dict(k=4), "k: wanted 1 to 3"),
        (dict(k=3, exclude_self=True), "k: wanted 1 to 2"),
        (dict(queries=X3[:2], exclude_self=True), "exclude_self: wanted queries"),
        (dict(tile=0), "tile: wanted at least 1"),
    ],
)
def test_bad_input_is_named(arguments, words):
    given = dict(queries=X3, points=X3, k=1) | arguments
    with pytest.raises(ValueError, match=words):
        nearest(build_euclid(), **given)


def test_a_metric_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        nearest(Wrapped(build_euclid(), np.nan), X3, X3, 1)


# --- Votes ----------------------------------------------------------------------------


def test_soft_votes_are_their_formula(blobs):
    X, y = blobs
    metric = build("Mahalanobis")
    h = 0.5 * 1.7
    found = soft_votes([metric], np.array([1.7]), np.array([0.5]), X[:9], X, y, 3)[0]
    expected = soft_vote_shares(metric.pairwise(X[:9], X), y, 3, h)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_soft_votes_over_several_tiles_are_their_formula():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(VOTE_TILE + 90, 2)), rng.integers(0, 2, VOTE_TILE + 90)
    X[0], X[-1] = 0.01, 0.0  # The nearest point comes in the last tile.
    Q = np.zeros((4, 2))
    found = soft_votes([build_euclid()], np.ones(1), np.array([0.05]), Q, X, y, 2)[0]
    expected = soft_vote_shares(build_euclid().pairwise(Q, X), y, 2, 0.05)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_far_query_gets_the_class_of_its_nearest_point_not_nan(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(bandwidth=0.1, prior_weight=0.0).fit(X, y)
    P = knn.predict_proba([[1e8, 0.0, 0.0], [0.0, -1e150, 0.0]])
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    nearest_class = y[np.argmax(X[:, 0])]
    assert P[0, nearest_class] == pytest.approx(1.0)


def test_a_query_at_infinity_gets_equal_weights():
    y = np.array([0, 0, 1])
    far = Wrapped(Mahalanobis(np.full((1, 1), 1e200)))
    P = soft_votes(
        [far], np.ones(1), np.ones(1), np.ones((1, 1)), np.zeros((3, 1)), y, 2
    )
    np.testing.assert_allclose(P[0, 0], [2 / 3, 1 / 3])


def test_a_shift_per_query_changes_no_probability(blobs):
    X, y = blobs
    plain = KNeighborsClassifier(Wrapped(build_euclid(3), 0.0)).fit(X + 3, y)
    moved = KNeighborsClassifier(Wrapped(build_euclid(3), -50.0)).fit(X + 3, y)
    # The unshifted kind has its zero, so its scale is another; b makes up for it.
    moved.bandwidth_ *= (
        plain.scale_[0] * plain.bandwidth_ / (moved.scale_[0] * moved.bandwidth_)
    )
    np.testing.assert_allclose(
        moved.predict_proba(X + 3.5), plain.predict_proba(X + 3.5), rtol=1e-7
    )


def test_without_a_zero_the_scale_is_the_gap_between_first_and_kth(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(Wrapped(build_euclid(3), -50.0)).fit(X, y)
    D = sorted_neighbors(np.eye(3), X, X, 5, exclude_self=True)[0]
    assert knn.scale_[0] == pytest.approx(np.median(D[:, 4] - D[:, 0]), rel=1e-9)


@pytest.mark.parametrize("metric", [None, Wrapped(build_euclid(3))])
def test_with_a_zero_the_scale_is_the_kth_dissimilarity(blobs, metric):
    X, y = blobs
    knn = KNeighborsClassifier(metric, n_neighbors=7).fit(X, y)
    D = sorted_neighbors(np.eye(3), X, X, 7, exclude_self=True)[0]
    assert knn.scale_[0] == pytest.approx(np.median(D[:, 6]), rel=1e-12)


def test_duplicates_do_not_make_the_scale_zero():
    X = np.array([[0.0]] * 8 + [[3.0]] * 2)
    knn = KNeighborsClassifier().fit(X, [0] * 8 + [1] * 2)
    assert knn.scale_[0] == 9.0
    assert np.isfinite(knn.predict_proba([[1.0]])).all()


def test_rescaling_the_metric_changes_no_probability(blobs):
    X, y = blobs
    P = KNeighborsClassifier(build_euclid(3)).fit(X, y).predict_proba(X)
    big = Mahalanobis(2.0**20 * np.eye(3))
    Q = KNeighborsClassifier(big).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(Q, P, rtol=1e-10)


def test_count_votes_are_scikit_learns_with_a_prior_mixed_in(blobs):
    X, y = blobs
    ours = KNeighborsClassifier(votes="count", prior_weight=2.0).fit(X, y)
    shares = Reference(5).fit(X, y).predict_proba(X + 0.1)
    expected = (5 * shares + 2.0 * np.bincount(y) / len(y)) / 7.0
    np.testing.assert_allclose(ours.predict_proba(X + 0.1), expected, rtol=1e-12)


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_probabilities_are_averaged_over_draws_not_distances(blobs, votes):
    X, y = blobs
    draws = [build("Mahalanobis", seed) for seed in range(4)]
    options = dict(votes=votes, bandwidth=0.5, prior_weight=0.1)
    joint = KNeighborsClassifier(PosteriorMetric(draws, "prediction"), **options)
    P = joint.fit(X, y).predict_proba(X + 0.3)
    each = [KNeighborsClassifier(m, **options).fit(X, y) for m in draws]
    mean = np.mean([one.predict_proba(X + 0.3) for one in each], 0)
    np.testing.assert_allclose(P, mean, rtol=1e-10)
    averaged = KNeighborsClassifier(joint.metric_.mean_metric(), **options)
    assert np.abs(averaged.fit(X, y).predict_proba(X + 0.3) - P).max() > 0.01


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_leave_one_out_scores_the_averaged_prediction_of_refits(blobs, votes):
    X, y = blobs[0][::2], blobs[1][::2]
    draws = [build("Mahalanobis", seed) for seed in range(2)]
    posterior = PosteriorMetric(draws, "prediction")
    knn = KNeighborsClassifier(posterior, votes=votes).fit(X, y)
    D = posterior.pairwise(X, X)
    if votes == "soft":
        widths = [b * knn.scale_ for b in BANDWIDTHS]
        expected = [loo_log_score(D, y, 3, h=h, share=0.02) for h in widths]
        assert knn.bandwidth_ == BANDWIDTHS[int(np.argmax(expected))]
        np.testing.assert_allclose(knn.loo_scores_[:, 0], expected, rtol=1e-9)
    else:
        weights = (0.5, 1.0, 2.0, 4.0)
        expected = [loo_log_score(D, y, 3, k=5, share=a / (5 + a)) for a in weights]
        assert knn.prior_weight_ == weights[int(np.argmax(expected))]
        np.testing.assert_allclose(knn.loo_scores_[0], expected, rtol=1e-9)


def test_leave_one_out_leaves_lonely_classes_out_of_the_score(blobs):
    X, y = blobs
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.append(y, 7)
    knn = KNeighborsClassifier().fit(X, y)
    assert np.isfinite(knn.loo_scores_).all()


@pytest.mark.parametrize("n_tiles", [2, 16])
def test_votes_hold_no_queries_by_points_array(n_tiles):
    t, g, c = 32, 6, 4
    tiles, flat = np.zeros((n_tiles, t, 2)), np.zeros((n_tiles, t), np.int32)
    structure = jax.tree.structure(build_euclid())
    largest = largest_intermediate(
        lambda q: _soft(
            (np.eye(2)[None],),
            np.ones(1),
            np.ones(g),
            q,
            np.full(t, -2),
            tiles,
            flat,
            flat,
            structure,
            c,
        ),
        np.zeros((t, 2)),
    )
    assert largest <= max(g * t * t, n_tiles * t * c)


# --- The estimator --------------------------------------------------------------------


@parametrize_with_checks(
    [KNeighborsClassifier(), KNeighborsClassifier(votes="count")],
    expected_failed_checks=lambda _: {
        "check_array_api_input": "needs SCIPY_ARRAY_API in the environment"
    },
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_kneighbors_gives_distances_not_squares(blobs):
    X, y = blobs
    ours = KNeighborsClassifier().fit(X, y).kneighbors(X[:5] + 0.1)
    theirs = Reference().fit(X, y).kneighbors(X[:5] + 0.1)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_kneighbors_uses_a_kinds_own_distance(blobs):
    X, y = blobs
    metric = build("ClassDistribution")
    D, index = KNeighborsClassifier(metric).fit(X, y).kneighbors(X[:2], 3)
    expected = metric.distance(np.repeat(X[:2], 3, 0), X[index.ravel()])
    np.testing.assert_allclose(D.ravel(), expected, rtol=1e-9)


def test_kneighbors_without_queries_excludes_each_point_itself(blobs):
    X, y = blobs
    index = KNeighborsClassifier().fit(X, y).kneighbors(return_distance=False)
    assert (index != np.arange(len(X))[:, None]).all()


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_the_graph_is_scikit_learns(blobs, mode):
    X, y = blobs
    ours = KNeighborsClassifier().fit(X, y).kneighbors_graph(mode=mode)
    theirs = Reference().fit(X, y).kneighbors_graph(mode=mode)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), rtol=1e-12)


def test_it_abstains_below_the_threshold_and_only_there(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(reject_below=0.9, reject_label=-1).fit(X, y)
    doubtful = knn.predict_proba(X).max(1) < 0.9
    assert 0 < doubtful.sum() < len(X)
    np.testing.assert_array_equal(knn.predict(X) == -1, doubtful)


def test_a_rejecting_text_label_may_be_longer_than_the_classes():
    X = np.array([[0.0], [0.1], [1.0], [1.1]])
    knn = KNeighborsClassifier(reject_below=1.0, reject_label="undecided")
    assert set(knn.fit(X, ["a", "a", "b", "b"]).predict(X)) == {"undecided"}


@pytest.mark.parametrize("label", [None, 0, "no", [1]])
def test_a_reject_label_must_be_a_new_one_of_the_same_kind(blobs, label):
    knn = KNeighborsClassifier(reject_below=0.5, reject_label=label)
    with pytest.raises(ValueError, match="reject_label: wanted"):
        knn.fit(*blobs)


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(votes="hard"), "votes: wanted"),
        (dict(n_neighbors=0), "n_neighbors: wanted a whole"),
        (dict(n_neighbors=2.5), "n_neighbors: wanted a whole"),
        (dict(n_neighbors=61, votes="count"), "n_neighbors: wanted at most"),
        (dict(bandwidth=0.0), "bandwidth: wanted"),
        (dict(bandwidth="auto"), "bandwidth: wanted"),
        (dict(prior_weight=1.0), "prior_weight: wanted"),
        (dict(prior_weight=np.nan), "prior_weight: wanted"),
        (dict(reject_below=1.5), "reject_below: wanted"),
        (dict(metric="euclidean"), "metric: wanted"),
        (dict(metric=build_euclid(2)), "X: wanted 2 features"),
    ],
)
def test_bad_arguments_are_named_at_fit(blobs, options, words):
    with pytest.raises(ValueError, match=words):
        KNeighborsClassifier(**options).fit(*blobs)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    metrics = [None, Mahalanobis(np.array([[0.0, 0.0, 1.0, 1.0]]))]
    search = GridSearchCV(pipe, {"kneighborsclassifier__metric": metrics}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9


def test_clone_and_pickle_keep_the_metric(blobs):
    posterior = PosteriorMetric([build("Mahalanobis", s) for s in (0, 1)], "prediction")
    knn = KNeighborsClassifier(posterior).fit(*blobs)
    P = knn.predict_proba(blobs[0])
    again = clone(knn).fit(*blobs)
    np.testing.assert_array_equal(again.predict_proba(blobs[0]), P)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(knn)).predict_proba(blobs[0]), P
    )


@pytest.mark.parametrize(
    "kind, votes",
    [
        ("LocalFisher", "soft"),
        ("LocalMahalanobis", "count"),
        ("PairSimilarity", "soft"),
    ],
)
def test_kinds_that_are_no_distance_classify(blobs, kind, votes):
    X, y = blobs
    knn = KNeighborsClassifier(build(kind), votes=votes).fit(X, y)
    np.testing.assert_allclose(knn.predict_proba(X).sum(1), 1.0, rtol=1e-12)
