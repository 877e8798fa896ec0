"""Tables and pictures of reports hold values that were computed by hand."""

from types import SimpleNamespace

import arviz_stats as az
import numpy as np
import pandas as pd
import xarray as xr

from probmetric.checks.compare import entry_table
from probmetric.checks.criticism import Finding, ModelVerdict, Part
from probmetric.checks.validation import Judgement, Validation
from probmetric.cli.sites import curve_table
from probmetric.datasets.loading import Dataset
from probmetric.metric import Mahalanobis
from probmetric.posterior.curves import Curves
from probmetric.posterior.metric import PosteriorMetric
from probmetric.report import sample
from probmetric.report.evaluate import _calibration, _confusion, _error_of_gain, _shares
from probmetric.report.fit import _of_answers
from probmetric.report.model_fit import fit_banner
from probmetric.report.page import _sizes
from probmetric.report.sample import _least_certain, _quantities
from probmetric.report.sites import _bins, stored_curves
from probmetric.report.validate import _entries, _verdict_words


def test_the_mean_of_a_bin_is_weighted_by_weights_and_judgments():
    """0.32 counts 1 · 2 times and 0.38 counts 3 · 4 times; 7 of 14 were yes."""
    stated = {
        "P": [0.32, 0.38, 0.9],
        "y": [1, 2, 5],
        "trials": [2, 4, 5],
        "sample_weight": [1.0, 3.0, 1.0],
    }
    shown = _shares(pd.DataFrame(stated)).tables[0].frame
    assert shown["predicted P"].tolist() == ["0.3 to 0.4", "0.9 to 1.0"]
    assert shown["mean P"].tolist() == [round((2 * 0.32 + 12 * 0.38) / 14, 3), 0.9]
    assert shown["share of yes"].tolist() == [0.5, 1.0]
    assert shown["judgments"].tolist() == [6, 5]


def test_a_triplet_below_one_half_turns_with_its_judgment():
    """0.2 with "no" is 0.8 and right; 0.26 with "yes" is 0.74 and wrong."""
    stated = {"anchor": [0, 1, 2], "P": [0.2, 0.26, 0.75], "y": [0, 1, 1]}
    section = _shares(pd.DataFrame(stated))
    shown = section.tables[0].frame
    assert shown["predicted P"].tolist() == ["0.7 to 0.8", "0.8 to 0.9"]
    assert shown["mean P"].tolist() == [0.745, 0.8]
    assert shown["share of yes"].tolist() == [0.5, 1.0]
    axis = section.pictures[0].figure.axes[0]
    x, frequency = axis.containers[0].lines[0].get_data()
    np.testing.assert_allclose(x, [0.74, 0.75, 0.8])
    assert frequency.tolist() == [0, 1, 1]
    assert axis.get_xlabel() == "stated probability"


def test_the_predicted_class_is_compared_with_the_truth():
    """Of two predictions of 0.9 one was right; of 0.6, both."""
    stated = {
        "method": ["lca"] * 4,
        "truth": list("abab"),
        "predicted": list("aaab"),
        "P(a)": [0.9, 0.9, 0.6, 0.4],
        "P(b)": [0.1, 0.1, 0.4, 0.6],
        "P(c)": [0.0, np.nan, np.nan, 0.0],  # Not in the second split.
    }
    axis = _calibration(pd.DataFrame(stated)).pictures[0].figure.axes[0]
    x, frequency = axis.containers[0].lines[0].get_data()
    np.testing.assert_allclose(x, [0.6, 0.9])
    assert frequency.tolist() == [1, 0.5]


def test_true_classes_are_rows_and_predicted_ones_are_columns():
    found = pd.DataFrame({"truth": list("aabbb"), "predicted": list("aacab")})
    shown = _confusion(found).tables[0].frame
    assert list(shown) == ["true class", "a", "b", "c"]
    assert shown.to_numpy().tolist() == [["a", 2, 0, 0], ["b", 1, 1, 1]]


def test_the_error_of_a_gain_is_that_of_paired_points():
    """Differences 0, 1, 1, -1: their variance is 11/12, divided by 4 points."""
    stated = pd.DataFrame(
        {
            "method": ["Euclid"] * 4 + ["lca"] * 4,
            "split": [0, 0, 1, 1, 1, 1, 0, 0],
            "row": [5, 7, 2, 3, 3, 2, 7, 5],
            "truth": list("aabb" + "bbaa"),
            "predicted": list("abab" + "abaa"),
        }
    )
    found = _error_of_gain(stated, "Euclid", "lca")
    np.testing.assert_allclose(found, np.sqrt(11 / 12 / 4))


def judged(kind, verdict, *, unreliable=False):
    columns = {"error": [0.1], "z": [np.nan], "khat": [np.nan], "verdict": [verdict]}
    names = {"check": "c", "kind": kind, "layer": "sampling", "control": ""}
    attrs = {**names, "unreliable": unreliable}
    return Judgement("lca", "toy", entry_table(columns, ["a"], attrs), 1.0)


def test_approximations_that_keep_their_bound_are_counted():
    """Of four: one within, one that only k-hat leaves open, one weak, one outside."""
    found = Validation(
        "lca",
        (
            judged("exact", "agree"),
            judged("exact", "agree"),
            judged("exact", "inconclusive"),
            judged("approximate", "within"),
            judged("approximate", "inconclusive", unreliable=True),
            judged("approximate", "inconclusive"),
            judged("approximate", "outside"),
        ),
    )
    verdict, headline, _ = _verdict_words(found)
    assert verdict == "disagree"
    assert headline == (
        "2 of 3 exact claims agree, 2 of 4 approximations are within their bound, "
        "1 of them inconclusive by k-hat"
    )


def test_a_metric_of_judgments_is_shown_as_its_matrix_or_as_places():
    """L = [[1, 2], [0, 3]]: LᵀL = [[1, 2], [2, 13]]; object k is at L e_k."""
    metric = Mahalanobis(np.array([[1.0, 2.0], [0.0, 3.0]]))
    about = {"features": ["a", "b"], "source": "t.csv", "answers": {"source": "p.csv"}}
    (table,) = _of_answers(metric, about)
    assert table.frame.to_numpy().tolist() == [["a", 1, 2], ["b", 2, 13]]
    about["answers"] = {"source": "t.csv"}
    _, table = _of_answers(metric, about)  # The map is the first.
    assert table.frame.to_numpy().tolist() == [["a", 1, 0], ["b", 2, 3]]


def test_the_least_certain_row_has_other_neighbors_in_each_draw():
    X = np.array([[9.0, 9], [9.5, 9], [0, 0], [1, 0], [0, 1.1]])
    draws = [Mahalanobis(np.diag([1, s])) for s in (0.8, 1.3)]
    assert _least_certain(PosteriorMetric(draws, "prediction"), X, 1) == 2


def test_held_out_pairs_of_sites_are_binned_by_prediction():
    found = pd.DataFrame(
        {
            "method": ["gdm"] * 4 + ["mean dissimilarity"],
            "predicted": [0.12, 0.18, 0.95, 1.0, 0.5],
            "dissimilarity": [0.3, 0.1, 0.9, 1.0, 0.3],
        }
    )
    shown = _bins(found, "gdm").frame
    assert shown["pairs"].tolist() == [2, 2]
    assert shown["predicted"].tolist() == [0.15, 0.975]
    assert shown["observed"].tolist() == [0.2, 0.95]


def test_objects_are_counted_as_objects():
    data = {"n": 8, "features": list("abcdefgh"), "source": "t.csv"}
    answers = {"source": "t.csv", "n": 400, "kind": "triplets"}
    assert _sizes(data | {"answers": answers}) == [
        ("8", "objects"),
        ("400", "triplets"),
    ]
    of_points = _sizes(data | {"answers": answers | {"source": "x.csv"}})
    assert of_points[0] == ("8 × 8", "points × features")


def test_curves_are_stored_with_their_names_and_read_again(tmp_path):
    values = np.arange(24.0).reshape(4, 2, 3)
    found = Curves(*values, ("rain", "pH"))
    fit = SimpleNamespace(curves=lambda *_, **__: found, curve_names_=["rain", "pH"])
    table = curve_table(fit, PosteriorMetric([Mahalanobis(np.eye(2))], "intervals"))
    assert table["curve"].tolist() == ["rain"] * 3 + ["pH"] * 3
    assert table.iloc[3].tolist() == ["pH", 3.0, 9.0, 15.0, 21.0]
    table.to_csv(tmp_path / "curves.csv", index=False)
    again = stored_curves(tmp_path)
    np.testing.assert_array_equal(again[:4], values)
    assert again.names == ("rain", "pH")


def test_entries_of_draws_have_the_errors_of_arviz():
    b = np.random.default_rng(0).gamma(2.0, size=(2, 300))
    draws = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"b": (("chain", "draw"), b)})}
    )
    (row,) = _quantities(draws).frame.to_dict("records")
    assert row["entry"] == "b"
    np.testing.assert_allclose(row["mean"], b.mean())
    np.testing.assert_allclose(row["sd"], b.std(ddof=1), rtol=2e-3)
    np.testing.assert_allclose(row["Monte Carlo error"], az.mcse(b), rtol=1e-6)
    np.testing.assert_allclose(
        row["effective draws"], az.ess(b, method="mean"), rtol=1e-6
    )


def test_neighbors_have_the_classes_of_their_rows(monkeypatch):
    """Row 2 is the least certain one; the others are 0, 1, 3 and 4."""
    X = np.array([[9.0, 9], [9.5, 9], [0, 0], [1, 0], [0, 1.1]])
    draws = [Mahalanobis(np.diag([1, s])) for s in (0.8, 1.3)]
    posterior = PosteriorMetric(draws, "prediction")
    monkeypatch.setattr(sample, "posterior_of", lambda *_, **__: posterior)
    monkeypatch.setattr(sample, "N_QUERIES", 5)
    monkeypatch.setattr(sample, "_least_certain", lambda *_: 2)
    data = Dataset(X, np.array([0, 1, 1, 0, 1]), ("a", "b"), ("u", "v"), "t")
    sentence, picture = sample._neighbor_parts(xr.DataTree(), data)
    assert sentence.startswith("Row 2 (v) ")
    axis = picture.figure.axes[0]
    names = {label.get_text() for label in axis.get_yticklabels()}
    assert {"3: u", "4: v"} <= names <= {"0: u", "1: v", "3: u", "4: v"}


def test_the_worst_part_of_a_model_comes_first():
    def part(name, verdict):
        finding = Finding(name, 1.0, 0.5, 0.3, 0.05, "said", "Do this.")
        return Part(finding, 0.5, verdict)

    words = ("adequate", "conflict", "doubtful")
    fit = ModelVerdict("lca", tuple(part(f"p{k}", w) for k, w in enumerate(words)))
    first = [sentence[:2] for sentence in fit_banner(fit).sentences]
    assert first == ["p1", "p2", "p0"]


def test_of_many_entries_the_worst_are_shown():
    found = Validation("lca", tuple(judged("exact", "agree") for _ in range(3)))
    for number, judgement in enumerate(found.judgements):
        judgement.table["error"][:] = [0.2, -0.9, 0.5][number]
    shown = _entries(found, limit=2)
    assert shown["error"].tolist() == [-0.9, 0.5]
