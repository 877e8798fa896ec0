"""A learner from outside the package: one entry, and every command knows it.

Each feature weighs by how far the means of the classes are apart in it, against how
far points are from their own mean: w_k = between_k / within_k, d² = Σ w_k (x_k - y_k)².
It is no learner of the package; nothing but ``MODELS["means"]`` is changed for it.
"""

import io
import json
from typing import NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import probmetric as pm
from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Labeled
from probmetric.inference.sampling.metrics import joined
from probmetric.registry import MODELS, ModelSpec
from probmetric.storage.draws_file import load_draws, posterior_of
from tests.cli.runs import ran, run, table, write_data

pytestmark = pytest.mark.filterwarnings("always")


class MeansParams(NamedTuple):
    """Weights of the features (d,)."""

    weights: np.ndarray


class Fitted(NamedTuple):
    """What a fit returns."""

    params: MeansParams


def learn(data):
    """Return the weights: variance of class means over variance within classes."""
    classes = np.unique(data.y)
    means = np.stack([data.X[data.y == c].mean(0) for c in classes])
    within = (data.X - means[np.searchsorted(classes, data.y)]).var(0)
    return MeansParams(means.var(0) / within)


def to_metric(params):
    return pm.Mahalanobis(np.diag(np.sqrt(params.weights)))


def problem(name, X, y):
    data = Labeled(X, y)
    return Problem(name, learn(data), data)


def toy(seed):
    data = table(seed=seed)
    y = (data["kind"] == "b").to_numpy().astype(int)
    return problem(f"toy {seed}", data[["height", "width", "mass"]].to_numpy(), y)


def by_hand(problem):
    """Return the weights feature by feature, from sums."""
    X, y = problem.data.X, problem.data.y
    weights = []
    for column in X.T:
        parts = [column[y == c] for c in np.unique(y)]
        means = [sum(part) / len(part) for part in parts]
        centre = sum(means) / len(means)
        between = sum((mean - centre) ** 2 for mean in means) / len(means)
        spread = [sum((p - m) ** 2) for p, m in zip(parts, means, strict=True)]
        weights.append(between / (sum(spread) / len(column)))
    return {"weights": np.array(weights)}


class ClassMeans(BaseEstimator):
    """The estimator: validate nothing, learn, store."""

    def __init__(self, power=1.0):
        self.power = power

    def fit(self, X, y):
        self.data_ = Labeled(np.asarray(X), np.asarray(y))
        self.weights_ = learn(self.data_).weights ** self.power
        return self

    def get_metric(self):
        return to_metric(MeansParams(self.weights_))

    def sample(self, method, *, n_draws, n_chains, seed):
        rng = np.random.default_rng(seed)
        drawn = np.empty((n_chains, n_draws, len(self.weights_)))
        for place in np.ndindex(n_chains, n_draws):
            rows = rng.integers(len(self.data_.X), size=len(self.data_.X))
            drawn[place] = learn(
                Labeled(self.data_.X[rows], self.data_.y[rows])
            ).weights
        tree = az.from_dict({"posterior": {"log_weight": np.log(drawn)}})
        tree.attrs["power"] = self.power
        return tree


def metrics_of_draws(draws):
    values = joined(draws)
    if "log_weight" not in values:
        return None
    weights = np.exp(values["log_weight"]) ** float(draws.attrs["power"])
    return [to_metric(MeansParams(w)) for w in weights]


SPEC = ModelSpec(
    name="means",
    data_kind=Labeled,
    params=MeansParams,
    model=None,
    simulate=None,
    fit=lambda problem: Fitted(learn(problem.data)),
    to_metric=to_metric,
    metric_kind=pm.Mahalanobis,
    toy=toy,
    invariants={},
    checks=(
        Check(
            "the weights are those by hand",
            "exact",
            by_hand,
            lambda problem: {"weights": problem.params.weights},
            controls={"doubled": lambda p: {"weights": 2 * p.params.weights}},
        ),
    ),
    from_labels=lambda X, y: problem("labeled", X, y),
    summary="means of classes: a weight for each feature",
    estimator=ClassMeans,
    methods=("bootstrap",),
    metrics_of_draws=metrics_of_draws,
)


@pytest.fixture(autouse=True)
def entry(monkeypatch):
    """Add the learner: this is all that the package is told of it."""
    monkeypatch.setitem(MODELS, "means", SPEC)


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path)["csv"]


def loaded(data):
    found = pm.datasets.load(data)
    return found, ClassMeans().fit(found.X, found.y)


@pytest.mark.long
def test_it_is_fitted_stored_and_reported(data, tmp_path):
    out = tmp_path / "run"
    ran("fit", "ClassMeans", "--data", data, "--out", out, "--set", "power=2.0")
    points, _ = loaded(data)
    wanted = ClassMeans(2.0).fit(points.X, points.y).get_metric()
    stored = pm.load_metric(out / "metric.npz")
    np.testing.assert_array_equal(stored.factor, wanted.factor)
    assert json.loads((out / "summary.json").read_text())["model"] == "means"
    (out / "report.html").unlink()
    ran("report", out)
    page = (out / "report.html").read_text()
    assert "means of classes: a weight for each feature" in page


@pytest.mark.long
def test_its_metric_and_its_draws_find_neighbors(data, tmp_path):
    ran("fit", "means", "--data", data, "--out", tmp_path / "fit")
    words = ("--method", "bootstrap", "--out", tmp_path / "drawn")
    ran("sample", "means", "--data", data, *words)
    points, fitted = loaded(data)
    scaled = points.X * np.sqrt(fitted.weights_)
    D = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    given = ("--metric", tmp_path / "fit" / "metric.npz")
    found = pd.read_csv(
        io.StringIO(ran("neighbors", *given, "--data", data, "-k", 3).stdout)
    )
    wanted = np.argsort(D, 1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found["neighbor"], wanted.ravel())
    drawn = ("--draws", tmp_path / "drawn" / "draws.nc")
    found = pd.read_csv(
        io.StringIO(ran("neighbors", *drawn, "--data", data, "-k", 3).stdout)
    )
    assert found["probability"].between(0, 1).all()
    # The default number of refits.
    assert load_draws(tmp_path / "drawn" / "draws.nc")["posterior"].sizes["draw"] == 200


def test_its_draws_are_stored_as_its_metrics_and_reported(data, tmp_path):
    words = ("--method", "bootstrap", "--draws", 12, "--set", "power=0.5")
    ran("sample", "means", "--data", data, "--out", tmp_path / "a", *words)
    tree = load_draws(tmp_path / "a" / "draws.nc")
    points, _ = loaded(data)
    fitted = ClassMeans(0.5).fit(points.X, points.y)
    direct = fitted.sample("bootstrap", n_draws=12, n_chains=1, seed=0)
    weights = np.exp(direct["posterior"]["log_weight"].to_numpy()[0]) ** 0.5
    posterior = posterior_of(tree)
    assert posterior.source == "bootstrap"
    for metric, w in zip(posterior.draws, weights, strict=True):
        np.testing.assert_allclose(metric.factor**2, np.diag(w), rtol=1e-12)
    thinned = posterior_of(tree, max_draws=2)
    kept = [metric.factor for metric in thinned.draws]
    np.testing.assert_array_equal(kept[0], posterior.draws[0].factor)
    np.testing.assert_array_equal(kept[1], posterior.draws[-1].factor)
    page = (tmp_path / "a" / "report.html").read_text()
    assert "Neighbors, with their probabilities" in page


def test_it_is_validated_on_simulated_and_labeled_data(data):
    assert "2 of 2 exact claims agree" in ran("validate", "means").output
    found = ran("validate", "means", "--data", data).output
    assert "1 of 1 exact claims agree" in found
    wrong = run("validate", "means", "--break")
    assert wrong.exit_code == 1
    assert "2 of 2 wrong claims rejected" in wrong.output


def test_it_is_judged_on_points_held_out(data):
    words = ("--model", "means", "--folds", 2)
    assert "means" in ran("evaluate", "--data", data, *words).stdout
