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


def test_mean_and_shape_are_tested_by_a_normal_and_by_chi_square():
    counts = np.array([30, 20, 10, 15, 25])
    table = table_of(counts).to_dataframe()
    # u = (rank + 1/2)/5; its variance under uniform ranks is that of five numbers.
    u = (np.arange(5) + 0.5) / 5
    mean = counts @ u / 100
    z = (mean - 0.5) / np.sqrt(np.mean((u - 0.5) ** 2) / 100)
    chi2 = np.sum((counts - 20) ** 2) / 20
    p = {"mean": 2 * stats.norm.sf(abs(z)), "shape": stats.chi2.sf(chi2, 4)}
    assert 0.0125 < p["shape"] < p["mean"]
    mean_row = table.loc["mean rank of q"]
    shape_row = table.loc["shape of ranks of q"]
    np.testing.assert_allclose(mean_row[["estimate", "z"]].tolist(), [mean, z])
    np.testing.assert_allclose(shape_row[["reference", "estimate"]].tolist(), [4, chi2])
    # Four tests: the smallest p-value counts four times, the next three times.
    np.testing.assert_allclose(shape_row["p_holm"], 4 * p["shape"])
    np.testing.assert_allclose(mean_row["p_holm"], min(1, 3 * p["mean"]))


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


def test_bins_that_hold_more_ranks_expect_more_of_them():
    # Ranks 0..12 in ten bins: three bins hold two ranks each.
    row = np.repeat(np.arange(13), 8)
    shape = uniformity(Ranks({"q": row}, n_draws=12)).isel(entry=1)
    assert shape["estimate"] == 0
    assert shape["reference"] == 9
