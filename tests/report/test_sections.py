"""Tables and pictures of reports hold values that were computed by hand."""

from types import SimpleNamespace

import numpy as np

from probmetric.checks.compare import entry_table
from probmetric.checks.validation import Judgement, Validation
from probmetric.cli.sites import curve_table
from probmetric.metric import Mahalanobis
from probmetric.posterior.curves import Curves
from probmetric.posterior.metric import PosteriorMetric
from probmetric.report.page import settings_section
from probmetric.report.sample import _least_certain
from probmetric.report.sites import curves_section, stored_curves
from probmetric.report.validate import _entries
from tests.report.test_fit import gdm


def judged(kind, verdict, *, unreliable=False):
    columns = {"error": [0.1], "z": [np.nan], "khat": [np.nan], "verdict": [verdict]}
    names = {"check": "c", "kind": kind, "layer": "sampling", "control": ""}
    attrs = {**names, "unreliable": unreliable}
    return Judgement("lca", "toy", entry_table(columns, ["a"], attrs), 1.0)


def test_the_least_certain_row_has_other_neighbors_in_each_draw(monkeypatch):
    X = np.array([[9.0, 9], [9.5, 9], [0, 0], [1, 0], [0, 1.1]])
    draws = [Mahalanobis(np.diag([1, s])) for s in (0.8, 1.3)]
    posterior = PosteriorMetric(draws, "intervals")
    assert _least_certain(posterior, X, 1) == 2
    # The sums of squares are 1.25 and 1.375, the sums of cubes 1.06 and 0.97.
    shares = np.array([[9, 1, 0.25, 0.25, 0.25, 0.25], [0.75, 9, 0.75, 0.5, 0, 0]])
    shares = np.vstack([shares, np.eye(6)[[1, 1, 1, 1]] * [[2], [3], [4], [5]]])
    monkeypatch.setattr(
        PosteriorMetric, "neighbor_probability", lambda *_: shares.copy()
    )
    assert _least_certain(posterior, np.zeros((6, 2)), 2) == 0


def test_of_many_curves_the_twelve_largest_are_shown():
    s = np.outer(np.arange(1.0, 14), [0, 1])
    found = Curves(s, s, names=tuple(f"c{k}" for k in range(13)))
    shown = curves_section({"gdm": gdm()}, found).pictures[0].figure.axes
    assert [axis.get_title("left").split(":")[0] for axis in shown] == [
        f"c{k}" for k in range(12, 0, -1)
    ]


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


def test_of_many_entries_the_worst_are_shown():
    found = Validation("lca", tuple(judged("exact", "agree") for _ in range(3)))
    for number, judgement in enumerate(found.judgements):
        judgement.table["error"][:] = [0.2, -0.9, 0.5][number]
    shown = _entries(found, limit=2)
    assert shown["error"].tolist() == [-0.9, 0.5]


def test_of_many_classes_the_sizes_are_counted():
    data = {"groups": "item", "label": None}
    data["classes"] = {f"item {k}": 2 + (k == 0) for k in range(101)}
    shown = {"data": data, "arguments": {}, "estimator": "TwoStageMixture"}
    sizes = settings_section(shown).tables[0]
    assert sizes.frame.to_dict("list") == {"points": [2, 3], "count": [100, 1]}
    assert sizes.caption == "Count of every source size (101 in all)"
