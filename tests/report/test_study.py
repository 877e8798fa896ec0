"""What the demo claims of Wine, as its figures count it."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.checks.lca.criticism import stated_held_out
from probmetric.plots import calibration


@pytest.mark.long
@pytest.mark.parametrize(("link", "fewest", "most"), [("auto", 0, 1), ("model", 7, 10)])
def test_bins_of_p_same_outside_their_bands_on_wine(link, fewest, most):
    fit = pm.LCA(link=link).fit(*pm.datasets.load("wine"))
    held = stated_held_out(fit, 0)
    assert len(held.stated) == 178 * 6
    assert np.mean(held.same) == 0.5
    figure = calibration(held.same, held.stated, band=0.9)
    legend = figure.axes[0].get_legend().get_texts()
    outside, of = legend[0].get_text().strip("()").split()[::2]
    assert fewest <= int(outside) <= most
    assert int(of) == 10
