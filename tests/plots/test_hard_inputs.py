"""Figures show few points and long names, and refuse what is not a number."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from probmetric import plots
from probmetric.metric import Mahalanobis
from tests.dump import assert_refused

X, y = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 1.0]]), [0, 1, 1]
METRIC = Mahalanobis(np.eye(2))


REFUSED = [
    lambda: plots.objects(Mahalanobis(np.full((2, 3), np.nan))),
    lambda: plots.metric(Mahalanobis(np.array([[np.inf]]))),
    lambda: plots.typicality([0.1, np.nan]),
    lambda: plots.typicality([0.1, 1.5]),
    lambda: plots.local_ellipses(METRIC, X, y, features=(0, 2)),
    lambda: plots.local_ellipses(METRIC, X, y, features=(-1, 0)),
    lambda: plots.matrix(METRIC, X, axes=[plt.figure().add_subplot()]),
]


def test_what_cannot_be_drawn_is_refused_by_name():
    assert_refused(REFUSED, "plots/hard.txt")


def test_points_have_no_more_links_than_other_points():
    axis = plots.embedding(METRIC, X, y, links=3).axes[0]
    assert axis.get_xlabel().startswith("links to the 2 nearest neighbors")
    alone = plots.embedding(METRIC, X[:1], y[:1], links=3).axes[0]
    assert alone.get_xlabel() == ""


def test_a_map_of_one_object_has_a_number_in_its_title():
    figure = plots.objects(Mahalanobis(np.ones((2, 1))), names=["a"])
    assert "nan" not in figure.axes[0].get_title("left")


@pytest.mark.parametrize(("name", "outside"), [("short", False), ("long " * 9, True)])
def test_a_legend_of_long_names_is_beside_the_curves(name, outside):
    figure = plots.calibration(
        [0, 1] * 5, {name: np.linspace(0, 1, 10), "b": [0.5] * 10}
    )
    figure.canvas.draw()
    axis = figure.axes[0]
    legend = axis.get_legend().get_window_extent()
    assert bool(legend.x0 >= axis.bbox.x1) == outside


def test_a_legend_of_many_classes_leaves_the_panels_their_width():
    many = np.random.default_rng(0).normal(size=(52, 2))
    figure = plots.before_after(METRIC, many, np.arange(52) % 26)
    figure.canvas.draw()
    few = plots.before_after(METRIC, many, np.arange(52) % 2)
    few.canvas.draw()
    widths = [f.axes[0].bbox.width for f in (figure, few)]
    assert widths[0] > 0.8 * widths[1]
