"""``fit``, ``sample`` and ``report``: all that a run prints and writes.

The fit is checked against scikit-learn and the closed form elsewhere; here its files
are compared with each other and with the table of points. Draws are fixed numbers.
"""

import json

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli import sample as cli_sample
from probmetric.cli.fit import Learned
from tests.cli.world import TABLES, said, world, written  # noqa: F401
from tests.expected import assert_expected
from tests.report.test_fit import X, Y
from tests.report.test_sample import drawn
from tests.report.test_validate import verdict


def test_a_fit_to_classes(world, tmp_path):  # noqa: F811
    """The metric is LDA's of scikit-learn; a column counts the rows."""
    out = tmp_path / "out"
    frame = pd.read_csv(world / "mine.csv")
    frame.insert(0, "number", range(1, 10))
    frame.to_csv(tmp_path / "counted.csv", index=False)
    words = "lda", "--data", tmp_path / "counted.csv", "--set", "n_components=1"
    text = said("fit", *words, "--seed", 3, "--out", out) + written(out)
    assert_expected(text, "cli/fit.txt", OUT=tmp_path)
    summary = json.loads((out / "summary.json").read_text())
    full = np.column_stack([np.arange(1, 10), X])
    metric = pm.load_metric(out / "metric.npz")
    for name, m in ("learned", metric), ("Euclidean, standardized", None):
        Z = full / full.std(0) if m is None else m.transform(full)
        D = ((Z[:, None] - Z) ** 2).sum(-1) + np.diag(np.full(9, np.inf))
        share = np.mean(Y[D.argmin(1)] == Y)
        assert summary["training"][name]["precision_at_1"] == pytest.approx(share)
    assert "files already exist" in said("fit", *words, "--out", out, code=2)


def test_a_fit_to_judged_pairs(world, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    TABLES["some"].assign(y=[1, 0, 1, 1, 0, 0]).to_csv(tmp_path / "p.csv", index=False)
    words = (
        "--data",
        world / "points.csv",
        "--answers",
        tmp_path / "p.csv",
        "--drop",
        "c",
    )
    text = said("fit", "pair_lda", *words, "--out", out) + written(out)
    assert_expected(text, "cli/fit_pairs.txt", OUT=tmp_path, WORLD=world)


@pytest.mark.long
def test_draws_that_warn(world, tmp_path, monkeypatch):  # noqa: F811
    """Fixed draws of a fit with a warning: exit code 1, and the note is kept."""
    learned = Learned(2.0, ["the fit warned"], True)
    monkeypatch.setattr(cli_sample, "learn", lambda *_: learned)
    monkeypatch.setattr(cli_sample, "model_verdict", lambda *_: verdict())
    given = []
    made = lambda self, *a, **o: given.append((a, o)) or drawn(1, 12)  # noqa: E731
    monkeypatch.setattr(pm.LCA, "sample", made)
    out = tmp_path / "out"
    words = "lca", "--data", world / "mine.csv", "--method", "laplace", "--seed", 6
    text = said("sample", *words, "--out", out, code=1) + written(out)
    assert given == [(("laplace",), {"n_draws": 1000, "n_chains": 1, "seed": 6})]
    assert_expected(text, "cli/sample.txt", OUT=tmp_path, WORLD=world)
    text = said("report", out, "--explore")
    assert_expected(text, "cli/report.txt", OUT=tmp_path)
    page = (out / "explorer.html").read_text("utf8")
    assert "<h1>mine.csv under 12 draws of draws.nc</h1>" in page
    assert '<a href="explorer.html">' in (out / "report.html").read_text("utf8")
    attrs = pm.storage.draws_file.load_draws(out / "draws.nc").attrs
    assert attrs["learner"] == "lca"
    assert json.loads(attrs["feature_names"]) == ["a", "b", "c"]
