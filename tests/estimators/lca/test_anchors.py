"""``LCA(n_anchors=)``: what is stored, and which settings do not go with it."""

import pickle

import numpy as np
import pytest
from scipy.stats import t

import probmetric as pm
from benchmarks.anchors import DF, population
from probmetric.large.source import labels_of
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
def test_the_same_seed_draws_the_same_anchors(data, fitted):
    again = pm.LCA(n_anchors=300).fit(*data)
    assert again.components_.tobytes() == fitted.components_.tobytes()
    other = pm.LCA(n_anchors=300, random_state=1).fit(*data)
    assert (other.components_ != fitted.components_).any()


@pytest.mark.long
def test_p_same_uses_the_votes_of_all_rows(data, fitted, whole):
    X, y = data
    ends = np.stack([X[:40] + 0.1, X[-40:] + 0.1], 1)
    P, other = fitted.same_probability(ends), whole.same_probability(ends)
    np.testing.assert_allclose(P, other, atol=0.1)
    on_disk = pm.LCA(n_anchors=300).fit(Labeled(X, y, [400, 500]))
    with pytest.raises(ValueError, match="requires the training rows"):
        on_disk.same_probability(ends)


def test_a_fit_is_pickled_and_used(data, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(data[0]), fitted.transform(data[0]))
    draws = again.sample("laplace", n_draws=3, n_chains=1)
    assert draws["posterior"]["M"].shape == (1, 3, 3, 3)


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


def test_weights_are_refused_as_they_would_thin_the_rows(data):
    with pytest.raises(ValueError, match="sample_weight must be None if anchors"):
        pm.LCA(**QUICK).fit(*data, sample_weight=np.ones(900))


def test_intervals_of_other_data_are_refused(data):
    lca = pm.LCA(**QUICK).fit(*data)
    with pytest.raises(ValueError, match="See matrix_error_ for the error"):
        lca.posterior_metric("intervals")


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


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.repeat("a", 900), r"label must contain .* {'a': 900}"),
        (np.array(["a"] * 899 + ["b"]), r"label must contain .* 'b': 1"),
        (None, r"X must be opened with labels .* labeled=False"),
    ],
)
def test_a_source_that_cannot_be_learned_from_is_refused(data, y, message):
    with pytest.raises(ValueError, match=message):
        pm.LCA().fit(Labeled(data[0], y, (900,)))


def test_a_source_has_its_own_labels(data):
    X, y = data
    with pytest.raises(ValueError, match="y must be None for data on disk"):
        pm.LCA().fit(Labeled(X, y, (900,)), y)


def test_a_value_that_is_not_finite_is_named(data):
    X, y = data
    X = X.copy()
    X[450, 1] = np.nan
    with pytest.raises(ValueError, match="nan in column 'x1' of row"):
        pm.LCA(**QUICK).fit(Labeled(X, y, (400, 500)))
