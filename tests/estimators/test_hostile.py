"""Points and labels in the containers that users have: the same answer, or one refusal.

Points of eighths, so that float16 and text of them hold every digit.
"""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score, r2_score

import probmetric as pm

Y = np.arange(30) % 3
X = np.round((np.random.default_rng(0).normal(size=(30, 3)) + Y[:, None]) * 8) / 8
WORDS = np.array(["a", "b", "c"])[Y]
FRAME = pd.DataFrame(X, columns=["a", "ö", "🙂"])


def _with(value):
    """Return the points as objects, one of them another."""
    objects = X.astype(object)
    objects[1, 1] = value
    return objects


class Tensor:
    """What other libraries' arrays show of themselves."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


SAME_POINTS = {
    "big-endian": X.astype(">f8"),
    "float16": X.astype(np.float16),
    "decimals": np.array([[Decimal(v) for v in row] for row in X.tolist()]),
    "a mask of none": np.ma.masked_array(X, False),
    "tensor": Tensor(X),
    "xarray": xr.DataArray(X, dims=("row", "feature")),
    "frame": FRAME,
    "nullable": FRAME.astype("Float64"),
    "arrow": FRAME.astype("double[pyarrow]"),
    "two levels of names": FRAME.set_axis(
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), axis=1
    ),
}


@pytest.fixture(scope="module")
def plain():
    """Return what is learned from an array of float64."""
    return pm.LDA().fit(X, Y)


@pytest.mark.parametrize("name", SAME_POINTS)
def test_points_are_the_same_in_any_container(name, plain):
    given = SAME_POINTS[name]
    made = pm.LDA().fit(given, Y)
    np.testing.assert_array_equal(made.components_, plain.components_)
    images, expected = made.transform(given), plain.transform(X)
    np.testing.assert_allclose(images, expected, atol=8 * np.finfo(images.dtype).eps)


REFUSED_POINTS = {
    "a mask": np.ma.masked_array(X, X > 1),
    "complex": X + 0j,
    "text": X.astype(str),
    "NA": _with(pd.NA),
    "None": _with(None),
    "a dict inside": _with({}),
    "ragged": [[1, 2], [3]] * 15,
    "generator": (row for row in X),
    "nothing": None,
    "one row of numbers": X[:, 0],
    "sparse": sparse.csr_array(X),
    "missing": FRAME.astype("Float64").mask(FRAME > 1, pd.NA),
    "words in a frame": FRAME.astype("string"),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("name", REFUSED_POINTS)
def test_what_is_no_table_of_numbers_is_refused_by_name(name, plain):
    given = REFUSED_POINTS[name]
    for use in (
        lambda: pm.LDA().fit(given, Y),
        lambda: pm.KNeighborsClassifier().fit(given, Y),
        lambda: pm.KNeighborsRegressor().fit(given, Y),
        lambda: plain.transform(given),
    ):
        with pytest.raises(ValueError, match=r"^X must "):
            use()


def test_names_of_mixed_kinds_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^X must .* string names"):
        pm.LDA().fit(FRAME.set_axis(["a", 1, 2], axis=1), Y)


def test_where_scikit_learn_has_a_type_error_ours_is_one_too(plain):
    with pytest.raises(TypeError, match=r"^X .* must be a string or a real number"):
        pm.LDA().fit(_with({}), Y)
    with pytest.raises(TypeError, match=r"^X .* Sparse data"):
        plain.transform(sparse.csr_array(X))


def _objects(*first):
    labels = WORDS.astype(object)
    labels[: len(first)] = first
    return labels


SAME_LABELS = {
    "list": (Y.tolist(), Y),
    "whole floats": (Y.astype(float), Y),
    "beyond 2^53": ([int(v) + 2**53 for v in Y], Y + 2**53),
    "beyond 2^63": (Y.astype(np.uint64) + 2**63, Y.astype(np.uint64) + 2**63),
    "objects that are bools": ((Y > 0).astype(object), Y > 0),
    "objects": (_objects(), WORDS),
    "bytes": (WORDS.astype("S"), WORDS.astype("S")),
    "categories": (pd.Categorical(WORDS), WORDS),
    "categories in another order": (
        pd.Series(pd.Categorical(WORDS, categories=list("zcba"), ordered=True)),
        WORDS,
    ),
    "string": (pd.Series(WORDS, dtype="string"), WORDS),
    "arrow": (pd.Series(WORDS, dtype="string[pyarrow]"), WORDS),
    "Int64": (pd.Series(Y, dtype="Int64"), Y),
    "Int64 beyond 2^53": (pd.Series(Y + 2**60, dtype="Int64"), Y + 2**60),
    "boolean": (pd.Series(Y > 0, dtype="boolean"), Y > 0),
    "a word that reads nan": (np.array(["nan", "", "ö\n"])[Y], Y),
}


@pytest.mark.parametrize("name", SAME_LABELS)
def test_labels_are_the_same_in_any_container(name):
    given, expected = SAME_LABELS[name]
    learned = pm.LDA().fit(X, given)
    codes = np.unique(expected, return_inverse=True)[1]
    relabeled = pm.LDA().fit(X, np.array([0, 1, 2])[codes])
    # Classes of another order add up in another order.
    np.testing.assert_allclose(
        np.abs(learned.components_), np.abs(relabeled.components_), rtol=1e-9
    )
    knn = pm.KNeighborsClassifier(votes="count", n_neighbors=1).fit(X, given)
    if name != "a word that reads nan":
        np.testing.assert_array_equal(knn.predict(X), expected)
    assert knn.score(X, given) == 1


REFUSED_LABELS = {
    "fractions": Y + 0.5,
    "NaN": np.where(Y == 0, np.nan, Y),
    "inf": np.where(Y == 0, np.inf, Y),
    "None": _objects(None),
    "NaN among words": _objects(np.nan),
    "NA": _objects(pd.NA),
    "mixed": _objects(1),
    "beyond any integer": [int(v) + 10**30 for v in Y],
    "made one by float64": [2**63 + 1, 2**63 + 3, -1] * 10,
    "made one by NUL": np.array(["a", "a\0", "b"], object)[Y],
    "dates": Y.astype("M8[D]"),
    "a mask": np.ma.masked_array(Y, Y == 1),
    "two columns": np.stack([Y, Y], 1),
    "too few": Y[:-1],
    "nothing": None,
    "sparse": sparse.csr_array(Y[None]),
}


@pytest.mark.parametrize("name", REFUSED_LABELS)
def test_what_is_no_column_of_labels_is_refused_by_name(name):
    given = REFUSED_LABELS[name]
    knn = pm.KNeighborsClassifier(bandwidth=1.0).fit(X, Y)
    uses = [
        lambda: pm.LDA().fit(X, given),
        lambda: pm.KNeighborsClassifier().fit(X, given),
    ]
    uses.append(lambda: knn.score(X, given))
    for use in uses:
        with pytest.raises(ValueError, match=r"^y(: | must )"):
            use()


def test_numbers_that_would_be_one_label_are_targets_of_a_regressor():
    y = [2**60 + 1, 2**60, 0.5] + [1.0] * 27
    model = pm.KNeighborsRegressor(n_neighbors=1, votes="count").fit(X, y)
    np.testing.assert_allclose(model.predict(X[:3]), y[:3], rtol=1e-12)


def test_one_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        learned = pm.LDA().fit(X, WORDS[:, None])
    assert learned.classes_.tolist() == ["a", "b", "c"]


def test_scores_are_scikit_learns():
    knn = pm.KNeighborsClassifier(bandwidth=1.0).fit(X[:20], WORDS[:20])
    w = np.arange(10.0)
    expected = accuracy_score(WORDS[20:], knn.predict(X[20:]), sample_weight=w)
    assert knn.score(X[20:], WORDS[20:], w) == pytest.approx(expected, rel=1e-15)
    assert 0 < expected < 1
    assert knn.score(X[20:], ["unknown"] * 10) == 0
    model = pm.KNeighborsRegressor(bandwidth=1.0).fit(X[:20], X[:20, 0])
    found = r2_score(X[20:, 0], model.predict(X[20:]), sample_weight=w)
    assert model.score(X[20:], X[20:, 0], w) == found
