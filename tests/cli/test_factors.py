"""Columns of text on the command line are factors, as in a DataFrame in Python."""

import json

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.data.factors import KEY, factors_of
from tests.cli.runs import refused, run

SOILS = np.array(["clay", "peat", "sand"])


@pytest.fixture(scope="module")
def plots(tmp_path_factory):
    """Write plots with a factor, other plots, and a plot on a soil that is unknown."""
    folder, rng = tmp_path_factory.mktemp("plots"), np.random.default_rng(0)
    soil = rng.integers(0, 3, 60)
    rain = rng.normal(size=60) + (soil == 0)
    kind = np.where(rain + 2 * (soil == 1) + 0.3 * rng.normal(size=60) > 1, "a", "b")
    frame = pd.DataFrame({"rain": rain, "soil": SOILS[soil], "kind": kind})
    frame[:45].to_csv(folder / "plots.csv", index=False)
    frame[45:].to_csv(folder / "new.csv", index=False)
    few = frame[45:48].assign(soil=["sand", "gravel", None])
    few.to_csv(folder / "unknown.csv", index=False)
    return folder, frame


def test_text_that_repeats_is_read_as_the_factor_of_a_data_frame(plots):
    folder, frame = plots
    data = pm.datasets.load(folder / "plots.csv", label="kind")
    assert data.feature_names == ("rain", "soil=clay", "soil=peat", "soil=sand")
    np.testing.assert_array_equal(data.X[:, 1:].argmax(1), frame["soil"][:45].map(
        {"clay": 0, "peat": 1, "sand": 2}
    ))  # fmt: skip
    assert data.frame.attrs[KEY] == {"soil": ("clay", "peat", "sand")}
    # A selection or renamed columns lose the factor, and new text is another one.
    assert factors_of(data.frame.rename(columns={"soil=clay": "clay"})) == {}
    wet = data.frame[["rain"]].assign(wet=np.where(data.X[:, 0] > 0, "yes", "no"))
    assert factors_of(wet) == {"wet": ("no", "yes")}
    # Without a named label, text may be the label, and is no feature.
    with pytest.raises(ValueError, match=r"must be numeric, got text .* in 'kind'"):
        pm.datasets.load(folder / "plots.csv", groups="soil")
    # Levels of a metric are the columns of another table, also if none of them occurs.
    again = pm.datasets.load(
        folder / "unknown.csv",
        label="kind",
        feature_names=data.feature_names,
        handle_unknown="ignore",
    )
    np.testing.assert_allclose(again.X[:, 1:], [[0, 0, 1], *[[1 / 3] * 3] * 2])
    with pytest.raises(ValueError, match=r"one of clay, peat, sand, got 'gravel'"):
        pm.datasets.load(
            folder / "unknown.csv", label="kind", feature_names=data.feature_names
        )


@pytest.mark.parametrize(
    "values, said",
    [
        (["1", "2", "?", "1"], "Use na="),
        (["1,5", "2,5", "1,5", "2,5"], "decimal=','"),
        (["ann", "bob", "cy", "di"], r"text or dates in 'x' \('ann'"),
    ],
)
def test_text_among_numbers_and_names_of_rows_are_no_factors(tmp_path, values, said):
    frame = pd.DataFrame({"x": values, "z": range(4), "kind": list("abab")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=said):
        pm.datasets.load(tmp_path / "t.csv", label="kind")


def test_without_a_label_text_may_be_the_label(tmp_path):
    frame = pd.DataFrame({"kind": list("abab"), "x": range(4), "z": [1, 1, 2, 2]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="use label='kind'"):
        pm.datasets.load(tmp_path / "t.csv")


@pytest.mark.long
def test_fits_neighbors_and_scores_are_those_of_the_data_frame(plots, tmp_path):
    folder, frame = plots
    model = pm.RCA().fit(frame[["rain", "soil"]][:45], frame["kind"][:45])
    data = "--data", folder / "plots.csv", "--label", "kind"
    done = run("fit", "rca", *data, "--out", tmp_path / "fit")
    assert done.exit_code == 0, done.output
    assert "column 'soil' is text with 3 different values" in done.stderr
    stored = tmp_path / "fit" / "metric.npz"
    metric = pm.load_metric(stored)
    np.testing.assert_allclose(metric.factor, model.components_, atol=1e-12)
    reading = json.loads((tmp_path / "fit" / "summary.json").read_text())["data"]
    assert "handle_unknown" not in reading["reading"]
    assert run("report", tmp_path / "fit").exit_code == 0

    words = "neighbors", "--metric", stored, *data, "-k", 2
    new = "--queries", folder / "new.csv", "--out", tmp_path / "near.csv"
    done = run(*words, *new)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(new[-1])["distance"].to_numpy().reshape(-1, 2)
    X, Q = frame[["rain", "soil"]][:45], frame[["rain", "soil"]][45:]
    D = np.linalg.norm(model.transform(Q)[:, None] - model.transform(X)[None], axis=-1)
    np.testing.assert_allclose(found, np.sort(D, 1)[:, :2], atol=1e-9)

    test = "--test", folder / "new.csv", "--out"
    knn = pm.KNeighborsClassifier(model.get_metric()).fit(X, frame["kind"][:45])
    P = knn.predict_proba(Q)
    for learner in (("--metric", stored), ("--model", "rca")):
        out = tmp_path / learner[0][2:]
        done = run("evaluate", *data, *learner, *test, out)
        assert done.exit_code == 0, done.output
        made = pd.read_csv(out / "predictions.csv")
        made = made[made["method"] != "euclid"]
        np.testing.assert_allclose(made["P(a)"].tail(15), P[:, 0], atol=1e-9)

    unknown = "--queries", folder / "unknown.csv", "--out", tmp_path / "u.csv"
    said = refused(*words, *unknown)
    assert "the factor 'soil' must be one of clay, peat, sand, got 'gravel'" in said
    assert "handle_unknown='ignore'" in said
    ignoring = "--set", "handle_unknown=ignore", "--out", tmp_path / "ignore"
    assert run("fit", "rca", *data, *ignoring).exit_code == 0
    metric = "--metric", ignoring[-1] / "metric.npz"
    done = run("neighbors", *metric, *data, *unknown)
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv(unknown[-1])) == 15
