"""Metrics and draws that version 0.1.0 stored load, and measure what they measured.

The files were written at commit 86a3181, the figures by the metrics before they were
stored: dissimilarities of four points to six, for draws their mean over draws.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import probmetric as pm
from probmetric.storage.draws_file import load_draws, posterior_of

FOLDER = Path(__file__).parent / "v0_1_0"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X = np.asarray(EXPECTED["X"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["lca", "glml", "two_stage", "dca_gm"])
def test_a_metric_of_0_1_0_loads(name):
    metric = pm.load_metric(FOLDER / f"{name}.npz")
    got = metric.pairwise(X[:4], X[:6])
    np.testing.assert_allclose(got, EXPECTED[name], rtol=1e-12, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lca.nc", "two_stage.nc"])
def test_draws_of_0_1_0_load(name):
    posterior = posterior_of(load_draws(FOLDER / name))
    got = np.mean(posterior.pairwise(X[:4], X[:6]), 0)
    np.testing.assert_allclose(got, EXPECTED[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["lca.npz", "lca.nc"])
def test_p_same_of_0_1_0_is_the_models(name):
    path = FOLDER / name
    stored = path.suffix == ".npz"
    metrics = [pm.load_metric(path)] if stored else posterior_of(load_draws(path)).draws
    for metric in metrics:
        assert metric.link.kind == "model"
        D = np.asarray(metric.dissimilarity(X[0], X[1:3]))
        wanted = np.exp(-(metric.link.b + 0.5 * D))
        got = metric.same_probability(X[[0, 0]], X[1:3])
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
        with pytest.raises(ValueError, match=r"prior_odds must be None .* got 0.1"):
            metric.same_probability(X[:1], X[1:2], prior_odds=0.1)
