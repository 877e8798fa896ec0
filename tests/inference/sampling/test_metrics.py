"""Draws without a learner's name, as 0.1 wrote them, stand for their metrics."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

from probmetric import Mahalanobis
from probmetric.metric import PairSimilarity
from probmetric.storage.draws_file import load_draws, posterior_of, save_draws

RNG = np.random.default_rng(4)


def numbered(name, **more):
    """Return 2 chains of 5 draws of a matrix c·I, c = 1, 2, ... over chains joined."""
    c = np.arange(1.0, 11.0).reshape(2, 5)
    values = {name: c[..., None, None] * np.eye(3), **more}
    return az.from_dict({"posterior": values})


def scales(posterior):
    squares = [metric.factor.T @ metric.factor for metric in posterior.draws]
    return [round(float(M[0, 0]), 9) for M in squares]


def stored(tree, folder):
    save_draws(tree, folder / "draws.nc")
    return load_draws(folder / "draws.nc")


@pytest.mark.parametrize("name", ["M", "J"])
def test_matrices_are_metrics_chain_after_chain(name, tmp_path):
    posterior = posterior_of(stored(numbered(name), tmp_path))
    assert scales(posterior) == list(range(1, 11))
    assert all(type(metric) is Mahalanobis for metric in posterior.draws)
    assert posterior.draws[0].link is None


def components():
    """Return draws of a two-stage mixture of 2 components on 3 features."""
    roots = RNG.normal(size=(2, 5, 2, 2, 3, 3))
    B, W = (np.eye(3) + np.moveaxis(roots, 2, 0) @ np.moveaxis(roots, 2, 0).mT)[:]
    axes = ("chain", "draw")
    parts = {
        "weights": ((*axes, "k"), np.full((2, 5, 2), 0.5)),
        "means": ((*axes, "k", "f"), RNG.normal(size=(2, 5, 2, 3))),
        "between": ((*axes, "k", "f", "g"), B),
        "within": ((*axes, "k", "f", "g"), W),
    }
    tree = numbered("M").copy()
    tree["components"] = xr.DataTree(xr.Dataset(parts))
    return tree, B, W


def test_components_are_similarities_whatever_else_was_drawn(tmp_path):
    tree, B, W = components()
    tree.attrs.update(similarity="kernel", database_noise=0.5, method="laplace")
    posterior = posterior_of(stored(tree, tmp_path), max_draws=3)
    assert posterior.source == "laplace"
    for metric, place in zip(posterior.draws, [(0, 0), (0, 4), (1, 4)], strict=True):
        assert type(metric) is PairSimilarity
        assert metric.score == "kernel"
        np.testing.assert_array_equal(metric.between, B[place])
        np.testing.assert_array_equal(metric.noise, W[place])
        np.testing.assert_array_equal(metric.noise_other, 0.5 * W[place])


def test_components_that_lack_a_part_are_refused(tmp_path):
    tree, _, _ = components()
    tree["components"] = xr.DataTree(tree["components"].to_dataset()[["weights"]])
    with pytest.raises(ValueError, match="draws must have the shapes"):
        posterior_of(stored(tree, tmp_path))
