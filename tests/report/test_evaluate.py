"""Pages of evaluations, as a whole, of tables written by hand.

Computed again with pandas and by hand from the tables below: means of bins, counts,
the error of the gain, Wilson intervals, steps of the curves.
"""

import numpy as np
import pandas as pd

from tests.expected import assert_expected

DATA = {
    "source": "/data/mine.csv",
    "label": "kind",
    "groups": None,
    "n": 1234,
    "features": ["a", "b", "c"],
    "classes": {"u": 600, "v": 400, "w": 234},
    "hash": "0f",
}
NAMES = ("accuracy", "log_loss", "brier", "ece", "precision_at_1", "r_precision")
NAMES += ("map_at_r", "pair_roc_auc")


def votes(**more):
    """Nine held-out points in three splits, two methods, three classes."""
    truth, own, base = list("uuvvwwuvw"), list("uuvwwwuvu"), list("uvvwwuuvu")
    top = [0.91, 0.62, 0.83, 0.44, 0.97, 0.58, 0.76, 0.67, 0.39]
    both = []
    for method, predicted, scale in ("Euclid", base, 0.8), ("lca", own, 1.0):
        frame = pd.DataFrame({
            "row": [3, 5, 8, 1, 4, 7, 0, 2, 6], "truth": truth, "predicted": predicted,
            "P(u)": 0.1, "P(v)": 0.15, "P(w)": np.nan,
            "method": method, "split": [0, 0, 0, 1, 1, 1, 2, 2, 2],
        })  # fmt: skip
        for k, name in enumerate(predicted):
            frame.loc[k, f"P({name})"] = round(top[k] * scale, 3)
        both.append(frame)
    predictions = pd.concat(both)
    scores = {"Euclid": [0.5, 1.234, 0.61, 0.12, 0.7, 0.55, 0.41, 0.652]}
    scores["lca"] = [0.75, 0.5678, 0.32, 0.0456, 0.81, 0.66, 0.52, 0.873]
    figures = {m: dict(zip(NAMES, v, strict=True)) for m, v in scores.items()}
    splits = pd.DataFrame([
        {"method": m, "split": s} | {k: v + s / 30 for k, v in figures[m].items()}
        for m in figures for s in (0, 1, 2)
    ])  # fmt: skip
    summary = {"model": "lca", "data": DATA, "folds": 3, "test": None, "neighbors": 5}
    tables = {"evaluation": splits, "predictions": predictions}
    return summary | {"figures": figures} | more, tables


def test_the_page_of_folds(made):
    summary, tables = votes(notes=["columns <a> are equal"])
    page = made("evaluate", summary, explorer=True, **tables)
    assert_expected(page, "report/evaluate_folds.html")


def test_the_page_of_votes_counted_on_a_test_file(made):
    summary, tables = votes(folds=None, test="/data/new.csv", votes="count")
    tables = {k: t[t["split"] == 1] for k, t in tables.items()}
    page = made("evaluate", summary, **tables)
    assert_expected(page, "report/evaluate_count.html")


def test_points_that_the_metric_was_learned_from_are_not_called_held_out(made):
    """Predictions are those of the baseline: a gain of exactly 0 is put in words."""
    seen = "metric.npz was learned from the same points, so its scores are biased"
    summary, tables = votes(notes=[seen, seen])
    for scores in summary["figures"].values():
        scores |= {"accuracy": 0.75, "false_alarms": 0.04321}
    both = tables["predictions"].set_index("method")
    both.loc["lca", "predicted"] = both.loc["Euclid", "predicted"].to_numpy()
    page = made("evaluate", summary, **tables | {"predictions": both.reset_index()})
    assert "held-out points 75" not in page
    assert (
        "points of the metric&#39;s own fit 75.0%: the same points are correct as"
        in page
    )
    assert page.count(seen) == 1
    assert "false alarms</th>" in page
    assert "<td>0.0432</td>" in page


def judgments(kind, base, scores, **more):
    answers = {"source": "/data/judged.csv", "kind": kind, "n": 1470}
    data = DATA | {"label": None, "classes": {}, "answers": answers}
    splits = [{"method": m, "split": s} | scores[m] for m in scores for s in (0, 1)]
    summary = {"model": "lca", "data": data, "folds": 2, "test": None}
    return summary | {"figures": scores} | more, pd.DataFrame(splits)


SCORES = {"accuracy": 0.75, "log_loss": 0.51, "brier": 0.17, "ece": 0.0678}


def test_the_page_of_judged_pairs(made):
    """Counts of judges with weights, of which a bin has three."""
    scores = {"share of same": SCORES | {"log_loss": 0.69, "roc_auc": None}}
    scores["lca"] = SCORES | {"roc_auc": 0.871}
    summary, splits = judgments("pairs", "share of same", scores)
    stated = pd.DataFrame({
        "row": range(7), "i": [0, 2, 4, 1, 3, 5, 2], "j": [1, 3, 5, 4, 0, 2, 5],
        "y": [1, 3, 2, 5, 0, 4, 2], "trials": [2, 4, 7, 5, 3, 6, 9],
        "sample_weight": [1, 2.5, 0.5, 1, 3, 2, 1.5],
        "P": [0.32, 0.38, 0.35, 0.95, 0.05, 1.0, 0.61],
    })  # fmt: skip
    other = stated.assign(P=0.5)
    stated = pd.concat(
        [other.assign(method="share of same"), stated.assign(method="lca")]
    )
    page = made("evaluate", summary, evaluation=splits, predictions=stated)
    assert_expected(page, "report/evaluate_pairs.html")


def test_the_page_of_judged_triplets(made):
    """0.2 with "no" is 0.8 and right; 0.26 with "yes" is 0.74 and wrong."""
    scores = {"even odds": SCORES | {"log_loss": 0.693}, "lca": SCORES}
    summary, splits = judgments("triplets", "even odds", scores, test="/data/t.csv")
    stated = pd.DataFrame({
        "anchor": [0, 1, 2, 3, 4], "near": [1, 2, 3, 4, 0], "far": [2, 3, 4, 0, 1],
        "y": [0, 1, 1, 1, 0], "P": [0.2, 0.26, 0.75, 0.5, 0.88], "method": "lca",
    })  # fmt: skip
    page = made("evaluate", summary, evaluation=splits, predictions=stated)
    assert_expected(page, "report/evaluate_triplets.html")


def test_the_page_of_odd_ones_out(made):
    """The judgment has the largest P in rows 0, 2 and 3."""
    scores = {"even odds": SCORES | {"log_loss": 1.0986}, "lca": SCORES}
    summary, splits = judgments("odd_one_out", "even odds", scores)
    largest = [0.62, 0.45, 0.81, 0.48, 0.67]
    stated = pd.DataFrame({
        "object1": [0, 1, 2, 3, 4], "object2": [1, 2, 3, 4, 0], "odd": [2, 3, 4, 0, 1],
        "y": 1, "P_largest": largest, "P": [0.62, 0.31, 0.81, 0.48, 0.2],
        "method": "lca",
    })  # fmt: skip
    page = made("evaluate", summary, evaluation=splits, predictions=stated)
    assert_expected(page, "report/evaluate_odd.html")


def test_the_page_of_judgments_without_probabilities(made):
    scores = {"share of same": SCORES | {"roc_auc": None}}
    scores["pair_lda"] = dict.fromkeys(SCORES) | {"roc_auc": 0.8765}
    summary, splits = judgments(
        "pairs", "share of same", scores, model=None, folds=None
    )
    page = made("evaluate", summary, evaluation=splits, predictions=pd.DataFrame())
    assert_expected(page, "report/evaluate_order.html")


def sources(cllr):
    costs = {"eer": 0.125, "min_dcf": 0.6543}
    lr = {"cllr": cllr, "cllr_min": cllr and 0.21}
    none = {"cllr": None, "cllr_min": None}
    figures = {"Euclid": none | costs | {"eer": 0.25}, "metric.npz": lr | costs}
    intervals = {m: {k: [0.01, 0.9] for k in f} for m, f in figures.items()}
    intervals["metric.npz"] |= {"eer": [0.0625, 0.3], "cllr": [0.1, "inf"]}
    pairs = {"sources": 1012, "same": 4, "different": 6, "ordered": True}
    pairs |= {"same_in_all": 4, "different_in_all": 51_234}
    stated = pd.DataFrame({
        "i": range(10), "j": range(1, 11), "same": [1, 1, 0, 1, 0, 0, 1, 0, 0, 0],
        "Euclid": [-1, -4, -2, -3, -7, -5, -6, -8, -9, -2.5],
        "metric.npz": [4.6, 2.3, -1.2, 0.7, -4.1, 0.9, -0.3, -6.9, -2.2, -3.4],
    })  # fmt: skip
    summary = {"model": None, "data": DATA, "folds": None, "test": None, "prob": 0.9}
    summary |= {"figures": figures, "intervals": intervals, "pairs": pairs}
    return summary, {"predictions": stated.assign(same=stated["same"] == 1)}


def test_the_page_of_pairs_of_sources(made):
    summary, tables = sources(0.4321)
    page = made("evaluate", summary, **tables)
    assert_expected(page, "report/evaluate_sources.html")


def test_the_page_of_pairs_by_a_distance(made):
    summary, tables = sources(None)
    page = made("evaluate", summary, **tables)
    assert_expected(page, "report/evaluate_distance.html")


def test_the_page_of_held_out_sites(made):
    """Bins: 0.12 and 0.18, 0.55 alone, 0.95, 0.99 and 1."""
    sites = {"species": "/data/species.csv", "n_species": 12_345, "measure": "counts"}
    data = DATA | {"label": None, "classes": {}, "sites": sites}
    words = ("deviance_explained", "rmse", "mean_error")
    scores = {"mean dissimilarity": [0.0, 0.31, 0.22], "gdm": [0.456, 0.1234, 0.098]}
    figures = {k: dict(zip(words, v, strict=True)) for k, v in scores.items()}
    found = pd.DataFrame({
        "method": ["gdm"] * 6 + ["mean dissimilarity"],
        "predicted": [0.12, 0.18, 0.95, 1.0, 0.99, 0.55, 0.5],
        "dissimilarity": [0.3, 0.11, 0.9, 1.0, 0.8, 0.71, 0.3],
    })  # fmt: skip
    summary = {"model": "gdm", "data": data, "folds": None, "figures": figures}
    page = made("evaluate", summary, predictions=found)
    assert_expected(page, "report/evaluate_sites.html")
    page = made("evaluate", summary | {"model": None, "folds": 3}, predictions=found)
    assert "site of mine.csv.</p>" in page
    page = made("evaluate", summary | {"folds": 3}, predictions=found)
    assert "site of mine.csv, in 3 folds.</p>" in page
