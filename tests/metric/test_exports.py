"""A faiss index under a learned metric finds the neighbors that ``nearest`` finds."""

import sys

import numpy as np
import pytest

import probmetric as pm

WINE = pm.datasets.load("wine")
RNG = np.random.default_rng(0)
# Raw units, offsets of up to a thousand, fewer rows than features.
METRIC = pm.Mahalanobis(RNG.normal(size=(5, 13)) / WINE.X.std(0))


def settled(metric, Q, P, k):
    """The first k neighbors, and the queries where float32 cannot reorder them."""
    D, index = pm.nearest(metric, Q, P, k + 1)
    clear = np.diff(D, axis=1).min(1) > 1e-4 * D[:, -1]
    return D[:, :k], index[:, :k], clear


def test_faiss_finds_the_exact_neighbors():
    Q, P = WINE.X[::3], np.delete(WINE.X, np.s_[::3], 0)
    D, index, clear = settled(METRIC, Q, P, 5)
    assert clear.sum() > 40
    squared, found = METRIC.to_faiss(P).search(Q.astype(np.float32), 5)
    np.testing.assert_array_equal(found[clear], index[clear])
    np.testing.assert_allclose(squared, D, rtol=1e-3, atol=1e-4 * D.max())


def test_a_faiss_index_made_without_points_takes_them_later():
    P = WINE.X / WINE.X.std(0)
    metric = pm.Mahalanobis(METRIC.factor * WINE.X.std(0))
    index = metric.to_faiss()
    assert index.ntotal == 0
    index.add(P.astype(np.float32))
    _, wanted, clear = settled(metric, P[:40], P, 3)
    found = index.search(P[:40].astype(np.float32), 3)[1]
    np.testing.assert_array_equal(found[clear], wanted[clear])


def test_without_faiss_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"install the extra 'ann'"):
        METRIC.to_faiss()


@pytest.mark.parametrize("bad", [WINE.X[:, :4], np.full((2, 13), np.nan), WINE.X[0]])
def test_points_that_do_not_fit_are_refused(bad):
    with pytest.raises((ValueError, TypeError), match=r"points|type-check"):
        METRIC.to_faiss(bad)
