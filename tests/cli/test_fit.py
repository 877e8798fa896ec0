"""``fit``: every learner, every kind of file; and nothing lost when it cannot be."""

import errno
import json
import os
import warnings

import numpy as np
import pytest

import probmetric as pm
from probmetric.cli import fit as cli_fit
from probmetric.cli.options import NAMES as LEARNERS
from probmetric.datasets import loading as datasets
from probmetric.registry import MODELS, estimators, fit_named, make
from probmetric.storage.metric_file import read_metric
from tests.cli.runs import (
    NAMES,
    assert_same_metric,
    draw_only,
    refused,
    run,
    table,
    write_data,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


QUICK = {
    "glml": {"n_draws": 0, "gamma": 1.0},
    "dca_gm": {"n_gaussians": 1, "n_components": 1},
}
RENDERED = ("lda", "glml", "two_stage", "dca_gm", "gdm")
"""Learners whose pages have pictures of one kind each; all others' are as LDA's."""


def fit(data, out, *more, model="lda"):
    return run("fit", model, "--data", data, "--out", out, *more)


def test_every_registered_model_can_be_fitted_by_name():
    assert set(MODELS) <= set(estimators())
    assert LEARNERS == ", ".join(sorted(estimators()))


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(estimators().keys() - {"triplet_embedding"}))
@pytest.mark.filterwarnings("ignore:Cllr is")  # Few sources.
def test_the_file_holds_the_metric_of_the_estimator(
    model, data, tmp_path, monkeypatch, rendered
):
    if model not in RENDERED:
        draw_only(monkeypatch)
    settings = QUICK.get(model, {})
    words = [w for k, v in settings.items() for w in ("--set", f"{k}={v}")]
    seen = []
    monkeypatch.setattr(
        cli_fit, "fit_named", lambda *given: seen.append(given) or fit_named(*given)
    )
    done = fit(data["csv"], tmp_path / "run", *words, model=model)
    assert done.exit_code == 0, done.output
    loaded = datasets.load(data["csv"])
    [(learner, given)] = seen
    wanted = make(model, settings)
    assert type(learner) is type(wanted)
    assert learner.get_params() == wanted.get_params()
    np.testing.assert_array_equal(given.X, loaded.X)
    np.testing.assert_array_equal(given.y, loaded.y)
    stored = read_metric(tmp_path / "run" / "metric.npz")
    assert_same_metric(stored.metric, learner.get_metric())
    assert stored.feature_names == tuple(NAMES)
    assert stored.provenance["model"] == model
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The learned metric" in page
    assert f"<h1>{model} learned from " in page
    assert "Figures of the data are left out" not in page


@pytest.mark.long
def test_groups_are_a_column_and_no_feature(tmp_path):
    path = tmp_path / "g.csv"
    table().to_csv(path, index=False)
    out = tmp_path / "run"
    more = ("--groups", "item", "--label", "kind")
    assert fit(path, out, *more, model="two_stage").exit_code == 0
    stored = read_metric(out / "metric.npz")
    assert stored.feature_names == tuple(NAMES)
    direct = pm.TwoStageMixture().fit(table()[NAMES], groups=table()["item"])
    np.testing.assert_array_equal(stored.metric.between, direct.between_)
    line = refused("fit", "lda", "--data", path, *more, "--out", tmp_path / "no")
    assert "groups must be None for LDA" in line


def test_files_that_exist_are_kept_without_force(data, tmp_path):
    (tmp_path / "metric.npz").write_text("mine")
    line = refused("fit", "lda", "--data", data["csv"], "--out", tmp_path)
    assert "Add --force" in line
    assert (tmp_path / "metric.npz").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["metric.npz"]
    assert fit(data["csv"], tmp_path, "--force").exit_code == 0
    pm.load_metric(tmp_path / "metric.npz")


def test_a_fit_that_did_not_converge_is_kept_and_exits_with_1(data, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = fit(data["csv"], tmp_path, "--set", "max_iter=1", model="lca")
    assert done.exit_code == 1
    assert "note:" in done.stderr
    said = json.loads((tmp_path / "summary.json").read_text())
    assert said["notes"]
    assert "Notes of the run" in (tmp_path / "report.html").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["cli.fit.save_metric", "report.run.write_summary", "cli.files.write_text"]
)
def test_a_full_disk_is_one_sentence_and_keeps_what_stood(
    name, data, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    assert fit(data["csv"], out).exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there")

    monkeypatch.setattr(f"probmetric.{name}", full)
    line = refused("fit", "lda", "--data", data["csv"], "--out", out, "--force")
    assert "No space left on device (there)" in line
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert after["metric.npz"] == before["metric.npz"]
    assert after["report.html"] == before["report.html"]
    assert after.keys() == before.keys()


def test_an_interrupt_exits_with_130_and_keeps_what_stood(data, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_fit, "fit_named", interrupted)
    done = fit(data["csv"], tmp_path / "run")
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert not list((tmp_path / "run").iterdir())


def test_a_fit_without_a_result_exits_with_1_and_one_sentence(
    data, tmp_path, monkeypatch
):
    def diverged(*_, **__):
        raise RuntimeError("NONFINITE: the objective is not finite")

    monkeypatch.setattr(cli_fit, "fit_named", diverged)
    done = fit(data["csv"], tmp_path / "run")
    assert done.exit_code == 1
    assert "probmetric: failed: NONFINITE" in done.stderr
    assert not list((tmp_path / "run").iterdir())
