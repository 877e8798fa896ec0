"""``verification``: reference figures, brute force over thresholds, coverage."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import ConvexHull
from sklearn.metrics import det_curve

import probmetric as pm
from probmetric.evaluation import verification, verification_intervals
from probmetric.evaluation.ranking import chosen_pairs
from probmetric.evaluation.sources import source_pairs
from tests.metric_kinds import build


@pytest.fixture
def pairs():
    """60 pairs of one source, 300 of two; rounded, so that there are ties."""
    rng = np.random.default_rng(3)
    same = np.arange(360) < 60
    return np.round(rng.normal(size=360) * 1.5 + 2 * same - 0.5, 1), same


def population(rng, n_sources, members=2):
    """Scores of all pairs of noisy members of sources, with true log ratios."""
    mean = 1.5 * rng.normal(size=n_sources)
    source = np.repeat(np.arange(n_sources), members)
    x = mean[source] + rng.normal(size=source.size)
    i, j = np.triu_indices(source.size, 1)
    # Two normals of variance 1 + 1.5², covariance 1.5² where of one source.
    v, c = 3.25, 2.25
    a, b = x[i], x[j]
    one = -0.5 * np.log(v**2 - c**2)
    one = one - (v * (a**2 + b**2) - 2 * c * a * b) / (2 * (v**2 - c**2))
    two = -np.log(v) - (a**2 + b**2) / (2 * v)
    return one - two, source[i] == source[j], np.c_[source[i], source[j]]


def test_cllr_and_its_least_value_are_those_of_lir(pairs):
    # lir 1.8.0, metrics.cllr and cllr_min, on the same scores in base 10.
    found = verification(*pairs)
    assert found.cllr == pytest.approx(0.8073349252434722, rel=1e-13)
    assert found.cllr_min == pytest.approx(0.6896164240896125, rel=1e-13)


def test_rates_are_those_of_the_convex_hull_and_of_every_threshold(pairs):
    scores, same = pairs
    alarms, missed, _ = det_curve(same, scores)
    # The sweep of scikit-learn leaves the end out where nothing is called "same".
    alarms, missed = np.append(alarms, 0.0), np.append(missed, 1.0)
    for p, miss, alarm in ((0.01, 1, 1), (0.3, 10, 2), (0.5, 1, 1)):
        cost = p * miss * missed + (1 - p) * alarm * alarms
        least = min(cost.min(), p * miss, (1 - p) * alarm)
        found = verification(
            scores, same, p_same=p, cost_miss=miss, cost_false_alarm=alarm
        )
        expected = least / min(p * miss, (1 - p) * alarm)
        assert found.min_dcf == pytest.approx(expected, rel=1e-12)
    # The hull's lower left boundary, where it meets the diagonal.
    corners = np.c_[np.append(alarms, [1, 0, 1]), np.append(missed, [0, 1, 1])]
    found = verification(scores, same).eer
    edges = ConvexHull(corners).equations  # n · x + c = 0 on each edge.
    below = edges[edges[:, 0] + edges[:, 1] < -1e-9]
    assert found == pytest.approx(np.max(-below[:, 2] / below[:, :2].sum(1)), rel=1e-9)


def test_only_cllr_asks_for_more_than_the_order(pairs):
    scores, same = pairs
    found, turned = verification(scores, same), verification(scores**3 / 9 - 4, same)
    assert turned[1:] == pytest.approx(found[1:], rel=1e-12)
    assert abs(turned.cllr - found.cllr) > 0.1
    assert found.cllr > found.cllr_min


def test_perfect_useless_and_certain_but_wrong():
    same = np.array([1, 1, 0, 0])
    perfect = verification([np.inf, np.inf, -np.inf, -np.inf], same)
    assert perfect == (0, 0, 0, 0)
    assert verification(np.zeros(4), same) == pytest.approx((1, 1, 0.5, 1))
    wrong = verification([-np.inf, 1, -1, -2], same)
    assert wrong.cllr == np.inf
    assert wrong.cllr_min < 1


def test_the_true_ratios_are_calibrated_and_halved_ones_are_not():
    scores, same, _ = population(np.random.default_rng(0), 400)
    true, halved = verification(scores, same), verification(scores / 2, same)
    assert true.cllr - true.cllr_min < 0.02 < halved.cllr - halved.cllr_min


def test_intervals_are_those_of_the_jackknife_over_sources_with_its_bias():
    rng = np.random.default_rng(2)
    mean, source = 1.5 * rng.normal(size=5), np.repeat(np.arange(5), [1, 2, 2, 3, 6])
    x = mean[source] + rng.normal(size=14)
    i, j = np.triu_indices(14, 1)
    scores, same = np.round(1 - np.abs(x[i] - x[j]), 1), source[i] == source[j]
    sources = np.c_[source[i], source[j]]
    costs = {"p_same": 0.3, "cost_miss": 2.0}
    result = verification_intervals(scores, same, sources, prob=0.8, **costs)
    whole, parts = np.log(verification(scores, same, **costs)), []
    for code in range(5):  # With every pair that it is in, first or second.
        rest = (sources[:, 0] != code) & (sources[:, 1] != code)
        parts.append(np.log(verification(scores[rest], same[rest], **costs)))
    gap = np.array(parts) - np.mean(parts, 0)
    half = stats.t.ppf(0.9, 4) * np.sqrt(4 / 5 * np.sum(gap**2, 0))
    corrected = whole - 4 * (np.mean(parts, 0) - whole)
    assert corrected[0] < whole[0]  # Cllr is the only one whose bias is upwards.
    assert np.all(corrected[1:] > whole[1:])
    low, high = np.minimum(whole, corrected) - half, np.maximum(whole, corrected) + half
    np.testing.assert_allclose(np.transpose(result), np.exp([low, high]), rtol=1e-9)


@pytest.mark.slow
def test_intervals_by_source_cover_and_those_by_pair_do_not():
    many = [population(np.random.default_rng(seed), 1200)[:2] for seed in range(3)]
    truth = np.mean([verification(*of, p_same=0.3) for of in many], 0)
    n_runs, covered = 100, np.zeros((2, 4))
    for seed in range(100, 100 + n_runs):
        scores, same, by_source = population(np.random.default_rng(seed), 20, 4)
        pair = np.arange(len(same))
        by_pair = np.c_[pair, np.where(same, pair, -1 - pair)]
        for row, sources in enumerate((by_source, by_pair)):
            found = verification_intervals(scores, same, sources, p_same=0.3)
            ends = np.array(found).T
            covered[row] += (ends[0] <= truth) & (truth <= ends[1])
    # Measured: .865 or more of each. False alarm: 1e-3 for each cost.
    assert (covered[0] >= stats.binom.ppf(1e-3, n_runs, 0.865)).all(), covered
    assert covered[1, 0] < 0.7 * n_runs, covered


@pytest.mark.long
def test_more_than_a_hundred_sources_are_left_out_in_groups_of_a_seed():
    asked = population(np.random.default_rng(1), 120)
    first, again = (verification_intervals(*asked, seed=4) for _ in range(2))
    assert first == again
    other = verification_intervals(*asked, seed=5)
    assert other.eer.upper == pytest.approx(first.eer.upper, rel=0.3)
    assert other.eer.upper != first.eer.upper


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Cllr is")
def test_a_similarity_is_evaluated_by_its_log_ratios():
    rng = np.random.default_rng(6)
    metric = build("PairSimilarity")
    X, y = rng.normal(size=(20, metric.n_features)), np.arange(20) % 4
    figures = pm.evaluation.evaluate(X, y, metric=metric)
    i, j = np.triu_indices(20, 1)
    i, j = np.r_[i, j], np.r_[j, i]
    expected = verification(metric.log_ratio(X[i], X[j]), y[i] == y[j])
    for name, value in expected._asdict().items():
        assert figures[name] == pytest.approx(value, rel=1e-9)


def test_pairs_of_one_source_are_kept_where_others_are_left_out():
    rng = np.random.default_rng(7)
    sources = rng.permutation(np.repeat(np.arange(60), np.arange(60) % 4 + 1))
    i, j = np.triu_indices(len(sources), 1)
    wanted = {*zip(i.tolist(), j.tolist(), strict=True)}
    of_one = {(a, b) for a, b in wanted if sources[a] == sources[b]}
    for most, kept in ((10**5, len(of_one)), (200, len(of_one)), (50, 50)):
        a, b = source_pairs(sources, most, seed=0)
        found = [*zip(a.tolist(), b.tolist(), strict=True)]
        assert len({*found}) == len(found)
        assert {*found} <= wanted
        assert len({*found} & of_one) == kept
        assert len(found) - kept == min(most, len(wanted) - len(of_one))
    plain = chosen_pairs(len(sources), 200, 0, symmetric=True)
    assert np.sum(sources[plain[0]] == sources[plain[1]]) < 0.2 * len(of_one)


def test_the_few_pairs_of_two_sources_are_kept_beside_a_large_one():
    sources = np.repeat([0, 1, 2], [200, 2, 2])
    a, b = source_pairs(sources, 1000, seed=0)
    of_two = sources[a] != sources[b]
    assert of_two.sum() == 200 * 4 + 4
    assert (~of_two).sum() == 1000
