"""Rows added up to a size: what is there stays, and so does its dtype."""

import numpy as np
import pytest

from probmetric.data.padding import pad_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_padding_adds_rows_of_the_fill_and_changes_nothing_else(dtype):
    rows = np.arange(6, dtype=dtype).reshape(3, 2)
    got = pad_rows(rows, 5, -1)
    np.testing.assert_array_equal(got[:3], rows)
    np.testing.assert_array_equal(got[3:], np.full((2, 2), -1))
    assert got.dtype == dtype
