"""Pages of draws, as a whole: draws of fixed numbers, and points written by hand.

Computed again with NumPy and ArviZ: means, deviations, errors, eigenvalues, the row of
the smallest sum of squared shares, shares of draws, counts of problems.
"""

import numpy as np
import pytest
import xarray as xr

from probmetric.checks.criticism import Finding, ModelVerdict, Part
from probmetric.report.model_fit import parts_of
from probmetric.report.sample import _statistics
from probmetric.storage.draws_file import save_draws
from tests.expected import assert_expected
from tests.report.test_fit import NAMES, gdm, summary
from tests.report.test_fit import points as points  # A fixture.


def drawn(chains, n, *, b=True, stats=None, name="M", feature="feature", **attrs):
    """Draws of L = diag(1, t, 2 - t) + a shear, with a t for each draw."""
    t = 0.4 + np.modf(np.arange(chains * n) * 0.6180339887)[0].reshape(chains, n)
    L = np.zeros((chains, n, 3, 3))
    L[..., 0, 0], L[..., 1, 1], L[..., 2, 2] = 1.0, t, 2 - t
    L[..., 0, 1] = t - 1
    M = np.swapaxes(L, -1, -2) @ L
    dims = ("chain", "draw", feature, f"{feature}_bis")
    posterior = {name: (dims, M)} | ({"b": (("chain", "draw"), t**2)} if b else {})
    groups = {"posterior": xr.Dataset(posterior)}
    if stats is not None:
        groups["sample_stats"] = xr.Dataset(stats)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs |= {"probmetric_metric": "M"} | attrs
    return tree


@pytest.fixture
def sampled(made, points, tmp_path):
    """Return a function that makes the page of draws, and compares it."""

    def sample(name, tree, *, data=None, tables=None, **more):
        save_draws(tree, tmp_path / "draws.nc")
        n = tree["posterior"].sizes
        size = {"chains": n["chain"], "draws": n["draw"]}
        run = summary(points | (data or {}), **{"training": {}, **size, **more})
        page = made("sample", run, **(tables or {}))
        assert_expected(page, f"report/{name}.html", FOLDER=tmp_path)

    return sample


def test_the_page_of_an_approximation(sampled):
    tree = drawn(1, 12, khat=0.25, method="laplace")
    sampled("sample_laplace", tree, method="laplace")


def test_the_page_of_two_chains_with_problems(sampled):
    """Three of 24 draws diverged, and 12 draws are too few for each chain."""
    diverging = np.zeros((2, 12), bool)
    diverging[[0, 0, 1], [1, 4, 7]] = True
    tree = drawn(2, 12, stats={"diverging": (("chain", "draw"), diverging)})
    advice = "the sampler may miss regions of the posterior; raise "
    advice += "target_accept (to 0.95), or set a stronger prior"
    notes = ["another note", f"3 of 24 draws diverged: {advice}"]
    prior = Finding("prior", 0.5, 0.61, 0.4, 2.0, "b is 0.4 sd out", "Widen it")
    far = Finding("predictive", 9.5, 0.013, 0.1, 0.05, "too few", "Add a component")
    parts = Part(prior, 0.61, "adequate"), Part(far, 0.026, "adequate")
    fit = ModelVerdict("lca", (*parts, Part(far, 0.011, "doubtful")))
    more = {"method": "nuts", "notes": notes, "fit": parts_of(fit)}
    sampled("sample_nuts", tree, **more)


def test_the_page_of_draws_without_their_data(sampled):
    """The data have changed, and the approximation is bad."""
    tree = drawn(1, 12, b=False, khat=1.25, method="svi")
    more = {"method": "svi", "model": "point_effects", "data": {"hash": "f"}}
    sampled("sample_svi", tree, **more)


def test_the_page_of_a_map_of_objects(sampled):
    about = {"label": None, "classes": {}, "source": "/d/judged.csv"}
    about |= {"answers": {"source": "/d/judged.csv", "kind": "triplets", "n": 1470}}
    tree = drawn(1, 12, b=False)
    more = {"method": "bootstrap", "model": "triplet_embedding", "data": about}
    sampled("sample_objects", tree, **more)


def test_the_page_of_judged_pairs_says_nothing_of_labels(sampled, made, tmp_path):
    about = {"label": None, "classes": {}, "features": NAMES}
    about |= {"answers": {"source": "/d/judged.csv", "kind": "pairs", "n": 1470}}
    tree = drawn(1, 12, b=False)
    sampled("sample_judged", tree, method="laplace", data=about, gdm=gdm() | {
        "prob": 0.8}, tables={"curves": curves()})  # fmt: skip


def curves():
    """Two curves of two points."""
    import pandas as pd

    columns = {
        "curve": ["rain"] * 2 + ["pH"] * 2,
        "x": [0, 1, 2, 4],
        "s": [0, 0.5, 0, 2],
    }
    limits = {"lower": [0, 0.25, 0, 1.5], "upper": [0, 0.75, 0.0, 3]}
    return pd.DataFrame(columns | limits)


def test_what_is_said_of_the_sampler():
    tree = drawn(1, 4)
    assert _statistics(tree, "nuts") == ("", [])
    tree.attrs["khat"] = 0.71
    sentence = "PSIS k-hat 0.71: the approximation is far from the posterior."
    assert _statistics(tree, "svi") == (
        sentence,
        [("0.71", "k-hat (below 0.7 is good)")],
    )
    tree.attrs["khat"] = 0.7
    assert "is far from" in _statistics(tree, "svi")[0]
    tree.attrs["khat"] = np.inf
    assert _statistics(tree, "svi") == ("", [])
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"energy": ("draw", np.zeros(4))}))
    assert _statistics(tree, "nuts") == ("0 draws diverged.", [("0", "divergences")])
