"""P(same) that the demo's report shows for Wine is calibrated on held-out pairs."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.plots import calibration
from probmetric.report.study import held_out_same


@pytest.mark.long
@pytest.mark.parametrize(("share", "fewest", "most"), [(1.0, 0, 1), (0.6, 2, 10)])
def test_bins_of_p_same_outside_their_bands_on_wine(share, fewest, most):
    X, y = pm.datasets.load("wine")
    out = np.arange(len(X)) % 3 == 0
    fit = pm.LCA().fit(X[~out], y[~out])
    same, stated = held_out_same(fit, X[~out], y[~out], X[out], y[out], 0)
    assert len(stated) == 600
    assert 0.5 < np.mean(same) < 0.8  # Five nearest rows and five random ones.
    figure = calibration(same, share * stated + (1 - share) / 2, band=0.9)
    legend = figure.axes[0].get_legend().get_texts()
    outside = legend[0].get_text().strip("()").split()[0]
    assert fewest <= int(outside) <= most
