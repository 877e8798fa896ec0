"""What the demo states about Wine, as its figures count it."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.checks.lca.criticism import held_out
from probmetric.plots import calibration


@pytest.mark.long
def test_bins_of_the_models_link_are_outside_their_bands_on_wine():
    fit = pm.LCA(link="model").fit(*pm.datasets.load("wine"))
    held = held_out(fit.fitted_, 0)
    assert len(held.stated) == 178 * 6
    assert np.mean(held.same) == 0.5
    figure = calibration(held.same, held.stated, band=0.9)
    legend = figure.axes[0].get_legend().get_texts()
    outside, of = legend[0].get_text().strip("()").split()[::2]
    assert int(outside) >= 7
    assert int(of) == 10
