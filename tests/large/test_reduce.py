"""Sums over a source: all rows, once, in float64, in an order nothing changes."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

import probmetric as pm
from probmetric.data.scaling import Scaler
from probmetric.large import reduce
from probmetric.large.reduce import Reduction, local_sum, total
from probmetric.large.source import Part, class_counts
from probmetric.typing import Array

type _Sums = tuple[Array, Array, Array]


def step(params: Array, X: Array, y: Array, w: Array) -> _Sums:
    moved = X - params
    by_class = jnp.zeros(4).at[y].add(w)
    return w @ moved, (moved * w[:, None]).T @ moved, by_class


def finish(params: Array, sums: _Sums) -> _Sums:
    return sums


SUMS = Reduction(step, finish, labeled=True)


def points(n: int = 5000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.integers(0, 4, n), rng.uniform(0, 2, n)


def test_the_total_is_that_of_all_rows() -> None:
    X, y, w = points()
    source = pm.open(X, label=y, weight=w)
    classes, counts = class_counts(source)
    assert counts.tolist() == np.bincount(y).tolist()
    scaler = Scaler(np.ones(3), np.array([1.0, 2.0, np.inf]))
    first, second, mass = total(
        SUMS, np.ones(3), source, classes=classes, scaler=scaler
    )
    Z = (X - 1) / [1, 2, np.inf] - 1
    np.testing.assert_allclose(first, w @ Z, rtol=1e-12)
    np.testing.assert_allclose(second, (Z * w[:, None]).T @ Z, rtol=1e-12)
    np.testing.assert_allclose(mass, np.bincount(y, w), rtol=1e-12)
    assert first.dtype == np.float64


def test_every_step_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = points(300)
    seen: list[object] = []
    monkeypatch.setattr(reduce, "wait", lambda tree: seen.append(tree) or tree)
    source = pm.open(X, label=y)
    parts = list(source.parts)
    local_sum(SUMS, np.ones(3), source, parts, rows=64, classes=np.arange(4))
    assert len(seen) == 5


def test_bins_are_added_in_order_whatever_is_done_with_them() -> None:
    # 200 parts of unequal rows: the order of bins decides the last bits.
    X, y, w = points()
    source = pm.open(X, label=y, weight=w)
    ends = np.sort(np.random.default_rng(1).choice(np.arange(1, 5000), 199, False))
    cuts = [0, *ends.tolist(), 5000]
    source.parts[:] = [  # type: ignore[index]
        Part("", a, b - a, start=a) for a, b in pairwise(cuts)
    ]
    found = total(SUMS, np.ones(3), source, classes=np.arange(4))
    again = total(SUMS, np.ones(3), source, classes=np.arange(4))
    whole = total(SUMS, np.ones(3), pm.open(X, label=y, weight=w), classes=np.arange(4))
    for a, b, c in zip(found, again, whole, strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-12)


def test_labels_are_asked_for() -> None:
    X = points(10)[0]
    with pytest.raises(ValueError, match=r"label.* arrays, got none"):
        class_counts(pm.open(X))
    with pytest.raises(ValueError, match=r"label is required"):
        total(SUMS, np.ones(3), pm.open(X))
