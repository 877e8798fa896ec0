"""Every score, table and message of ``evaluation`` equals a stored text.

Scores were computed a second time with scikit-learn or loops, mostly below.
"""

from importlib import import_module
from types import SimpleNamespace as Bag

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import probmetric as pm
from probmetric.evaluation import answers, ranking, sources
from probmetric.metric import Mahalanobis, PairSimilarity
from probmetric.metric.mean import MeanDissimilarity
from probmetric.posterior.intervals import Interval
from probmetric.posterior.metric import PosteriorMetric
from tests.dump import outcomes, text
from tests.expected import assert_expected
from tests.metric_kinds import build
from tests.oracles import retrieval_figures

# Functions of the same names hide these modules.
cross_validate, evaluate, loo, verification = (
    import_module(f"probmetric.evaluation.{name}")
    for name in ("cross_validate", "evaluate", "loo", "verification")
)
P = np.array([0.12, 0.81, 0.5, 0.33, 0.97, 0.66, 0.27])
COUNT, TRIALS = np.array([1, 2, 3, 0, 4, 1, 2]), np.array([3, 2, 5, 1, 4, 4, 3])
W = np.array([0.5, 2.0, 1.0, 3.0, 0.25, 1.5, 0.75])
X = np.random.default_rng(1).normal(size=(11, 3)).round(2)
Y = np.array([0, 2, 1, 1, 0, 2, 2, 0, 2, 3, 2])
L = np.array([[1.0, 0.2, -0.4], [0.0, 0.7, 0.3]])
RATIOS = np.array([2.3, 1.1, -0.4, 0.6, 3.1, -1.7, -2.6, 0.9, -0.8, -3.3, 0.1])
SAME = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
NAMES = np.array([[1, 1], [1, 1], [2, 2], [2, 2], [4, 4], [1, 2], [1, 3], [2, 3],
                  [2, 4], [3, 4], [1, 4]])  # fmt: skip


def test_answers():
    """Each judgment as a row of its own, scored by scikit-learn."""
    calls = {
        "counts": lambda: answers.answer_scores(
            P, COUNT, trials=TRIALS, sample_weight=W, n_bins=4),
        "labels": lambda: answers.answer_scores(P, COUNT > 1, n_bins=3),
        "one kind": lambda: answers.answer_auc(P, np.ones(7)),
        "impossible": lambda: answers.answer_scores([0.0, 1.0], [1, 1])["log_loss"],
        "range": lambda: answers.answer_scores([0.5, 1.25], [0, 1]),
        "shape": lambda: answers.answer_scores(P, COUNT[:3]),
        "trials": lambda: answers.answer_scores(P, COUNT, trials=TRIALS * 0.5),
        "y": lambda: answers.answer_scores(P, TRIALS),
        "count": lambda: answers.answer_scores(P, TRIALS, trials=COUNT + 1),
        "weights": lambda: answers.answer_scores(P, W > 1, sample_weight=-W),
        "nan": lambda: answers.answer_scores([np.nan], [1]),
        "empty": lambda: answers.answer_scores([], []),
        "bins": lambda: answers.answer_scores(P, COUNT > 1, n_bins=0),
        "no weight": lambda: answers.answer_scores(P, COUNT > 1, sample_weight=W * 0),
    }  # fmt: skip
    found = outcomes(calls)
    assert_expected(text(found), "evaluation/answers.txt")
    row = np.repeat(np.arange(7), 2)
    y, w = np.tile([1, 0], 7), np.stack([COUNT, TRIALS - COUNT], 1).ravel() * W[row]
    p, some = P[row], found["counts"]
    assert some["log_loss"] == pytest.approx(log_loss(y, p, sample_weight=w))
    assert some["brier"] == pytest.approx(brier_score_loss(y, p, sample_weight=w))
    assert some["roc_auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=w))
    right = np.where(p == 0.5, 0.5, (p > 0.5) == y)
    assert some["accuracy"] == pytest.approx(np.average(right, weights=w))
    bins = np.floor(p * 4)
    gaps = [abs(w[bins == b] @ (y - p)[bins == b]) for b in range(4)]
    assert some["ece"] == pytest.approx(sum(gaps) / w.sum())


class Votes:
    classes_, novelty = np.array([0, 1, 2]), 0.55

    def predict_proba(self, X):
        raw = np.exp(np.asarray(X)[:, [1, 0, 2]])
        return raw / raw.sum(1, keepdims=True)

    def typicality(self, X):
        return np.abs(np.asarray(X)[:, 0])


def test_evaluate():
    """Definitions in loops and scikit-learn, on the rows of known classes."""
    metric = Mahalanobis(L)
    found = evaluate.evaluate(X, Y, classifier=Votes(), metric=metric, n_bins=4)
    limited = evaluate.evaluate(X, Y, metric=metric, max_queries=3, max_depth=2,
                                max_pairs=20, seed=5)  # fmt: skip
    ratio = build("PairSimilarity")
    calls = {
        "all": lambda: found,
        "limited": lambda: limited,
        "ratio": lambda: evaluate.evaluate(X, Y, metric=ratio),
        "draws": lambda: evaluate.evaluate(
            X, Y, metric=PosteriorMetric([metric, Mahalanobis(L * [1, 2, 3])],
                "prediction")
        ),
        "neither": lambda: evaluate.evaluate(X, Y),
        "unknown": lambda: evaluate.evaluate(
            X, Y, classifier=Bag(classes_=[0], predict_proba=len)),
        "shape": lambda: evaluate.evaluate(X, Y[:3], metric=metric),
        "deep": lambda: evaluate.retrieval(metric, X, Y),
        "identifiers": lambda: evaluate.evaluate(X, np.arange(11), metric=metric),
        "one class": lambda: evaluate.evaluate(X, Y * 0, metric=metric),
        "infinite": lambda: evaluate.evaluate(X / 0.0, Y, metric=metric),
        "pairs": lambda: evaluate.evaluate(X, Y, metric=metric, max_pairs=0),
        "bins": lambda: evaluate.evaluate(X, Y, metric=metric, n_bins=0),
        "nan": lambda: evaluate._probabilities(np.full((2, 2), np.nan), (2, 2)),
        "P": lambda: evaluate._probabilities(np.full((2, 2), 1.5), (2, 2)),
        "P shape": lambda: evaluate._probabilities(np.ones((2, 2)), (2, 3)),
        "coverage": lambda: evaluate.coverage(
            Interval(np.array([0.0, 1, 2, 5, 3]), np.array([1.0, 2, 3, 7, 4])),
            np.array([0.5, 2.5, 2.0, 7.0, 1.0])),
        "coverage shape": lambda: evaluate.coverage(Interval(np.ones(2), np.ones(2)),
            np.ones(3)),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "evaluation/evaluate.txt")
    known = Y < 3
    y, p = Y[known], Votes().predict_proba(X[known])
    right, top = p.argmax(1) == y, p.max(1)
    assert found["accuracy"] == pytest.approx(right.mean())
    assert found["log_loss"] == pytest.approx(log_loss(y, p))
    assert found["brier"] == pytest.approx(np.sum((p - np.eye(3)[y]) ** 2, 1).mean())
    gaps = [abs((right * 1.0 - top)[np.floor(top * 4) == b].sum()) for b in range(4)]
    assert found["ece"] == pytest.approx(sum(gaps) / 10)
    novel = np.abs(X[:, 0]) <= 0.55
    assert (found["false_alarms"], found["caught"]) == (novel[known].mean(), novel[9])
    D = np.linalg.norm((X[:, None] - X) @ L.T, axis=2)
    for name, value in retrieval_figures(D, Y).items():
        assert found[name] == pytest.approx(value)
    i, j = np.triu_indices(11, 1)
    area = roc_auc_score(Y[i] == Y[j], -D[i, j])
    assert found["pair_roc_auc"] == pytest.approx(area)


def test_ranking():
    """Places and pairs by hand: pair k of the triangle is (0,1), (0,2), (1,2), ..."""
    hit = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 1]], bool)
    depth = np.array([2, 4, 3])
    sums = ranking.ranking_sums(hit, depth)
    by_hand = [2, 1 / 2 + 2 / 4 + 2 / 3, 1 / 2 + (1 / 3 + 2 / 4) / 4 + 2 / 3]
    np.testing.assert_allclose(sums, by_hand)
    R = np.array([2, 0, 1, 1, 2, 2])
    probabilities = np.array([[0.7, 0.2, 0.1], [0.25, 0.35, 0.4], [0.0, 1.0, 0.0]])
    classified = [(np.array([0, 1, 2]), probabilities, np.array([0.5, 2.0, 1.0]))]
    calls = {
        "class sums": lambda: ranking.class_sums(classified * 2, 4),
        "class figures": lambda: ranking.class_figures(ranking.class_sums(classified,
            3)),
        "queries": lambda: [ranking.query_rows(R, most, 3) for most in (None, 2, 9)],
        "none": lambda: ranking.query_rows(R * 0, None, 3),
        "figures": lambda: [ranking.ranking_figures(sums, 3, able, 5, most)
                            for able, most in ((3, None), (4, 5), (9, 4))],
        "pairs": lambda: [ranking.chosen_pairs(5, most, 2, symmetric=s)
                          for most, s in ((10, True), (4, True), (3, False))],
        "triangle": lambda: ranking.triangle(np.array([0, 1, 2, 5, 6, 10**12])),
        "scored": lambda: ranking.scored(Mahalanobis(L), X, Y, *ranking.triangle(
            np.arange(9))),
        "one kind": lambda: ranking.scored(Mahalanobis(L), X, Y * 0, *ranking.triangle(
            np.arange(9))),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "evaluation/ranking.txt")
    j, i = ranking.triangle(np.arange(55))[::-1]
    assert [*zip(i, j, strict=True)] == [(a, b) for b in range(11) for a in range(b)]


def test_verification():
    """Costs by their definitions in a loop; intervals have their own test."""
    costs = {"p_same": 0.4, "cost_miss": 2.0, "cost_false_alarm": 1}
    ends = verification.verification_intervals(RATIOS, SAME, NAMES, prob=0.8, **costs)
    many = (
        np.array([1.3, -0.2, 0.7, -1.6, 2.2])[np.arange(600) % 5]
        + SAME[np.arange(600) % 11]
    )
    two = np.arange(600) % 4 == 0
    other = np.c_[
        np.arange(600) // 2,
        np.where(two, np.arange(600) // 2, 300 + np.arange(600) % 7),
    ]
    calls = {
        "default": lambda: verification.verification(RATIOS, SAME),
        "costs": lambda: verification.verification(RATIOS, SAME, **costs),
        "infinite": lambda: verification.verification([np.inf, -np.inf, 1], [1, 1, 0]),
        "intervals": lambda: ends,
        "groups": lambda: verification.verification_intervals(many, two, other, seed=3),
        "perfect": lambda: verification._interval(np.array([0.0, 1, 2]), 0.9, 0.5),
        "rates": lambda: verification.error_rates(RATIOS, SAME),
        "pav": lambda: verification.pav(RATIOS, SAME),
        "warning": lambda: verification.warn_of_calibration(
            verification.Verification(0.7, 0.6, 0.1, 0.1)),
        "no warning": lambda: verification.warn_of_calibration(
            verification.Verification(0.649, 0.6, 0.1, 0.1)),
        "text": lambda: verification.verification(["a", "b"], [1, 0]),
        "huge cost": lambda: verification.verification(RATIOS, SAME, cost_miss=np.inf),
        "shapes": lambda: verification.verification(RATIOS, SAME[:2]),
        "nan": lambda: verification.verification([1.0, np.nan], [1, 0]),
        "kinds": lambda: verification.verification([1.0, 2.0], [1, 2]),
        "one kind": lambda: verification.verification([1.0, 2.0], [1, 1]),
        "prior": lambda: verification.verification(RATIOS, SAME, p_same=1.0),
        "cost": lambda: verification.verification(RATIOS, SAME, cost_miss=0.0),
        "columns": lambda: verification.verification_intervals(RATIOS, SAME, NAMES.T),
        "two": lambda: verification.verification_intervals([1.0, 2], [1, 0], [[1, 1], [
            1, 2]]),
        "sources": lambda: verification.verification_intervals(RATIOS, SAME, NAMES[
            ::-1]),
        "left out": lambda: verification.verification_intervals(
            RATIOS, NAMES[:, 0] == 4 * (NAMES[:, 1] == 4), np.where(SAME[:, None] * (
                NAMES < 4), [[5, 6]], NAMES)),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "evaluation/verification.txt")
    same, other = RATIOS[SAME == 1], RATIOS[SAME == 0]
    cllr = (np.log2(1 + np.exp(-same)).mean() + np.log2(1 + np.exp(other)).mean()) / 2
    found = verification.verification(RATIOS, SAME, **costs)
    steps = [((same < t).mean(), (other >= t).mean()) for t in [*RATIOS, np.inf]]
    dcf = min(0.8 * miss + 0.6 * alarm for miss, alarm in steps) / 0.6
    assert (found.cllr, found.min_dcf) == pytest.approx((cllr, dcf))


def test_sources():
    """All pairs of rows are counted twice: within sources, and across."""
    row = np.array([0, 1, 1, 2, 2, 2, 3, 3, 0, 2, 1])
    ratio = build("PairSimilarity")
    named = {"mine": Mahalanobis(L), "mean": MeanDissimilarity((ratio, ratio))}
    calls = {
        "both": lambda: sources.judge_sources(named, X, row, prob=0.7),
        "ratio": lambda: sources.judge_sources({"ratio": ratio}, X, row, max_pairs=9,
            seed=4),
        "ordered": lambda: sources.judge_sources(
            {"local": build("LocalMahalanobis")}, X, row),
        "few": lambda: sources.judge_sources(named, X[:3], row[:3]),
        "pairs": lambda: [sources.source_pairs(row, most, 1) for most in (99, 6)],
        "symmetric": lambda: [sources._symmetric(m) for m in (ratio, *named.values())],
        "score": lambda: sources._symmetric(PairSimilarity(
            ratio.log_weights, ratio.means, ratio.between, ratio.noise, score="joint")),
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "evaluation/sources.txt")
    i, j = np.triu_indices(11, 1)
    found = sources.judge_sources({"mine": Mahalanobis(L)}, X, row)
    assert {*zip(found.i, found.j, strict=True)} == {*zip(i, j, strict=True)}
    gaps = np.linalg.norm((X[found.i] - X[found.j]) @ L.T, axis=1)
    np.testing.assert_allclose(found.judged["mine"].score, -gaps)
    np.testing.assert_array_equal(found.same, row[found.i] == row[found.j])
    same = int((row[i] == row[j]).sum())
    assert found.in_all == (55 - same, same)


def test_held_out():
    """Log scores summed over points by hand; folds are scikit-learn's."""
    scores = {"a": np.log([0.5, 0.2, 0.9, 0.4]), "b": np.log([0.6, 0.3, 0.7, 0.8])}
    codes = np.array([0, 1, 2, 1, 0, 2, 2, 0, 1, 3, 2])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table = cross_validate._table(scores)
    gap = scores["b"] - scores["a"]
    assert table.loc["a", "elpd_diff"] == pytest.approx(gap.sum())
    assert table.loc["a", "dse"] == pytest.approx(2 * gap.std(ddof=1))
    votes = [s._asdict() | {"classifier": s.classifier.get_params(),
        "truth": s.of_truth(Y)}
             for s in cross_validate.cross_validate(
                 {"mine": lambda rows: Mahalanobis(L * len(rows))}, frame, Y,
                 [(np.arange(6), np.array([7, 8])), (np.arange(3, 10), np.array([1,
                     2]))],
                 n_neighbors=2, novelty=0.3)]  # fmt: skip
    for vote in votes:
        del vote["classifier"]["metric"]
    calls = {
        "table": lambda: table,
        "impossible": lambda: cross_validate._table(
            scores | {"c": np.array([-np.inf, -1, -2, -3])}),
        "votes": lambda: votes,
        "labels": lambda: [cross_validate._other_label(np.array(y))
                           for y in ([3, 1], [0.5, 2.5], ["b", "a"])],
        "folds": lambda: cross_validate.stratified_folds(codes, 3, 7),
        "many": lambda: cross_validate.stratified_folds(codes, 4, 7, "folds"),
        "one": lambda: cross_validate.stratified_folds(codes, 1, 7),
        "rows": lambda: cross_validate.rows_of(frame, np.array([4, 1])),
        "euclid": lambda: cross_validate.euclid(X * [1, 0, 2]),
        "constant": lambda: cross_validate.euclid(X * 0 + 2),
        "mapping": lambda: pm.held_out([], X, Y),
        "none": lambda: pm.held_out({}, X, Y),
        "lacking": lambda: pm.held_out({"lda": pm.LDA(), "x": 3}, X, Y),
        "labels of rows": lambda: pm.held_out({"lda": pm.LDA()}, X, Y[:4]),
        "metric": lambda: cross_validate._metric(Bag(
            get_metric=lambda: Mahalanobis(L), posterior_metric=lambda draws: 1)),
        "draws": lambda: cross_validate._metric(Bag(
            get_metric=lambda: 1, posterior_metric=lambda purpose: PosteriorMetric(
                [Mahalanobis(L)], purpose))).purpose,
    }  # fmt: skip
    assert_expected(text(outcomes(calls)), "evaluation/held_out.txt")


def log_likelihoods(attrs=None, shape=(2, 60, 5), scale=0.3):
    rng = np.random.default_rng(6)
    terms = -1 - scale * rng.gamma(2, size=shape)
    b = xr.Dataset({"b": (("chain", "draw"), rng.normal(size=shape[:2]))})
    y = xr.Dataset(
        {"y": (("chain", "draw", *(["n"] if len(shape) > 2 else [])), terms)}
    )
    tree = xr.DataTree.from_dict({"posterior": b, "log_likelihood": y})
    tree.attrs.update(attrs or {"method": "nuts"})
    return tree


def test_loo():
    """Messages, and elpd near minus the log of the mean inverse likelihood."""

    def score(tree):
        found = pm.loo(tree)
        names = ("elpd", "se", "p", "n_samples", "n_data_points")
        return {k: getattr(found, k) for k in names} | {"k": found.pareto_k.to_numpy()}

    tree = log_likelihoods()
    points = xr.DataTree.from_dict({
        "posterior": tree["posterior"].to_dataset(),
        "log_likelihood": tree["log_likelihood"].to_dataset(),
        "point_log_likelihood": tree["log_likelihood"].to_dataset().isel(n=[0, 1]),
    })  # fmt: skip
    calls = {
        "plain": lambda: score(tree),
        "points": lambda: score(points),
        "unreliable": lambda: score(log_likelihoods(scale=3)),
        "method": lambda: pm.loo(log_likelihoods({"method": "svi"})),
        "whole": lambda: pm.loo(log_likelihoods(shape=(2, 60))),
        "none": lambda: pm.loo(xr.DataTree.from_dict({"posterior": xr.Dataset()})),
    }
    found = outcomes(calls)
    assert_expected(text(found), "evaluation/loo.txt")
    terms = tree["log_likelihood"]["y"].to_numpy().reshape(120, 5)
    wanted = -np.log(np.mean(np.exp(-terms), 0)).sum()
    assert found["plain"]["elpd"] == pytest.approx(wanted, abs=0.05)
    assert loo.NEGLIGIBLE == 0.1
