"""Pages of fits, as a whole: metrics of fixed numbers, and points written by hand.

Computed again with NumPy: M = LᵀL per sd, distances of one step, shares of directions,
the plane by a singular value decomposition, links by sorting, and curves at the knots.
"""

import json

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.data import Labeled
from probmetric.data.hash import data_hash
from probmetric.metric import Link, SplineCityBlock
from probmetric.names import AS_IS
from probmetric.report.fit import _of_sample
from tests.expected import assert_expected
from tests.metric_kinds import build

NAMES = ["a", "b", "c"]
X = np.array([
    [0.1, 2.0, -1.0], [0.4, -1.5, 0.3], [3.1, 0.2, 2.2], [2.7, 1.1, 0.9], [-2, 4, 5.5],
    [1.9, -0.7, 3.3], [-1.1, 3.2, 4.1], [-2.6, 2.4, 6.1], [-1.7, 5.1, 4.9],
])  # fmt: skip
Y = np.array([0, 0, 1, 1, 2, 1, 2, 2, 2])
METRIC = pm.Mahalanobis(np.array([[1.0, -0.5, 0.2], [0.0, 0.3, 0.8]]))
TRAINING = {
    "Euclid": [0.5555, 0.61, 0.42, 0.7071],
    "learned": [0.8888, 0.72, 0.53, 0.9234],
}
FIGURES = ("precision_at_1", "r_precision", "map_at_r", "pair_roc_auc")


@pytest.fixture
def points(tmp_path):
    """Write the points; return how a summary describes them."""
    frame = pd.DataFrame(X, columns=NAMES).assign(kind=np.array(list("uvw"))[Y])
    frame.to_csv(tmp_path / "mine.csv", index=False)
    return {
        "source": str(tmp_path / "mine.csv"),
        "label": "kind",
        "groups": None,
        "reading": AS_IS._asdict(),
        "n": 9,
        "features": NAMES,
        "classes": {"u": 2, "v": 3, "w": 4},
        "hash": data_hash(Labeled(X, Y)),
    }


def summary(about, **more):
    training = {k: dict(zip(FIGURES, v, strict=True)) for k, v in TRAINING.items()}
    return {
        "model": "lca",
        "estimator": "LCA",
        "arguments": {"n_components": "2", "metric": "'<x>'"},
        "data": about,
        "metric": "Mahalanobis",
        "seconds": 1234.56,
        "training": training,
    } | more


@pytest.fixture
def fitted(made, points, tmp_path):
    """Return a function that makes the page of a metric, and compares it."""

    def fit(name, metric, **more):
        pm.save_metric(metric, tmp_path / "metric.npz", feature_names=NAMES)
        about = points | more.pop("data", {})
        page = made("fit", summary(about, **more))
        assert_expected(page, f"report/{name}.html", FOLDER=tmp_path)

    return fit


def test_the_page_of_a_fit(fitted):
    fitted("fit", METRIC)


def test_the_page_of_a_similarity(fitted):
    fitted("fit_similarity", build("PairSimilarity"), model="two_stage")


def test_the_page_of_a_local_metric(fitted):
    """Its ellipses are tested with the figures; here their names and captions are."""
    fitted("fit_local", build("LocalMahalanobis"), model="glml", training={})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("fit_changed", {"hash": "f", "classes": dict.fromkeys("abcdefghijklm", 3)}),
        ("fit_openml", {"source": "openml:some"}),
        ("fit_missing", {"source": "/none/mine.csv", "label": None, "groups": "who"}),
    ],
)  # fmt: skip
def test_the_page_of_data_that_cannot_be_read_again(fitted, name, data):
    fitted(name, METRIC, data=data)


def test_the_page_of_judgments_of_points_and_of_objects(fitted):
    """L = [[1, -½, 0.2], [0, 0.3, 0.8]]: LᵀL and the columns of L by hand."""
    answers = {"source": "/data/judged.csv", "kind": "pairs", "n": 1470}
    about = {"label": None, "classes": {}, "answers": answers}
    given = {"training": {}, "notes": ["one note", "another <note>"]}
    fitted("fit_pairs", METRIC, data=about, **given)
    about = about | {
        "answers": answers | {"kind": "triplets"},
        "source": "/data/judged.csv",
    }
    fitted("fit_objects", METRIC, data=about, model="triplet_embedding", training={})


def gdm():
    effects = {
        "intercept": {"estimate": 0.12345, "lower": 0.1, "upper": 0.2},
        "rain": {"estimate": 1.5, "lower": 1.1, "upper": 2.25},
    }
    importance = {
        "rain": {"loss": 0.31, "P": 0.02},
        "distance": {"loss": 0.1, "P": 0.4},
    }
    shares = {"covariates": 0.2, "distance": 0.11, "either": 0.07, "total": 0.38}
    return {
        "deviance_explained": 0.3812,
        "effects": effects,
        "prob": 0.9,
        "shares": shares,
        "importance": importance,
        "permutations": 49,
    }


def test_the_page_of_sites(fitted, made, tmp_path):
    """A curve passes its knots at sums of its coefficients."""
    knots = np.array([[0.0, 1.0, 4.0], [2.0, 5.0, 6.0], [-3.0, 0.5, 1.0]])
    coefficients = np.array([[0.3, 0.2, 0.1], [0.0, 0.6, 0.9], [0.2, 0.0, 0.05]])
    metric = SplineCityBlock(knots, coefficients, Link(np.array(0.1), np.array(1.0)))
    sites = {"species": "/data/species.csv", "n_species": 1234, "measure": "counts"}
    about = {"label": None, "classes": {}, "sites": sites}
    more = {"model": "gdm", "training": {}}
    fitted("fit_sites", metric, data=about, gdm=gdm(), **more)
    answers = {"source": "/data/judged.csv", "kind": "pairs", "n": 1470}
    about = {"label": None, "classes": {}, "answers": answers}
    fitted("fit_curves", metric, data=about, **more)
    # Limits that the jackknife has stored.
    stored = pd.DataFrame({
        "curve": ["rain"] * 3 + ["soil"] * 3, "x": [0, 1, 4, 2, 5, 6.0],
        "s": [0, 0.5, 0.6, 0, 0.75, 1.5], "lower": [0, 0.4, 0.45, 0, 0.5, 1.25],
        "upper": [0, 0.7, 0.8, 0, 0.9, 2.0],
    })  # fmt: skip
    about = {"source": "/d/sites.csv", "n": 9, "features": NAMES, "hash": "f"}
    about |= {"classes": {}, "label": None, "groups": None, "sites": sites}
    page = made(
        "sample", summary(about, method="jackknife", gdm=gdm(), **more), curves=stored
    )
    assert_expected(page, "report/sample_jackknife.html")


def test_a_sample_of_the_rows_is_said_to_be_one():
    assert _of_sample({"n": 5}) == ""
    assert _of_sample({"n": 5, "sampled": {"rows": 5}}) == ""
    said = _of_sample({"n": 51_234, "sampled": {"rows": 3000}})
    assert "Scores and figures use 3,000 rows, sampled by a hash" in said


def test_rows_on_disk_are_sampled_again(fitted, points, tmp_path):
    """The page warns that the data have changed, because their hash differs."""
    pd.read_csv(tmp_path / "mine.csv").to_parquet(tmp_path / "mine.parquet")
    about = {
        "source": str(tmp_path / "mine.parquet"),
        "sampled": {"rows": 5, "most": 5},
    }
    fitted("fit_sampled", METRIC, data=about | {"n": 9})


def test_the_summary_is_json_of_plain_values(made, points, tmp_path):
    pm.save_metric(METRIC, tmp_path / "metric.npz")
    odd = {"x": np.float32(0.5), "n": np.arange(3), "nan": [np.nan, np.inf], "set": {1}}
    made("fit", summary(points, odd=odd | {"none": None, "yes": True, 4: -np.inf}))
    text = (tmp_path / "summary.json").read_text()
    assert_expected(text, "report/summary.json", FOLDER=tmp_path)
    assert json.loads(text)["odd"]["nan"] == [None, "inf"]
