"""``uniformity``: its figures are those of its equations, worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from probmetric.checks.uniformity import Ranks, uniformity


def table_of(counts, **options):
    """Table of ranks 0..4, each as often as ``counts``, beside uniform ones."""
    row = np.repeat(np.arange(5), counts)
    even = np.arange(len(row)) % 5
    return uniformity(Ranks({"q": row, "even": even}, n_draws=4), **options)


@pytest.mark.parametrize("tol", [0.3, 0.15])
def test_simulations_needed_grow_as_one_over_the_square_of_the_shift(tol):
    table = table_of([12] * 5, tol=tol, alpha=0.05, power=0.8)
    z = stats.norm.isf(0.05 / 2 / 4) + stats.norm.isf(0.2)
    variance = np.mean((np.arange(5) / 5 - 0.4) ** 2)
    needed = 4 * np.pi * z**2 * variance / tol**2
    assert table.attrs["n_needed"] == np.ceil(needed) > 60
    detectable = 2 * np.sqrt(np.pi) * z * np.sqrt(variance / 60)
    np.testing.assert_allclose(table["detectable"][:2], detectable)
    assert table["verdict"].to_numpy().tolist() == ["inconclusive"] * 2 + ["agree"] * 2


def test_simulations_needed_put_five_into_every_bin():
    # 15 ranks over five bins are three a bin; the shift is found with any number.
    table = table_of([3] * 5, tol=100.0)
    assert table.attrs["n_needed"] == 25
    assert table["verdict"].to_numpy().tolist() == ["agree"] * 2 + ["inconclusive"] * 2
    assert table_of([5] * 5, tol=100.0).attrs["verdict"] == "agree"
