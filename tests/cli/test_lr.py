"""``lr``: ratios of items from files, against stacked normal densities."""

import io
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal as normal

import probmetric as pm
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Calibration
from tests.cli.runs import ran, refused

W, B, MEAN = np.diag([0.5, 1.0]), np.array([[4.0, 1.0], [1.0, 2.0]]), np.array([1, 0])
CALIBRATION = Calibration(0.2, 0.8, 0.5, bound=np.log(41))
Q = pd.DataFrame({"item": ["q2", "q1", "q1"], "ri": [3.0, 0.9, 1.3], "ca": [1, 0, 2]})
K = pd.DataFrame({"ri": [1.0, 1.2, -9], "ca": [0.5, 0.1, 5], "item": ["k", "k", "far"]})


@pytest.fixture
def files(tmp_path):
    similarity = PairSimilarity(
        np.zeros(1), MEAN[None] * 1.0, B[None], W[None], calibration=CALIBRATION
    )
    pm.save_metric(similarity, tmp_path / "metric.npz")
    Q.to_csv(tmp_path / "q.csv", index=False)
    K.to_csv(tmp_path / "k.csv", index=False)
    return tmp_path


def words(files, metric="metric.npz"):
    sides = "--questioned", files / "q.csv", "--known", files / "k.csv"
    return "lr", "--metric", files / metric, *sides


def log_density(rows):
    X = rows[["ri", "ca"]].to_numpy(float)
    n = len(X)
    S = np.kron(np.ones((n, n)), B) + np.kron(np.eye(n), W)
    return normal.logpdf(X.ravel(), np.tile(MEAN, n), S)


def test_every_pair_of_items_has_its_calibrated_ratio_and_posterior(files):
    out = files / "lr.csv"
    more = "--by", "item", "--prior-odds", "1/319", "--out", out
    ran(*words(files), *more)
    found = pd.read_csv(out)
    assert found["questioned"].tolist() == ["q1", "q1", "q2", "q2"]
    assert found["known"].tolist() == ["far", "k"] * 2
    assert found["n_questioned"].tolist() == [2, 2, 1, 1]
    assert found["n_known"].tolist() == [1, 2] * 2
    for row in found.itertuples():
        q, k = Q[Q["item"] == row.questioned], K[K["item"] == row.known]
        log = log_density(pd.concat([q, k])) - log_density(q) - log_density(k)
        log = np.clip(log, -np.log(41), np.log(41))
        log = np.clip(0.2 + (0.8 if log > 0 else 0.5) * log, -np.log(41), np.log(41))
        assert row.log10_lr == pytest.approx(log / np.log(10), abs=1e-9)
        odds = np.exp(log) * float(Fraction(1, 319))
        assert row.posterior == pytest.approx(odds / (1 + odds), rel=1e-9)
    np.testing.assert_allclose(found["limit"], np.log10(41))


@pytest.mark.parametrize(
    "known, said",
    [
        (K[:0], "--known must have at least one row in k.csv, got none"),
        (K.assign(ca=[0.5, np.nan, 5]), "--known must be finite numbers, got NaN"),
        (K[["ri", "ca"]], "--by must be a column of k.csv (ri, ca), got 'item'"),
    ],
)
def test_a_side_without_measurements_is_refused_by_its_option(files, known, said):
    known.to_csv(files / "k.csv", index=False)
    assert said in refused(*words(files), "--by", "item", "--out", files / "out.csv")


def test_without_items_each_row_is_one_and_its_ratio_that_of_pairs(files):
    done = ran(*words(files), "--drop", "item")
    found = pd.read_csv(io.StringIO(done.stdout))
    assert "posterior" not in found
    metric = pm.load_metric(files / "metric.npz")
    X, Y = (f[["ri", "ca"]].to_numpy(float) for f in (Q, K))
    expected = metric.log_ratio(np.repeat(X, 3, 0), np.tile(Y, (3, 1))) / np.log(10)
    np.testing.assert_allclose(found["log10_lr"], expected, atol=1e-12)
    assert found["questioned"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
