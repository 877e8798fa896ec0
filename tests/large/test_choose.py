"""Rows chosen from a source are those of the arrays, whatever the parts."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.large import choose
from probmetric.large.choose import labels_at, picked, sampled, sampled_rows
from tests.large.test_neighbors import Parts


def rows(n=5000, d=3):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.choice(["a", "b"], n)


@pytest.mark.parametrize("kind", ["arrays", "parquet", "npy"])
def test_rows_of_given_numbers_are_found_once_and_in_order(kind, tmp_path):
    X, y = rows()
    if kind == "arrays":
        source = pm.open(X, label=y)
    elif kind == "parquet":
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X).rename(columns=str).assign(kind=y)
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=700)
        source = pm.open(tmp_path / "a.parquet", label="kind")
    else:
        for k in range(2):
            np.save(tmp_path / f"x{k}.npy", X[k::2])
            np.save(tmp_path / f"y{k}.npy", y[k::2])
        X, y = np.concatenate([X[::2], X[1::2]]), np.concatenate([y[::2], y[1::2]])
        source = pm.open(tmp_path / "x*.npy", label=tmp_path / "y*.npy")
    wanted = np.array([4999, 3, 700, 3, 699])
    found = picked(source, wanted)
    np.testing.assert_array_equal(found.rows, [3, 699, 700, 4999])
    np.testing.assert_array_equal(found.X, X[found.rows])
    np.testing.assert_array_equal(found.labels, y[found.rows])
    np.testing.assert_array_equal(labels_at(source, wanted[None]), y[wanted][None])
    bare = picked(source, wanted, features=False)
    assert bare.X.shape == (4, 0)
    np.testing.assert_array_equal(bare.labels, y[bare.rows])


def test_a_sample_is_by_the_number_of_the_row_and_not_by_the_parts():
    X = rows()[0]
    whole = sampled(pm.open(X), 100, seed=3)
    cut = sampled(Parts(X, (1, 2999, 0, 2000)), 100, seed=3)
    assert len(whole.rows) == 100
    np.testing.assert_array_equal(whole.rows, cut.rows)
    np.testing.assert_array_equal(whole.X, X[whole.rows])
    assert (np.diff(whole.rows) > 0).all()
    assert set(whole.rows) != set(sampled(pm.open(X), 100, seed=4).rows)
    np.testing.assert_array_equal(sampled_rows(7, 7), np.arange(7))


def test_rows_are_sampled_alike_over_the_whole_and_across_pieces():
    few, n = 2000, (1 << 20) + 5000
    chosen = sampled_rows(n, few)
    assert len(np.unique(chosen)) == few
    share = np.bincount(chosen * 4 // n, minlength=4) / few
    assert np.abs(share - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / few)


def test_labels_that_are_lacking_are_asked_for():
    with pytest.raises(ValueError, match="label must be a column of"):
        labels_at(pm.open(rows()[0]), np.array([0]))


def test_a_bad_value_is_named_with_its_row():
    X, y = rows(100)
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"got nan in column 'x1' of row 7"):
        choose.picked(pm.open(X, label=y), np.array([3]))
