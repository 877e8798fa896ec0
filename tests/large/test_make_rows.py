"""``tools/make_rows.py``: the rows are those of the seed, in parts, and can be read."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.large.choose import picked
from tools import make_rows


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(make_rows, "BLOCK", 100)
    monkeypatch.setattr(make_rows, "FILE", 300)


def rows(folder):
    source = pm.open(folder, label="kind")
    return source, picked(source, np.arange(sum(p.rows for p in source.parts)))


def test_rows_are_a_function_of_the_seed_and_not_of_how_many(tmp_path):
    files = make_rows.write(tmp_path / "a", 750, d=3, classes=4)
    make_rows.write(tmp_path / "b", 450, d=3, classes=4)
    make_rows.write(tmp_path / "c", 250, d=3, classes=4, first=200)
    make_rows.write(tmp_path / "d", 450, d=3, classes=4, seed=1)
    assert len(files) == 3
    source, a = rows(tmp_path / "a")
    assert [p.rows for p in source.parts] == [100] * 7 + [50]
    assert source.feature_names == ("x0", "x1", "x2")
    assert a.X.shape == (750, 3)
    assert set(a.labels) == {"k0", "k1", "k2", "k3"}
    b, c, d = (rows(tmp_path / name)[1] for name in "bcd")
    np.testing.assert_array_equal(b.X, a.X[:450])
    np.testing.assert_array_equal(c.X, a.X[200:450])
    np.testing.assert_array_equal(c.labels, a.labels[200:450])
    assert not np.isin(d.X, a.X).any()
    assert len(np.unique(a.X)) == a.X.size


def test_a_start_within_a_block_is_refused(tmp_path):
    with pytest.raises(ValueError, match="first must be a multiple of 100"):
        make_rows.write(tmp_path, 10, first=50)
