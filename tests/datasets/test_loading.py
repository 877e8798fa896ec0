"""Data by name and by file: what comes back, and what is refused."""

import urllib.error

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from jaxtyping import TypeCheckError
from scipy.stats import multivariate_normal, norm

from probmetric.datasets import loading as datasets
from probmetric.datasets.generators import ringnorm, twonorm, waveform
from probmetric.large.rows import is_large


@pytest.mark.parametrize("name", datasets.names())
def test_every_named_set_unpacks_as_x_and_y(name):
    X, y = datasets.load(name)
    assert X.dtype == np.float64
    assert y.dtype == np.int64
    assert X.shape[0] == y.shape[0]


def test_wine_is_scikit_learns_wine():
    ours, theirs = datasets.load("wine"), sklearn.datasets.load_wine()
    np.testing.assert_array_equal(ours.X, theirs.data)
    np.testing.assert_array_equal(ours.y, theirs.target)
    assert list(ours.frame) == theirs.feature_names
    assert ours.labels[0] == "class_0"


def test_twonorm_has_the_bayes_error_of_its_story():
    X, y = twonorm(20_000, 0)
    error = np.mean((X.sum(1) < 0) != y)
    standard_error = np.sqrt(norm.cdf(-2) * norm.cdf(2) / len(y))
    assert abs(error - norm.cdf(-2)) < 4 * standard_error


def test_ringnorm_is_ranked_best_by_the_ratio_of_its_two_densities():
    X, y = ringnorm(20_000, 0)
    wide = multivariate_normal(np.zeros(20), 4).logpdf(X)
    narrow = multivariate_normal(np.full(20, 20**-0.5)).logpdf(X)
    # P(y=1 | x) is calibrated: its mean over points is the share of class 1.
    posterior = 1 / (1 + np.exp(wide - narrow))
    residual = posterior - y
    assert abs(residual.mean()) < 4 * residual.std() / np.sqrt(len(y))
    assert np.mean((narrow > wide) != y) < 0.02


def test_waveform_means_are_averages_of_two_triangles():
    X, y = waveform(20_000, 0)
    t = np.arange(1, 22)
    h = [np.maximum(6 - np.abs(t - centre), 0) for centre in (11, 15, 7)]
    for c, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = X[y == c]
        z = (rows.mean(0) - (h[a] + h[b]) / 2) / (rows.std(0) / np.sqrt(len(rows)))
        assert np.abs(z).max() < 4.5  # 63 comparisons: false alarm 4e-4


def test_a_generator_follows_its_seed_and_size():
    first, again = (
        datasets.load("twonorm", n=7, seed=3),
        datasets.load("twonorm", n=7, seed=3),
    )
    np.testing.assert_array_equal(first.X, again.X)
    assert first.X.shape == (7, 20)
    assert not np.array_equal(first.X, datasets.load("twonorm", n=7, seed=4).X)


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"kind": ["b", "a", "b"], "size": [1.0, 2.0, 3.0], "mass": [4, 5, 6]}
    )


def test_csv_npz_and_parquet_hold_the_same_data(tmp_path, frame):
    csv, parquet, npz = (tmp_path / f"t.{kind}" for kind in ("csv", "parquet", "npz"))
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet)
    np.savez(
        npz,
        X=frame[["size", "mass"]].to_numpy(float),
        y=np.array([1, 0, 1]),
        feature_names=np.array(["size", "mass"]),
        target_names=np.array(["a", "b"]),
    )
    loaded = [
        datasets.load(csv, label="kind"),
        datasets.load(str(parquet), label="kind"),
        datasets.load(npz),
    ]
    for data in loaded:
        np.testing.assert_array_equal(data.X, [[1, 4], [2, 5], [3, 6]])
        np.testing.assert_array_equal(data.y, [1, 0, 1])
        assert data.feature_names == ("size", "mass")
        assert data.target_names == ("a", "b")


def test_numeric_labels_keep_their_order_and_their_names(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,10\n2,9\n3,10\n")
    data = datasets.load(path)
    np.testing.assert_array_equal(data.y, [1, 0, 1])
    assert data.target_names == ("9", "10")


BAD_FILES = {
    "empty.csv": (lambda p: p.write_text(""), "empty.csv', got an empty file"),
    "header.csv": (lambda p: p.write_text("a,b\n"), "at least one row and"),
    "cut.csv": (lambda p: p.write_text("a,b,y\n1,2,0\n3,"), "got none in row 1 of 2"),
    "mixed.csv": (lambda p: p.write_text("a,y\n1,0\n2,\n3,x\n"), "label must"),
    "binary.csv": (
        lambda p: p.write_bytes(bytes(range(256)) * 9),
        # Which of the two faults is met first differs by the version of pandas.
        "must have 1 column, as|not in the encoding 'utf-8'",
    ),
    "folder.npz": (lambda p: p.mkdir(), "must be a file, got a folder"),
    "empty.npz": (lambda p: p.write_bytes(b""), "must be a readable NPZ file"),
    "empty.parquet": (lambda p: p.write_bytes(b"0"), "must be a readable PARQUET file"),
    "names.npz": (lambda p: np.savez(p, A=[1.0]), "got \\['A'\\] without X, y"),
    "shape.npz": (lambda p: np.savez(p, X=[[1.0]], y=[0, 1]), "X must have shape"),
    "words.npz": (
        lambda p: np.savez(p, X=[["a"]], y=[0]),
        "X must be numeric",
    ),
    "data.xlsx": (lambda p: p.write_bytes(b"x"), "must be a file ending in"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_by_a_clear_sentence(tmp_path, name):
    write, message = BAD_FILES[name]
    path = tmp_path / name
    write(path)
    assert not is_large(str(path))  # It is not opened as rows in parts before.
    with pytest.raises(ValueError, match=message):
        datasets.load(path)


def test_a_missing_label_column_is_named_with_those_there(tmp_path, frame):
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"\(kind, size, mass\), got 'klass'"):
        datasets.load(path, label="klass")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"must be one of breast_cancer.*got 'wein'"):
        datasets.load("wein")


def test_openml_without_a_network_is_a_clear_error(monkeypatch):
    def offline(**_):
        raise urllib.error.URLError("name resolution failed")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    with pytest.raises(ValueError, match="cannot be downloaded from OpenML"):
        datasets.load("openml:blood-transfusion")


def test_openml_columns_become_features_and_classes(monkeypatch):
    def fetch(**which):
        assert which["data_id"] == 31
        data = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
        return sklearn.utils.Bunch(data=data, target=pd.Series(["no", "yes"]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    data = datasets.load("openml:31")
    assert data.feature_names == ("a", "b")
    assert data.target_names == ("no", "yes")


def test_groups_are_a_column_of_their_own(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,item,kind\n1,p,x\n2,p,x\n3,q,y\n")
    data = datasets.load(path, groups="item", label="kind")
    assert data.feature_names == ("a",)
    np.testing.assert_array_equal(data.groups, [0, 0, 1])
    np.testing.assert_array_equal(data.y, [0, 0, 1])
    alone = tmp_path / "alone.csv"
    alone.write_text("a,item,b\n1,p,5\n2,p,6\n3,q,7\n")
    # Without a label the groups are the classes: no feature is taken for one.
    data = datasets.load(alone, groups="item")
    assert data.feature_names == ("a", "b")
    assert data.target_names == ("p", "q")
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 1)), y=[0, 0, 1], item=[5, 5, 9])
    data = datasets.load(tmp_path / "t.npz", groups="item")
    np.testing.assert_array_equal(data.groups, [0, 0, 1])


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,item,kind\n1,p,x\n2,,y\n", "groups must have a value in every row"),
        ("a,kind\n1,x\n2,y\n", "groups must be a column of t.csv"),
    ],
)
def test_bad_groups_are_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        datasets.load(tmp_path / "t.csv", groups="item", label="kind")


def test_points_need_no_labels_but_may_have_them(tmp_path):
    bare, labeled = tmp_path / "bare.csv", tmp_path / "labeled.csv"
    bare.write_text("a,b\n1,2\n3,4\n")
    labeled.write_text("a,b,kind\n1,2,x\n3,4,y\n")
    for path in (bare, labeled):
        found = datasets.load_points(path, 2)
        np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])
        assert found.feature_names == ("a", "b")
    assert datasets.load_points(bare, 2).labels is None
    assert list(datasets.load_points(labeled, 2).labels) == ["x", "y"]
    first = datasets.load_points(labeled, 2, label="kind")
    assert list(first.labels) == ["x", "y"]
    # Of any number of features a named label alone is one.
    assert datasets.load_points(bare).labels is None
    assert datasets.load_points(bare, label="b").feature_names == ("a",)
    assert datasets.load_points(labeled, label="kind").feature_names == ("a", "b")
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 2)))
    assert datasets.load_points(tmp_path / "t.npz", 2).labels is None
    assert datasets.load_points("iris", 4).labels[0] == "setosa"


@pytest.mark.parametrize("kind", ["datetime64[s]", "half", "U3"])
def test_names_of_classes_need_labels_that_count(tmp_path, kind):
    y, names = np.array([0, 1, 1]), np.array(["a", "b"])
    np.savez(tmp_path / "b.npz", X=np.eye(3), y=y * 1.0, target_names=names)
    assert datasets.load(str(tmp_path / "b.npz")).target_names == ("a", "b")
    y = y / 2 if kind == "half" else y.astype(kind)
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=y, target_names=names)
    with pytest.raises(ValueError, match="labels must be whole numbers"):
        datasets.load(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises((ValueError, TypeCheckError), match=r"seed"):
        datasets.load("twonorm", n=7, seed=seed)
