"""Linear algebra that every room shares, against its definition row by row."""

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.linalg import row_signs

ROWS = np.array([[1.0, -3.0, 2.0], [0.5, 0.1, -0.4], [0.0, 0.0, 0.0], [-2.0, 2.0, 1.0]])


def test_signed_rows_have_a_positive_entry_of_largest_size():
    signed = row_signs(ROWS) * ROWS
    largest = [max(row, key=abs) for row in signed.tolist()]
    assert largest == [3.0, 0.5, 0.0, 2.0]
    assert [max(row, key=abs) for row in ROWS.tolist()] != largest  # it sees signs


def test_signs_are_the_same_in_numpy_and_in_compiled_code():
    compiled = jax.jit(row_signs)(jnp.asarray(ROWS, jnp.float32))
    np.testing.assert_array_equal(compiled, row_signs(ROWS))
    assert compiled.dtype == row_signs(ROWS.astype(np.float32)).dtype == jnp.float32
