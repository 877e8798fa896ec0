"""A model's graph shows its sites, arrows and plates; the ranks show what is wrong."""

from types import SimpleNamespace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from matplotlib.patches import FancyBboxPatch

import probmetric as pm
from probmetric.checks.uniformity import Ranks
from probmetric.plots.story import _sites


def nested(data, scale):
    mu = numpyro.sample("mu", dist.Normal(0, scale))
    with numpyro.plate("group", 2, dim=-2):
        at = numpyro.sample("at", dist.Normal(mu, 1))
        twice = numpyro.deterministic("twice", 2 * at)
        with numpyro.plate("member", 3, dim=-1):
            numpyro.sample("x", dist.Normal(twice, 1), obs=data)


def parts(figure):
    axis = figure.axes[0]
    names = {t.get_text().split("\n")[0] for t in axis.texts if t.get_text()}
    frames = [p for p in axis.patches if isinstance(p, FancyBboxPatch)]
    arrows = [t for t in axis.texts if not t.get_text()]
    return names, frames, arrows


def test_the_graph_has_a_site_an_arrow_and_a_frame_for_each_of_the_model():
    figure = pm.plots.story(nested, np.zeros((2, 3)), args=(1.0,))
    names, frames, arrows = parts(figure)
    assert names == {"mu", "at", "twice", "x", "group", "member"}
    assert len(arrows) == 3  # mu to at, at to twice, twice to x
    # The frame of the members lies within that of the groups.
    inner, outer = (frame.get_window_extent() for frame in frames)
    assert outer.x0 < inner.x0
    assert inner.x1 < outer.x1
    assert inner.y1 < outer.y1


@pytest.mark.long
@pytest.mark.parametrize("name", ["lca", "lda"])
def test_a_registered_model_is_drawn_on_its_toy_problem(name):
    names, frames, arrows = parts(pm.plots.story(name))
    wanted = {"lca": {"W", "log_b", "y"}, "lda": {"weights", "chol", "mean", "x"}}
    assert wanted[name] <= names
    assert frames
    assert len(arrows) >= 4


def test_a_learner_without_a_model_and_a_wrong_call_are_refused():
    with pytest.raises(ValueError, match=r"model must be a learner with .* got 'mds'"):
        pm.plots.story("mds")
    with pytest.raises(TypeError, match="missing a required argument: 'scale'"):
        pm.plots.story(nested, np.zeros((2, 3)))


def test_an_arrow_past_a_computed_site_is_not_repeated():
    found = {
        "sample_sample": {"a": [], "b": ["a"], "x": ["a", "b"]},
        "sample_dist": {"a": "Normal", "b": "Deterministic", "x": "Normal"},
    }
    assert _sites(found) == {"a": (), "b": ("a",), "x": ("b",)}


def test_the_figure_of_ranks_names_what_disagrees():
    rng = np.random.default_rng(0)
    rows = {"right": rng.integers(0, 40, 300), "low": rng.integers(0, 20, 300)}
    ranks = Ranks(rows, 39)
    table = pm.checks.uniformity(ranks)
    found = SimpleNamespace(ranks=ranks, table=table, model="m", verdict="disagree")
    axis = pm.plots.sbc(found).axes[0]
    colors = {line.get_label(): line.get_color() for line in axis.get_lines()}
    assert colors["low"] == "#D55E00"
    assert colors["right"] != "#D55E00"
    assert "disagree (300 simulated worlds)" in axis.get_title(loc="left")
    with pytest.raises(ValueError, match=r"found must be the result of probmetric.sbc"):
        pm.plots.sbc(table)
