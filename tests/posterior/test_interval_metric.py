"""``IntervalMetric``: the limits of a fit from its refits, and what it refuses."""

import joblib
import numpy as np
import pytest
from scipy import stats

import probmetric as pm
from probmetric.large.moments import column_moments
from probmetric.large.resampled import group_of
from probmetric.metric import Link, LogLogisticLink, Mahalanobis
from probmetric.neighbors import neighbor_table
from probmetric.posterior.interval_metric import (
    IntervalMetric,
    with_intervals,
)
from probmetric.posterior.jackknife import (
    FACTOR,
    factor_of,
    groups_of,
    limits,
    quarters,
)
from probmetric.posterior.metric import PosteriorMetric
from tests.dump import assert_refused
from tests.metric_kinds import build

G = 12


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(12, 3))


def linked(factor, b=0.2):
    return Mahalanobis(factor, Link(np.array(b), np.array(0.5)))


def fits(seed=0, size=0.05):
    """Return a metric and refits, each rotated at random."""
    rng = np.random.default_rng(seed)
    L, found = rng.normal(size=(3, 3)), []
    for _ in range(G):
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        found.append(linked(Q @ (L + size * rng.normal(size=(3, 3))), rng.uniform()))
    return linked(L), found


@pytest.fixture
def made():
    return IntervalMetric(*fits(), about="tests")


def by_hand(value, left_out, prob=0.9):
    """Return jackknife-t limits."""
    g = len(left_out)
    se = np.sqrt((g - 1) ** 2 / g * np.var(left_out, axis=0, ddof=1))
    half = stats.t.ppf((1 + prob) / 2, g - 1) * se
    return value - half, value + half


def test_far_points_keep_limits_in_order(made, X):
    """P(same) of them underflows; log odds do not."""
    far = made.same_interval(X[0], X[0] + 1e3)
    assert far.lower == far.upper == 0
    low, high = made.interval(X[0], X[0] + 1e150)
    assert 0 < low < high < np.inf


def test_neighbors_have_the_probabilities_of_refits_spread_about_the_fit():
    """Of the maps diag(1, s), s = 1 + 2 (s_k - 14/15) for c² = 2 · (3 - 1) = 4.

    They are 8/15, 14/15 and 23/15. So (0, 1.05) is nearer to the origin than (1, 0)
    under two of three, but would be under one with c = 1. (0, 1.2) is nearer under one,
    but would be under two if the differences were from the fit.
    """
    turn = (np.linalg.qr(v)[0] for v in np.random.default_rng(1).normal(size=(4, 2, 2)))
    maps = [
        Mahalanobis(Q @ np.diag([1.0, s]))
        for Q, s in zip(turn, (1, 0.7, 0.9, 1.2), strict=True)
    ]
    metric = IntervalMetric(maps[0], maps[1:], factor=2.0)
    points = np.array([[1.0, 0.0], [0.0, 1.05], [0.0, 1.2]])
    zero = np.zeros(2)
    lengths = [
        m.distance(0 * np.eye(2), np.eye(2)) for m in metric.neighbor_draws("test")
    ]
    np.testing.assert_allclose(lengths, [[1, 8 / 15], [1, 14 / 15], [1, 23 / 15]])
    P = metric.closer_probability(zero, points[1:], points[0])
    np.testing.assert_allclose(P, [2 / 3, 1 / 3])
    P = metric.neighbor_probability(zero[None], points, 1)
    np.testing.assert_allclose(P, [[1 / 3, 2 / 3, 0]])
    low, high = metric.rank_interval(zero, points, prob=0.9)
    np.testing.assert_array_equal(low, [1, 1, 2])
    np.testing.assert_array_equal(high, [3, 2, 3])
    table = neighbor_table(metric, points, 1, queries=[zero])
    np.testing.assert_allclose(table["distance"], [1.0])
    np.testing.assert_allclose(table["probability"], [1 / 3])
    same = neighbor_table(metric, np.zeros((2, 2)), 1, queries=[zero])
    np.testing.assert_array_equal(same[["lower", "upper"]], [[0, 0]])
    flat = [Mahalanobis(np.diag([1.0, s])) for s in (0, 0.1, 0.2)]
    flat = IntervalMetric(flat[0], flat[1:])
    unlimited = neighbor_table(flat, points[1:], 1, queries=[zero])
    np.testing.assert_array_equal(unlimited[["lower", "upper"]], [[0, np.inf]])
    limits = metric.interval(zero[None], points[:1])
    np.testing.assert_allclose(table[["lower", "upper"]].T, limits)


@pytest.mark.parametrize("turn", ["zero row", "three rows"])
def test_more_rows_of_a_map_do_not_matter(turn):
    """Columns of the 3 x 2 matrix are orthonormal, so distances are the same."""
    rng = np.random.default_rng(3)
    L = rng.normal(size=(2, 2)) + 0.2 * rng.normal(size=(5, 2, 2))
    more = np.eye(3)[:, 1:]
    more = more if turn == "zero row" else np.linalg.qr(rng.normal(size=(3, 2)))[0]
    X, Q = rng.normal(size=(9, 2)), rng.normal(size=(4, 2))
    found, wanted = (
        IntervalMetric(fits[0], fits[1:]).neighbor_draws("test")
        for fits in ([*map(Mahalanobis, more @ L)], [*map(Mahalanobis, L)])
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.pairwise(Q, X), other.pairwise(Q, X), rtol=1e-6)


def test_what_it_cannot_answer_is_refused(made, X):
    metric, left = fits()
    plain = [Mahalanobis(m.factor) for m in (metric, *left)]
    kinds = [build("PairSimilarity", s) for s in range(3)]
    calls = [
        lambda: made.wrong,
        lambda: made.ratio_interval((X[0], X[1]), (X[2], X[2])),
        lambda: made.interval(X[:, :2], X[:, :2]),
        lambda: IntervalMetric(metric, left[:1]),
        lambda: IntervalMetric(plain[0], plain[1:]).same_interval(X[0], X[1]),
        lambda: IntervalMetric(kinds[0], kinds[1:]).closer_probability(*X[:3]),
        lambda: IntervalMetric(kinds[0], kinds[1:]).ratio_interval(
            (X[0],) * 2, (X[0], X[1])
        ),
        lambda: with_intervals(pm.LDA().fit, X, np.arange(12) % 2),
        lambda: pm.nearest(made, X, X, 1),
    ]
    assert_refused(calls, "posterior/interval_refused.txt")


def test_groups_are_points_alone_or_fifty_balanced_parts():
    np.testing.assert_array_equal(groups_of(np.zeros(100, int)), np.arange(100))
    codes = np.repeat([0, 1, 2], [100, 60, 40])
    group = groups_of(codes)
    assert set(np.bincount(group)) == {4}
    table = np.array([np.bincount(group[codes == c], minlength=50) for c in range(3)])
    assert np.ptp(table, axis=1).max() <= 1
    assert np.any(group != groups_of(codes, 1))
    np.testing.assert_array_equal(group, groups_of(codes))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(4).normal(size=15)
    left = (x.sum() - x) / 14
    low, high = limits(np.array([x.mean(), *left]), 0.9)
    half = stats.t.ppf(0.95, 14) * x.std(ddof=1) / np.sqrt(15)
    np.testing.assert_allclose([low, high], x.mean() + half * np.array([-1, 1]))


@pytest.mark.parametrize(
    "name", ["PairSimilarity", "ClassDistribution", "LocalMahalanobis"]
)
def test_the_factor_multiplies_the_variance_of_other_dissimilarities(name):
    every = [build(name, seed) for seed in range(4)]
    made = IntervalMetric(every[0], every[1:], factor=2.5)
    A, B = np.random.default_rng(2).normal(size=(2, 3, every[0].n_features))
    D = np.array([np.diag(metric.pairwise(A, B)) for metric in every])
    if name == "ClassDistribution":
        D = np.array([metric.distance(A, B) for metric in every])
    low, high = made.interval(A, B)
    if name != "PairSimilarity":  # Numbers ≥ 0: on the scale of logarithms.
        D, low, high = np.log(D), np.log(low), np.log(high)
    wanted = np.sqrt(2.5) * (by_hand(D[0], D[1:])[1] - D[0])
    np.testing.assert_allclose(high - D[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(D[0] - low, wanted, rtol=1e-6)


def clustered(n=40, seed=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), np.repeat([0, 1], [n // 4 * 3, n - n // 4 * 3])


def test_each_division_leaves_out_each_point_once_and_a_quarter_of_each_class():
    X, y = clustered()
    kept = np.array(list(quarters(X, y)))
    assert kept.shape == (52, 40)
    np.testing.assert_array_equal((~kept).reshape(13, 4, 40).sum(1), 1)
    for c, size in ((0, 30), (1, 10)):
        assert set((~kept)[:, y == c].sum(1)) <= {size // 4, -(-size // 4)}
    assert len(np.unique(kept, axis=0)) == 52
    order = np.random.default_rng(3).permutation(40)
    np.testing.assert_array_equal(list(quarters(X[order], y[order])), kept[:, order])
    assert np.any(np.array(list(quarters(X, y, seed=1))) != kept)
    alone = np.array(list(quarters(X, np.r_[y[:-1], 2])))
    assert alone[:, -1].all()


def test_the_variance_of_a_mean_is_that_of_its_formula():
    """By 600 columns: V has a coefficient of variation of 0.23; 5 errors are 0.05."""
    X = np.random.default_rng(4).normal(size=(40, 600))
    kept = list(quarters(X, np.zeros(40, int)))
    means = np.array([X.mean(0), *(X[rest].mean(0) for rest in kept)])
    low, high = limits(means, 0.9, FACTOR)
    half = stats.t.ppf(0.95, 51) * X.std(0, ddof=1) / np.sqrt(40)
    assert abs(np.mean((high - low) ** 2 / (2 * half) ** 2) - 1) < 0.05


def test_classes_of_few_points_reduce_the_variance():
    """Of 12 classes with 3 points and one with 1 point, which is never left out."""
    wanted = FACTOR * (1 - 4 / 3 * 12 / 36) / (1 - 12 / 36)
    assert factor_of(np.array([3] * 12 + [1])) == pytest.approx(wanted)
    assert factor_of(np.array([1, 1])) == FACTOR


def inverse_scatter(X, y):
    within = X - np.array([X[y == c].mean(0) for c in y])
    return Mahalanobis(np.linalg.cholesky(np.linalg.inv(within.T @ within)).T)


def test_any_learner_has_intervals_by_refits_of_its_own():
    X, y = clustered()
    names = np.array(["a", "b"])[y]
    made = with_intervals(inverse_scatter, X, names)
    assert repr(made) == "IntervalMetric(Mahalanobis, 52 refits, 40 points)"
    assert made.factor == pytest.approx(3 / 51 * (1 - 8 / 120) / (1 - 2 / 40))
    assert made.df == 38
    for rest, refit in zip(quarters(X, y), made.left_out, strict=True):
        wanted = inverse_scatter(X[rest], y[rest])
        np.testing.assert_array_equal(refit.factor, wanted.factor)
    order = np.random.default_rng(3).permutation(40)
    moved = with_intervals(inverse_scatter, X[order], names[order])
    found = moved.interval(X[:5], X[5:10])
    np.testing.assert_allclose(found, made.interval(X[:5], X[5:10]), rtol=1e-9)


def test_groups_are_left_out_whole_and_copies_do_not_shorten_intervals():
    X, y = clustered()
    group = np.repeat([f"g{k}" for k in range(40)], 2)
    copies = np.repeat(X, 2, 0), np.repeat(y, 2)
    sizes = []

    def learn(X, y):
        sizes.append(np.unique(X, axis=0, return_counts=True)[1])
        return inverse_scatter(X, y)

    once = with_intervals(inverse_scatter, X, y).interval(X[:9], X[9:18])
    twice = with_intervals(learn, *copies, groups=group)
    assert {tuple(set(size)) for size in sizes} == {(2,)}
    width, wide = (np.log(m.upper / m.lower) for m in (
        once, twice.interval(X[:9], X[9:18])))  # fmt: skip
    np.testing.assert_allclose(wide, width, rtol=1e-9)
    short = with_intervals(inverse_scatter, *copies).interval(X[:9], X[9:18])
    assert np.mean(np.log(short.upper / short.lower) / width) < 0.85
    with pytest.raises(ValueError, match=r"groups must have shape \(40,\)"):
        with_intervals(inverse_scatter, X, y, groups=group)
    with pytest.raises(
        ValueError, match=r"groups must contain at least 4 groups .* got 0 of 2\."
    ):
        with_intervals(inverse_scatter, X, y, groups=y)


def test_refits_of_mixed_groups_keep_a_class_of_two_groups():
    """The other class is in all groups."""
    rng = np.random.default_rng(4)
    X, groups = rng.normal(size=(40, 3)), np.arange(40) // 4
    y = np.isin(np.arange(40), [0, 7]).astype(int)
    for seed in range(20):
        for rest in quarters(X, y, seed, groups=groups):
            assert set(y[rest]) == {0, 1}
    fitted = pm.LCA(2).fit(X, y, groups=groups)
    assert fitted.posterior_metric("intervals").df == 8


def test_points_that_stay_leave_no_quarter_empty():
    y = np.array([0, 0, 1, 2, 2, 3])
    X = np.random.default_rng(0).normal(size=(6, 2))
    for seed in range(20):
        for rest in quarters(X, y, seed):
            assert rest.sum() == 5
            assert rest[[2, 5]].all()


def test_a_refit_that_loses_a_class_is_refused():
    """Classes 1 and 2 are each in two groups, and share one."""
    X, groups = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) // 10
    y = np.zeros(60, int)
    y[[0, 10]], y[[1, 20]] = 1, 2
    with pytest.raises(ValueError, match=r"groups: each refit must .* number [12]"):
        with_intervals(inverse_scatter, X, y, groups=groups)


def test_groups_of_several_classes_are_left_out():
    """Only a group that is the only one of a class stays; four must be left out."""
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(60, 3)), np.arange(60) % 3, np.arange(60) // 10
    for rest in quarters(X, y, groups=groups):
        left_out = set(groups[~rest])
        assert 1 <= len(left_out) <= 2
        assert not left_out & set(groups[rest])
    alone = np.where(groups == 0, 3, y)  # The class of one group.
    assert np.all([rest[:10].all() for rest in quarters(X, alone, groups=groups)])
    assert not np.all([*quarters(X, alone, groups=groups)], 0)[10:].any()
    with pytest.raises(ValueError, match=r"groups must .* got 3 of 3\. Add groups"):
        with_intervals(inverse_scatter, X, y, groups=groups // 2)


@pytest.mark.parametrize("on_disk", [True, False])
def test_intervals_do_not_depend_on_the_number_of_jobs(on_disk):
    X, y = pm.datasets.load("iris")
    data = (pm.open(X, label=y),) if on_disk else (X, y)

    def learn(*sample):
        return pm.LDA(prior_strength=1).fit(*sample).get_metric()

    alone = with_intervals(learn, *data)
    with joblib.parallel_config("threading"):
        divided = with_intervals(learn, *data, n_jobs=2)
    for one, other in zip(alone.left_out, divided.left_out, strict=True):
        np.testing.assert_array_equal(one.factor, other.factor)


def test_a_refit_with_fewer_directions_has_rows_of_zeros():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(10, 3)), np.repeat([0, 1], 5)

    def learn(X, y):
        return Mahalanobis(np.eye(3)[: 2 + (len(X) % 2)] * (1 + X.mean()))

    made = with_intervals(learn, X, y)
    assert {len(m.factor) for m in (made.metric, *made.left_out)} == {3}
    wanted = learn(X, y).distance(X[:3], X[3:6])
    np.testing.assert_allclose(made.distance(X[:3], X[3:6]), wanted)


def test_an_infinite_refit_keeps_p_same_inside_0_and_1(X):
    metric, left = fits()
    logit = [
        Mahalanobis(m.factor, LogLogisticLink(b, 1.0, 1e-9, 1.0, "all"))
        for m, b in zip((metric, *left), [0.3, np.inf, *[0.2] * (G - 1)], strict=True)
    ]
    made = IntervalMetric(logit[0], logit[1:])
    low, high = made.same_interval(X[0], X[1])
    assert (low, high) == (0, 1)


def test_there_is_no_upper_limit_if_only_the_fit_is_zero():
    maps = [[1.0, 0.0], [1.0, 0.3], [1.0, -0.3], [1.0, 0.2], [1.0, -0.2]]
    every = [Mahalanobis(np.array([L])) for L in maps]
    made = IntervalMetric(every[0], every[1:])
    o, e1, e2 = np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert tuple(made.ratio_interval((o, e2), (o, e1))) == (0, np.inf)
    assert tuple(made.interval(o, e2)) == (0, np.inf)
    assert tuple(made.interval(o, o)) == (0, 0)
    assert tuple(made.ratio_interval((o, o), (o, e1))) == (0, 0)


def test_limits_hold_the_distance_to_the_last_digit():
    """Of refits that all are the fit, and of noise."""
    rng = np.random.default_rng(8)
    A, B = rng.normal(size=(2, 300, 3))
    metric, left = fits()
    for refits in ([metric] * 3, left):
        made = IntervalMetric(metric, refits)
        low, high = made.interval(A, B)
        own = made.distance(A, B)
        assert np.all((low <= own) & (own <= high))


def test_one_feature_is_not_taken_for_all(made, X, unchecked):
    fits = [made.metric, *made.left_out]
    draws = PosteriorMetric(
        fits, "intervals", pairs_independent=True, source="bootstrap"
    )
    for ask in (made.interval, made.same_probability, draws.pair_draws):
        with pytest.raises(ValueError, match=r"B must have .*3 features"):
            ask(X, X[:, :1])


def of_rows(learner):
    """Return what ``with_intervals`` calls, of a source and of arrays."""
    return lambda *data: learner.fit(*data).get_metric()


@pytest.mark.long
def test_intervals_of_a_source_are_those_of_the_same_quarters_in_memory():
    rng = np.random.default_rng(8)
    y = rng.integers(0, 3, 80)
    X = rng.normal(size=(80, 3)) + y[:, None]
    learn = of_rows(pm.LDA(prior_strength=2.0))
    made = with_intervals(learn, pm.open(X, label=y), seed=4)
    parts = [group_of(np.arange(80), 4, 4 * 13 + r) for r in range(13)]
    left_out = [learn(X[p != k], y[p != k]) for p in parts for k in range(4)]
    factor = 3 / 51 * (1 - 4 * 3 / (3 * 80)) / (1 - 3 / 80)  # 3 classes
    wanted = IntervalMetric(learn(X, y), left_out, factor=factor)
    found, right = (
        np.stack(one.interval(X[:20], X[20:40], prob=0.9)) for one in (made, wanted)
    )
    np.testing.assert_allclose(found, right, rtol=1e-9)
    # Other quarters, other limits: the comparison can fail.
    other = with_intervals(learn, pm.open(X, label=y), seed=5)
    assert np.abs(np.stack(other.interval(X[:20], X[20:40])) - right).max() > 1e-4


def test_a_source_without_labels_needs_none():
    X = np.random.default_rng(9).normal(size=(300, 2))

    def learn(rows):
        columns = column_moments(rows)
        return Mahalanobis(np.diag(np.sqrt(columns.n / columns.square)))

    made = with_intervals(learn, pm.open(X), about="scales")
    assert made.factor == pytest.approx(3 / 51 * (1 - 4 / 900) / (1 - 1 / 300))
    assert (len(made.left_out), made.about) == (52, "scales")
    rest = X[group_of(np.arange(300), 4, 12) != 3]
    np.testing.assert_allclose(np.diag(made.left_out[-1].factor), 1 / rest.std(0))


def test_what_a_source_cannot_do_is_named():
    X, y = np.zeros((8, 1)), np.array([0, 0, 0, 0, 0, 1, 1, 2])
    learn = of_rows(pm.LDA(prior_strength=1.0))
    calls = [
        lambda: with_intervals(learn, pm.open(X, label=y), y),
        lambda: with_intervals(learn, pm.open(X, label=y), groups=y),
        lambda: with_intervals(learn, pm.open(X[:1])),
        lambda: with_intervals(learn, X),
    ]
    assert_refused(calls, "posterior/source_refused.txt")
