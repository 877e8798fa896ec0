"""Groups of a source, whose rows lie anywhere: as groups in memory."""

from itertools import pairwise
from typing import Any, Literal

import jax
import numpy as np
import pytest

import probmetric as pm
from probmetric.data.containers import Groups
from probmetric.data.scaling import Scaler
from probmetric.inference.two_stage.groups import e_step, group_data
from probmetric.large import groups as stream
from probmetric.large.engine import _divided
from probmetric.large.files import Rows
from probmetric.large.groups import Bins, Collected, collect, statistics
from probmetric.large.source import Part, Source, class_counts
from probmetric.models.two_stage import TwoStageParams
from probmetric.precision import numpy_in_numpy_out

D = 3
in_memory = numpy_in_numpy_out(jax.jit(e_step))
AS_IS = Scaler(np.zeros(D), np.ones(D))


def rows(n_groups: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Return points and groups of 1 to 40 members, in an order that mixes groups."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(n_groups), rng.choice([1, 2, 3, 4, 9, 40], n_groups))
    side = rng.integers(0, 2, n_groups)
    centre = rng.normal(size=(n_groups, D)) * [1, 2, 0.5] + 5 * side[:, None]
    X = centre[group] + rng.normal(size=(len(group), D)) * [0.5, 0.3, 1]
    order = rng.permutation(len(group))
    return X[order], group[order]


def cut(X: np.ndarray, group: np.ndarray, *, w: np.ndarray | None = None) -> Rows:
    """Return a source of many parts: one of a row and one of none among them."""
    source = Rows(X, group, w)
    ends = [0, 1, 1, *range(40, len(X), 97), len(X)]
    source.parts = [Part("", a, b - a, start=a) for a, b in pairwise(ends)]
    return source


def collected(source: Source, *, pooled: bool = False) -> Collected:
    return collect(source, AS_IS, *class_counts(source), pooled=pooled)


def bins_of(groups: Collected) -> Bins:
    return {b: data for bins in groups.held for b, data in bins.items()}


def params(k: int) -> TwoStageParams:
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(2, k, D, 5))
    covariance = [a @ np.swapaxes(a, 1, 2) / 5 for a in (A, B)]
    return TwoStageParams(np.full(k, 1 / k), rng.normal(size=(k, D)), *covariance)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


@pytest.mark.long
@pytest.mark.parametrize(("k", "pooled"), [(1, False), (1, True), (2, False)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_a_source_are_those_in_memory(k: int, pooled: bool, dtype: Any) -> None:
    X, group = rows()
    X = X.astype(dtype)
    found = statistics(collected(cut(X, group), pooled=pooled), params(k), None)
    close(found, in_memory(params(k), group_data(Groups(X.astype(float), group))))


def test_what_is_kept_of_a_group_is_its_mean_and_its_scatter() -> None:
    X, group = rows()
    ends = stream._ends(150)
    for b, data in bins_of(collected(cut(X, group))).items():
        for place in range(ends[b + 1] - ends[b]):
            own = X[group == ends[b] + place]
            kept = data.residual[data.owner == place]
            e = own - own.mean(0)
            assert data.size[place] == len(own)
            assert len(own) == 1 or len(kept) >= min(len(own), D)
            close([data.mean[place], kept.T @ kept], [own.mean(0), e.T @ e])
    # The negative control: two parts of a group, each about its own mean.
    [own] = [X[group == g] for g in [np.bincount(group).argmax()]]
    halves = [half - half.mean(0) for half in np.array_split(own, 2)]
    apart, e = sum(half.T @ half for half in halves), own - own.mean(0)
    assert np.abs(apart - e.T @ e).max() > 1e-3


@pytest.mark.parametrize(("size", "pooled"), [(2, True), (64, False)])
def test_bins_of_groups_do_not_depend_on_the_number_of_tasks(
    size: int, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = cut(*rows())
    whole = bins_of(collected(source, pooled=pooled))
    monkeypatch.setattr(stream, "split", lambda bins: _divided([*bins], size))
    divided = bins_of(collected(source, pooled=pooled))
    assert list(divided) == list(whole)
    for b, data in divided.items():
        for one, other in zip(data[:5], whole[b][:5], strict=True):
            assert one.tobytes() == other.tobytes()


def test_fewer_groups_than_bins_and_one_group() -> None:
    X, group = rows(5)
    found = collected(cut(X, group))
    assert sum(int(data.w.sum()) for data in bins_of(found).values()) == 5
    alone = collected(Rows(X, np.zeros(len(X), int)), pooled=True)
    e = X - X.mean(0)
    close([stream.scatter_within(alone)], [e.T @ e])


def test_rows_of_weight_0_are_not_there() -> None:
    X, group = rows()
    w = (np.random.default_rng(2).uniform(size=len(X)) < 0.7).astype(float)
    found = collected(cut(X, group, w=w))
    rest = collected(cut(X[w > 0], group[w > 0]))
    assert found.n_groups == rest.n_groups
    for b, data in bins_of(found).items():
        close(data[:3], bins_of(rest)[b][:3])
    with pytest.raises(ValueError, match=r"weight must be 0 or 1 .* got"):
        collected(cut(X, group, w=w / 2))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("k", "covariance"), [(1, "free"), (2, "proportional")])
def test_a_fit_to_groups_of_a_source_is_that_to_arrays(
    k: int, covariance: Literal["free", "proportional"]
) -> None:
    X, group = rows()
    X[:, 2] = 7  # A column that is constant.
    # The tied form would take 250 steps, of a pass each.
    whole = pm.TwoStageMixture(k, covariance=covariance, max_iter=20)
    found = pm.TwoStageMixture(k, covariance=covariance, max_iter=20)
    with pytest.warns(UserWarning, match="constant columns"):
        whole.fit(X, groups=group)
    with pytest.warns(UserWarning, match="constant columns"):
        found.fit(cut(X, np.array([f"g{g:03d}" for g in group])), groups="label")
    for name in ("weights_", "means_", "within_", "between_"):
        close(getattr(found, name), getattr(whole, name), 1e-9)
    assert found.objective_ == pytest.approx(whole.objective_, rel=1e-12)
    assert (found.n_iter_, found.converged_) == (whole.n_iter_, covariance == "free")
    assert (found.alpha_ is None) == (covariance == "free")
    with pytest.raises(ValueError, match="whose rows are not stored"):
        found.sample()


@pytest.mark.long
def test_a_sample_of_many_groups_starts_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, group = rows()
    whole = pm.TwoStageMixture(2).fit(pm.open(X, label=group), groups="label")
    monkeypatch.setattr(stream, "SAMPLE", 60)
    found = collected(cut(X, group))
    assert 30 < len(stream._means(found, 0)) < 90
    fewer = pm.TwoStageMixture(2).fit(pm.open(X, label=group), groups="label")
    # Two components well apart: EM ends where it ended.
    order = [np.argsort(model.means_[:, 0]) for model in (whole, fewer)]
    close(fewer.within_[order[1]], whole.within_[order[0]], 1e-4)


@pytest.mark.long
def test_groups_of_one_are_points() -> None:
    X, _ = rows(40)
    model = pm.TwoStageMixture(2, max_iter=20, tol=1e-3)
    with pytest.warns(UserWarning, match="groups: every group has one row"):
        found = model.fit(pm.open(X, label=np.arange(len(X))), groups="label")
    means = found.means_.copy()
    np.testing.assert_array_equal(model.fit(pm.open(X)).means_, means)


def test_what_groups_of_a_source_may_be() -> None:
    X, group = rows(6)
    source = pm.open(X, label=group)
    with pytest.raises(ValueError, match="groups must be None or 'label' for data"):
        pm.TwoStageMixture().fit(source, groups=group)
    with pytest.raises(ValueError, match="got str 'person'"):
        pm.TwoStageMixture().fit(source, groups="person")
    with pytest.raises(ValueError, match=r"label.* arrays, got none"):
        pm.TwoStageMixture().fit(pm.open(X), groups="label")
    with pytest.raises(ValueError, match=r"n_components must be at most 6.* gr"):
        pm.TwoStageMixture(7).fit(source, groups="label")
