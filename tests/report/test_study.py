"""What the demo claims of Wine, as its figures count it."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.plots import calibration
from probmetric.report.study import stated_held_out


@pytest.mark.parametrize(("link", "fewest", "most"), [("auto", 0, 3), ("model", 8, 10)])
def test_bins_of_p_same_outside_their_bands_on_wine(link, fewest, most):
    stated, same = stated_held_out(pm.datasets.load("wine"), 0, link)
    assert len(stated) == 178 * 6
    assert np.mean(same) == 0.5
    legend = calibration(same, stated, band=0.9).axes[0].get_legend().get_texts()
    outside, of = legend[0].get_text().strip("()").split()[::2]
    assert fewest <= int(outside) <= most
    assert int(of) == 10
