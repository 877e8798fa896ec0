"""``next_pairs``: mutual information by enumeration, streaming, errors by name."""

import sys
from itertools import combinations, product

import numpy as np
import pytest

import probmetric as pm
from probmetric.posterior.next_pairs import CRITERIA, N_ANSWERS, _check_draws
from tests.metric_kinds import build

N_DRAWS = 7


@pytest.fixture
def posterior():
    """Seven draws that disagree about which of three features matter."""
    rng = np.random.default_rng(4)
    draws = [
        pm.Mahalanobis(
            np.diag(rng.gamma(0.7, size=3)),
            pm.metric.Link(b=rng.uniform(0.05, 0.6), scale=1.0),
        )
        for _ in range(N_DRAWS)
    ]
    return pm.posterior.PosteriorMetric(draws, "prediction")


@pytest.fixture
def pairs():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(9, 3))
    return np.stack([A, A + 0.8 * rng.normal(size=(9, 3))], 1)


def probabilities(posterior, pairs):
    """P(same) of every draw and pair, by plain NumPy."""
    delta = pairs[:, 0] - pairs[:, 1]
    return np.stack(
        [
            np.exp(-(d.link.b + np.sum((delta @ d.factor.T) ** 2, 1)))
            for d in posterior.draws
        ]
    )


def information(p, batch):
    """Mutual information of the answers to a batch and the draw, by enumeration.

    H(answers) + H(draw) - H(answers, draw), over a table of every answer and draw.
    """
    batch = list(batch)
    table = np.array(
        [
            [
                np.prod(np.where(answer, p[s, batch], 1 - p[s, batch])) / len(p)
                for s in range(len(p))
            ]
            for answer in product((0, 1), repeat=len(batch))
        ]
    )

    def entropy(q):
        q = q[q > 0]
        return -np.sum(q * np.log(q))

    return entropy(table.sum(1)) + entropy(table.sum(0)) - entropy(table.ravel())


def left_variance(p, batch, i):
    """Variance of p_i that least squares on simulated answers leaves, by moments."""
    C = np.cov(p.T, bias=True)
    batch = list(batch)
    noise = np.diag(np.mean(p * (1 - p), 0)[batch])
    answers = C[np.ix_(batch, batch)] + noise
    return C[i, i] - C[i, batch] @ np.linalg.solve(answers, C[batch, i])


def greedy(p, n, value):
    """The greedy batch, each step over all candidates: the first of equals."""
    chosen, scores = [], []
    for _ in range(n):
        gains = [
            -np.inf if i in chosen else round(value(p, chosen, i), 12)
            for i in range(p.shape[1])
        ]
        chosen.append(int(np.argmax(gains)))
        scores.append(max(gains))
    return chosen, scores


def gained(p, chosen, i):
    before = information(p, chosen) if chosen else 0.0
    return information(p, [*chosen, i]) - before


RULES = {"information": gained, "disagreement": left_variance}


# --- The scores -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_scores_add_up_to_the_information_by_enumeration(posterior, pairs, n):
    p = probabilities(posterior, pairs)
    for batch in combinations(range(len(pairs)), n):
        found = pm.next_pairs(posterior, pairs[list(batch)], n)
        expected = information(p, batch)
        assert found.scores.sum() == pytest.approx(expected, abs=1e-10)
        # Negative control: singles added up count what they share twice.
        singles = sum(information(p, [i]) for i in batch)
        assert n == 1 or singles > expected + 1e-6


@pytest.mark.parametrize("criterion", RULES)
def test_order_is_that_of_the_greedy_choice(posterior, pairs, criterion):
    expected = greedy(probabilities(posterior, pairs), len(pairs), RULES[criterion])
    found = pm.next_pairs(posterior, pairs, len(pairs), criterion)
    assert found.indices.tolist() == expected[0]
    np.testing.assert_allclose(found.scores, expected[1], atol=2e-12)


def test_left_variance_is_that_of_a_regression_on_simulated_answers(posterior, pairs):
    p = probabilities(posterior, pairs)
    found = pm.next_pairs(posterior, pairs, 3, "disagreement")
    rng = np.random.default_rng(0)
    s = rng.integers(len(p), size=400_000)
    answers = rng.random((len(s), 2)) < p[s][:, found.indices[:2]]
    design = np.column_stack([np.ones(len(s)), answers])
    target = p[s, found.indices[2]]
    residual = target - design @ np.linalg.lstsq(design, target)[0]
    error = np.std(residual**2) / np.sqrt(len(s))
    assert abs(np.mean(residual**2) - found.scores[2]) < 5 * error
    assert abs(np.var(target) - found.scores[2]) > 20 * error  # Without the answers.


@pytest.mark.parametrize("criterion", RULES)
def test_near_copies_of_a_pair_that_was_chosen_wait(criterion):
    """Two draws tell features apart, two others other ones; copies tell nothing new."""
    link = pm.metric.Link(0.01, 1.0)
    weights = [[3.0, 0, 2.5, 0], [3.0, 0, 0, 2.5], [0, 3.0, 2.5, 0], [0, 3.0, 0, 2.5]]
    draws = [pm.Mahalanobis(np.diag(w), link) for w in weights]
    posterior = pm.posterior.PosteriorMetric(draws, "prediction")
    first, second = np.zeros((2, 2, 4))
    first[1, 0], second[1, 2] = 1.0, 1.0
    copies = first + 1e-4 * np.random.default_rng(0).normal(size=(20, 2, 4))
    every = np.concatenate([copies, second[None]])
    found = pm.next_pairs(posterior, every, 2, criterion).indices
    assert (found == 20).sum() == 1
    # Negative control: the best two for themselves are copies.
    p = probabilities(posterior, every)
    alone = [information(p, [i]) for i in range(21)]
    best = np.argsort(alone if criterion == "information" else p.var(0))[-2:]
    assert 20 not in best


def test_answers_that_are_drawn_agree_with_all_of_them():
    """Gains after 14 answers: 1024 of 16384 answers, and all."""
    rng = np.random.default_rng(2)
    p = rng.beta(1, 1, size=(12, 15))
    start, gains, after = CRITERIA["information"]
    every = np.full((1, 12), 1 / 12)
    for i in range(14):
        every = np.concatenate([every * p[:, i], every * (1 - p[:, i])])
    exact = gains(every, p[:, 14:])[0]
    drawn = []
    for seed in range(30):
        state, source = start(12), np.random.default_rng(seed)
        for i in range(14):
            state = after(state, p[:, i], source)
        assert len(state) == N_ANSWERS
        assert state.sum() == pytest.approx(1)
        drawn.append(gains(state, p[:, 14:])[0])
    error = np.std(drawn, ddof=1) / np.sqrt(len(drawn))
    assert 0 < error < exact / 50
    assert abs(np.mean(drawn) - exact) < 4 * error
    # Negative control: without the answers the gain is another.
    alone = gains(start(12), p[:, 14:])[0]
    assert alone > exact + 20 * error


def test_draws_that_are_sure_have_nothing_to_learn():
    """P(same) of 0 and 1 and equal draws give 0, in order, without a warning."""
    draw = pm.Mahalanobis(np.eye(1), pm.metric.Link(b=0.0, scale=1.0))
    posterior = pm.posterior.PosteriorMetric([draw, draw], "prediction")
    pairs = np.array([[[0.0], [0.0]], [[0.0], [1e3]], [[0.0], [1.0]]])
    for criterion in RULES:
        found = pm.next_pairs(posterior, pairs, 3, criterion)
        assert found.indices.tolist() == [0, 1, 2]
        assert found.scores.tolist() == [0, 0, 0]


def test_draws_that_contradict_each_other_are_told_apart_by_one_answer():
    """log 2 from a pair on which two draws are sure of the opposite, then nothing."""
    link = pm.metric.Link(b=0.0, scale=1.0)
    draws = [pm.Mahalanobis(np.diag(w), link) for w in ([0.0, 60.0], [60.0, 0.0])]
    posterior = pm.posterior.PosteriorMetric(draws, "prediction")
    pairs = np.array([[[0.0, 0], [1, 0]], [[0.0, 0], [0, 1]]])
    found = pm.next_pairs(posterior, pairs, 2)
    np.testing.assert_allclose(found.scores, [np.log(2), 0], atol=1e-12)


def test_other_kinds_that_define_the_probability():
    draws = [build("PairSimilarity", seed) for seed in range(5)]
    pairs = np.random.default_rng(1).normal(size=(6, 2, draws[0].n_features))
    p = np.stack([m.same_probability(pairs[:, 0], pairs[:, 1]) for m in draws])
    posterior = pm.posterior.PosteriorMetric(draws, "prediction")
    found = pm.next_pairs(posterior, pairs, 3)
    assert found.indices.tolist() == greedy(p, 3, gained)[0]


# --- Forms of candidates --------------------------------------------------------------


@pytest.fixture
def many():
    """5000 pairs of 80 points, some of them twice."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 3))
    return X, rng.integers(0, 80, size=(5000, 2))


@pytest.mark.parametrize("criterion", RULES)
def test_gains_that_are_not_computed_again_change_no_choice(
    posterior, many, criterion, monkeypatch
):
    """The choice is greedy with tiles so small that most gains are out of date."""
    X, rows = many[0], many[1][:400]
    n = 12 if criterion == "disagreement" else 6
    whole = pm.next_pairs(posterior, rows, n, criterion, X=X)
    monkeypatch.setattr(sys.modules["probmetric.posterior.next_pairs"], "TILE", 64)
    tiled = pm.next_pairs(posterior, rows, n, criterion, X=X)
    assert tiled.indices.tolist() == whole.indices.tolist()
    assert tiled.scores.tolist() == whole.scores.tolist()


def test_ties_go_by_the_order_of_candidates(posterior, pairs):
    twice = np.concatenate([pairs, pairs[:, ::-1]])  # Symmetric: each pair again.
    for criterion in RULES:
        found = pm.next_pairs(posterior, twice, 18, criterion).indices.tolist()
        for i in range(9):
            assert found.index(i) < found.index(i + 9)


def test_a_seed_is_all_that_is_random(posterior, many):
    X, rows = many
    first = pm.next_pairs(posterior, rows[:200], 30, X=X)
    again = pm.next_pairs(posterior, rows[:200], 30, X=X)
    other = pm.next_pairs(posterior, rows[:200], 30, X=X, seed=1)
    assert first.scores.tolist() == again.scores.tolist()
    np.testing.assert_array_equal(first.scores[:11], other.scores[:11])
    assert first.scores.tolist() != other.scores.tolist()
    assert len(set(first.indices.tolist())) == 30


# --- Refusals -------------------------------------------------------------------------

LINKED = pm.Mahalanobis(np.eye(3), pm.metric.Link(0.1, 1.0))


def test_a_single_metric_is_no_posterior():
    """By the check itself: in tests annotations refuse it first."""
    with pytest.raises(ValueError, match=r"posterior .* got Mahalanobis"):
        _check_draws(LINKED)
