"""Learners of Gaussian classes and of pairs, fitted to a source: as to arrays."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import probmetric as pm
from probmetric.data.containers import Labeled
from probmetric.data.hash import row_bits
from probmetric.inference import pair_lda
from probmetric.inference.gaussian_classes import choice
from probmetric.inference.gaussian_classes.posterior import statistics
from probmetric.large import gaussian_classes
from probmetric.large import source as sources
from probmetric.large.files import Rows
from probmetric.large.learners import CHECKS
from probmetric.large.source import Part
from probmetric.registry import estimator_of, estimators

C = 3


def points(n: int = 900, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, C, n))  # Sorted: parts lack classes.
    X = rng.normal(size=(n, d)) * rng.uniform(0.3, 3, (C, d))[y] + y[:, None]
    return X, np.array(["a", "b", "c"])[y]


def close(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    for a, b in zip(found, wanted, strict=True):
        a, b = np.asarray(a, float), np.asarray(b, float)
        assert a.shape == b.shape
        np.testing.assert_allclose(
            a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max())
        )


def cut(X: np.ndarray, y: np.ndarray, ends: list[int]) -> Rows:
    source = Rows(X, y)
    source.parts = [
        Part("", a, b - a, start=a) for a, b in zip([0, *ends], ends, strict=False)
    ]
    return source


ENDS = [1, 1, 290, 600, 900]
"""Of parts: a row, none, and classes that are absent from parts."""


def fitted(model: Any, *data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # A column that is constant.
        return type(model)(**model.get_params()).fit(*data)


@pytest.mark.long
@pytest.mark.parametrize(
    ("ends", "prior", "covariance"),
    [
        (ENDS, "evidence", "full"),
        (ENDS, "cv", "tied"),
        (ENDS, "evidence", "diagonal"),
    ],
)
def test_gaussian_classes_of_a_source_are_those_of_arrays(
    ends: list[int], prior: Any, covariance: Any
) -> None:
    X, y = points(d=3)
    X = np.column_stack([X, np.full(len(X), 7.0)])
    model = pm.GaussianClasses(prior=prior, covariance=covariance)
    whole, found = fitted(model, X, y), fitted(model, cut(X, y, ends))
    close(found.prior_, whole.prior_)
    close(found.posterior_, whole.posterior_)
    for name in ("means_", "covariances_", "class_prior_"):
        close([getattr(found, name)], [getattr(whole, name)])
    assert found.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-9)
    assert found.classes_.tolist() == ["a", "b", "c"]
    logs = found.predict_log_proba(X), whole.predict_log_proba(X)
    np.testing.assert_allclose(*logs, atol=1e-8, rtol=1e-8)
    assert found.predict(X[:3]).tolist() == whole.predict(X[:3]).tolist()


@pytest.mark.long
def test_the_prior_is_chosen_on_a_sample_and_all_else_is_of_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = points()
    fewer = partial(sources.sample_rows, most=200)
    monkeypatch.setattr(gaussian_classes, "sample_rows", fewer)
    found = fitted(pm.GaussianClasses(), Rows(X, y))
    kept = row_bits(0, np.arange(len(X))) / 2.0**64 < 200 / len(X)
    assert 150 < kept.sum() < 250
    # Another way to it: the numbers of the sample in the prior of all rows.
    scaler = found._scaler
    Z, codes = (X - scaler.mean) / scaler.scale, np.searchsorted(found.classes_, y)
    chosen = choice.choose_prior(Labeled(Z[kept], codes[kept]), C)
    every = choice.statistics_of(Z, codes, C)
    close(found.prior_, choice.prior_of(every, chosen.strengths))
    others = choice.prior_of(choice.statistics_of(Z[kept], codes[kept], C), chosen[1])
    assert not np.allclose(found.prior_.mean, others.mean)  # The negative control.


@pytest.mark.long
def test_weights_are_those_of_repeated_rows() -> None:
    X, y = points(200)
    w = np.random.default_rng(1).integers(0, 3, len(X))
    source = pm.open(X, label=y, weight=w)
    repeated = np.repeat(X, w, 0), np.repeat(y, w)
    model = pm.GaussianClasses(prior="evidence", standardize=False)
    close(fitted(model, source).posterior_, fitted(model, *repeated).posterior_)
    with pytest.raises(ValueError, match="prior must be 'evidence'"):
        pm.GaussianClasses().fit(source)


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        pm.GLML(gamma=1.0, prior="evidence", n_draws=4, random_state=0),
        pm.GLML(gamma=np.inf, prior="evidence", n_draws=4, random_state=0),
        pm.GLML(gamma=0.1, densities="mle", n_draws=0),
    ],
    ids=["draws", "pooled", "mle"],
)
def test_the_local_metric_of_a_source_is_that_of_arrays(model: Any) -> None:
    X, y = points(d=3)
    X = np.column_stack([X, np.full(len(X), 7.0)])
    whole, found = fitted(model, X, y), fitted(model, cut(X, y, ENDS))
    some = X[::150]
    close([found.local_metric(some)], [whole.local_metric(some)], 1e-8)
    assert len(found.draws_) == len(whole.draws_)
    pairs = zip(found.draws_, whole.draws_, strict=True)
    for one, other in pairs:
        close([one.matrix_at(some)], [other.matrix_at(some)], 1e-8)
    assert (found.gamma_, found.frame_) == (whole.gamma_, whole.frame_)
    distances = [
        pm.nearest(m.get_metric(), X[::9], X, 3, shortlist=100)[0]
        for m in (found, whole)
    ]
    np.testing.assert_allclose(*distances, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match=r"predict requires the training rows"):
        found.predict(some)
    with pytest.raises(ValueError, match=r"predict requires the training rows"):
        found.predict_log_proba(some)


@pytest.mark.parametrize("method", ["generalized", "kissme", "rca", "notes"])
@pytest.mark.parametrize("strength", [16, np.inf])
def test_pair_lda_of_a_source_is_that_of_arrays(method: Any, strength: float) -> None:
    X, y = points()
    X = np.column_stack([X, np.full(len(X), 7.0)])
    alpha = 9.0 if method == "notes" else 0.01
    model = pm.PairLDA(method=method, prior_strength=strength, alpha=alpha)
    whole, found = fitted(model, X, y), fitted(model, cut(X, y, ENDS))
    M = [m.get_mahalanobis_matrix() for m in (found, whole)]
    close(M[:1], M[1:])
    close([found.values_], [whole.values_])
    assert found.negative_share_ == pytest.approx(whole.negative_share_, abs=1e-9)
    assert found.classes_.tolist() == ["a", "b", "c"]
    close([found.mean_, found.scale_], [whole.mean_, whole.scale_])


def test_pairs_of_classes_are_those_that_are_formed() -> None:
    X, labels = points(60)
    y = np.searchsorted(["a", "b", "c"], labels)
    w = np.random.default_rng(2).uniform(0.5, 2, len(X))
    i, j = np.triu_indices(len(X), 1)
    weight, same, delta = w[i] * w[j], y[i] == y[j], X[i] - X[j]
    wanted = [
        np.einsum("n,ni,nj->ij", weight[at], delta[at], delta[at]) / weight[at].sum()
        for at in (same, ~same)
    ]
    squares = np.bincount(y, w**2)
    stats = statistics(Labeled(X, y, w), C)
    close(pair_lda.class_second_moments(stats, squares), wanted, 1e-12)
    close(pair_lda.second_moments(Labeled(X, y, w)), wanted, 1e-12)
    # The negative control: Σw² left out counts every point as its own neighbor.
    none = pair_lda.class_second_moments(stats, np.zeros(C))
    assert np.abs(none.close - wanted[0]).max() > 1e-3


@pytest.mark.long
def test_what_cannot_stream_says_what_to_give() -> None:
    X, y = points(60)
    source = pm.open(X, label=y)
    for model, said in [
        (pm.GLML(), "gamma must be a number, such as gamma=1"),
        (pm.GLML(gamma=1, missing="integrate"), "missing must be 'error'"),
        (pm.GaussianClasses(missing="integrate"), "missing must be 'error'"),
        (pm.PairLDA(), "prior_strength must be a number, such as prior_strength=1"),
        (pm.PairLDA(prior_strength=1, pairs="nearest"), "pairs must be 'all'"),
        (pm.TwoStageMixture(prior="cv"), "prior must be 'default', 'flat' or a Two"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.fit(source)
    equal = np.repeat(np.eye(2), 20, 0)
    with pytest.raises(ValueError, match="vary within classes"):
        pm.GaussianClasses().fit(pm.open(equal, label=np.repeat([0, 1], 20)))
    with pytest.raises(ValueError, match="sample requires the training rows"):
        pm.GaussianClasses().fit(source).sample()


@pytest.mark.parametrize(
    "name",
    ["ClassicalMDS", "DCAGM", "EigDML", "HierarchicalLCA", "KNeighborsRegressor",
     "LCAClassifier", "PointEffectsLCA", "TripletMetric"],
)  # fmt: skip
def test_who_takes_all_rows_at_once_says_who_does_not(name: str) -> None:
    source = pm.open(points(60)[0])
    with pytest.raises(
        ValueError, match=r"^X must be an array, got data on disk .*LCA"
    ):
        getattr(pm, name)().fit(source)


@pytest.mark.long
def test_a_metric_has_its_posterior_after_a_source() -> None:
    X, y = points(200)
    model = pm.GaussianClasses(prior="evidence")
    found, whole = fitted(model, Rows(X, y)), fitted(model, X, y)
    for purpose in ("prediction", "intervals"):
        drawn = [m.posterior_metric(purpose, n_draws=3) for m in (found, whole)]
        one, other = ([m.matrix_at(X[:2]) for m in d.metrics()] for d in drawn)
        close(one, other, 1e-8)


def test_learners_that_stream_have_an_implementation_and_a_check() -> None:
    kinds = map(estimator_of, estimators())
    streaming = {kind for kind in kinds if getattr(kind, "_streams", False)}
    streaming.add(pm.GaussianClasses)
    methods = {kind.fit.__qualname__ for kind in streaming}
    assert methods == set(CHECKS)
    assert methods <= set(sources.IMPLEMENTATIONS)
    for name in sources.IMPLEMENTATIONS:
        assert callable(pm.open(np.eye(2)).implementation(name))
