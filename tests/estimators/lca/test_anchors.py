"""``LCA(n_anchors=)``: what is stored, and which settings do not go with it."""

import numpy as np
import pytest
from scipy.stats import t

import probmetric as pm
from benchmarks.anchors import DF, population
from probmetric.large.source import labels_of
from tests.dump import assert_refused
from tests.large.test_neighbors import Parts


class Labeled(Parts):
    """Labeled arrays as a source, cut into parts of given sizes."""

    def __init__(self, X, y, sizes):
        super().__init__(X, sizes)
        self.y, self.labeled = y, y is not None

    def read(self, part, rows, *, features=True):
        for block in super().read(part, rows):
            end = block.first + len(block.X)
            labels = labels_of(self.y[block.first : end], part, block.first)
            yield block._replace(labels=labels, X=block.X[:, : None if features else 0])


QUICK = {"n_anchors": 60, "max_iter": 50}


@pytest.fixture(scope="module")
def data():
    X, y = population(900, 3, 2)
    return X * [1.0, 10.0, 0.1], np.array(["a", "b"])[y]


@pytest.fixture(scope="module")
def fitted(data):
    return pm.LCA(n_anchors=300).fit(*data)


@pytest.fixture(scope="module")
def whole(data):
    return pm.LCA().fit(*data)


@pytest.mark.long
def test_all_points_as_anchors_are_the_full_fit(data):
    whole = pm.LCA().fit(*data)
    found = pm.LCA(n_anchors=900).fit(*data)
    np.testing.assert_allclose(
        found.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-9
    )
    assert (found.matrix_error_ == 0).all()
    assert not hasattr(whole, "n_anchors_")


@pytest.mark.long
def test_principal_axes_are_those_about_the_mean_also_in_units_given(data):
    X, y = data
    settings = {"n_components": 2, "standardize": False}
    whole = pm.LCA(**settings, prior_mean="pca").fit(X + 100, y)
    for given in ((X + 100, y), (Labeled(X + 100, y, [400, 500]),)):
        found = pm.LCA(**settings, n_anchors=900).fit(*given)
        np.testing.assert_allclose(
            found.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-5
        )


@pytest.mark.long
def test_a_fit_says_its_anchors_and_error_in_input_units(data, fitted, whole):
    X, y = data
    assert fitted.n_anchors_ == 300
    off = fitted.get_mahalanobis_matrix() - whole.get_mahalanobis_matrix()
    z = off / fitted.matrix_error_
    assert np.abs(z).max() < t.ppf(1 - 1e-4, DF)
    assert np.abs(z).max() > 0.05
    again = pm.LCA(n_anchors=300).fit(X * 2, y)
    np.testing.assert_allclose(4 * again.matrix_error_, fitted.matrix_error_, 1e-6)


@pytest.mark.long
def test_p_same_uses_the_votes_of_all_rows(data, fitted, whole):
    X, y = data
    ends = np.stack([X[:40] + 0.1, X[-40:] + 0.1], 1)
    P, other = fitted.same_probability(ends), whole.same_probability(ends)
    np.testing.assert_allclose(P, other, atol=0.1)
    on_disk = pm.LCA(n_anchors=300).fit(Labeled(X, y, [400, 500]))
    with pytest.raises(ValueError, match="requires the training rows"):
        on_disk.same_probability(ends)


def test_a_later_fit_of_all_points_forgets_the_anchors(data):
    lca = pm.LCA(**QUICK).fit(*data)
    assert hasattr(lca, "n_anchors_")
    lca.set_params(n_anchors=None).fit(data[0][:90], data[1][:90])
    assert not hasattr(lca, "n_anchors_")
    lca.set_params(n_anchors=200).fit(*data)
    X = data[0]
    pairs = np.stack([X[:60], X[60:120]], 1)
    lca.fit_pairs(pairs, (data[1][:60] == data[1][60:120]).astype(int))
    assert not hasattr(lca, "n_anchors_")
    assert not hasattr(lca, "matrix_error_")


@pytest.mark.long
def test_a_source_gives_the_fit_of_the_same_rows_in_memory(data, fitted):
    X, y = data
    found = pm.LCA(n_anchors=300).fit(Labeled(X, y, (400, 1, 0, 499)))
    np.testing.assert_allclose(found.components_, fitted.components_, rtol=1e-7)
    np.testing.assert_allclose(found.matrix_error_, fitted.matrix_error_, rtol=1e-6)
    assert found.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(found.scale_, fitted.scale_, rtol=1e-12)
    assert found.n_features_in_ == 3
    near = pm.nearest(found.get_metric(), X[:5], Labeled(X, y, (900,)), 2)
    assert near[1][:, 0].tolist() == list(range(5))


@pytest.mark.long
def test_a_source_in_several_cuts_gives_nearly_the_same_bits(data):
    X, y = data
    cuts = ((900,), (300, 600), (225,) * 4)
    maps = [pm.LCA(**QUICK).fit(Labeled(X, y, cut)).components_ for cut in cuts]
    for other in maps[1:]:
        np.testing.assert_allclose(other, maps[0], rtol=1e-9, atol=1e-12)


def test_what_cannot_be_learned_from_is_refused(data):
    X, y = data
    lca, fitted = pm.LCA(**QUICK), pm.LCA(**QUICK).fit(*data)
    hole = np.where(np.arange(2700).reshape(900, 3) == 1351, np.nan, X)
    calls = {
        "weights": lambda: lca.fit(*data, sample_weight=np.ones(900)),
        "intervals": lambda: fitted.posterior_metric("intervals"),
        "one class": lambda: lca.fit(Labeled(X, np.repeat("a", 900), (900,))),
        "one row": lambda: lca.fit(Labeled(X, np.array(["a"] * 899 + ["b"]), (900,))),
        "no labels": lambda: lca.fit(Labeled(X, None, (900,))),
        "labels": lambda: lca.fit(Labeled(X, y, (900,)), y),
        "NaN": lambda: lca.fit(Labeled(hole, y, (400, 500))),
    }
    assert_refused(calls, "estimators/lca_anchors.txt")
