"""The models of the notebook, and a fifth written from the guide's page alone.

The notebook's cells with the tag ``model`` are run as they stand.
"""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import probmetric as pm
from probmetric.models.lca import Coincidence

NOTEBOOK = Path(__file__).parents[3] / "notebooks/06_models_of_your_own.ipynb"
FAST = {"n_draws": 39, "thin": 2, "n_warmup": 100, "n_control": 50, "progress": False}
# Draws of groups are correlated: thinned by 2, one of two seeds was rejected.
THOROUGH = {"thin": 5, "n_warmup": 300, "target_accept": 0.95}


def cells():
    found = json.loads(NOTEBOOK.read_text())["cells"]
    tagged = [c for c in found if "model" in c["metadata"].get("tags", ())]
    return ["".join(cell["source"]) for cell in tagged]


@pytest.fixture(scope="module")
def space():
    names: dict[str, Any] = {
        "jax": jax,
        **{"jnp": jnp, "np": np, "numpyro": numpyro, "dist": dist},
        **{"pm": pm, "Coincidence": Coincidence, "__name__": __name__},
    }
    for cell in cells():
        exec(compile(cell, str(NOTEBOOK), "exec"), names)
    return names


def data(n, d=3):
    rng = np.random.default_rng(0)
    A, B = rng.uniform(-2, 2, (2, n, d))
    same = rng.integers(0, 2, n)
    return {"A": A, "B": B, "same": same, "group": rng.integers(0, 3, n)}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param(
            "by_group",
            {"identified": ["scale", "b"], **THOROUGH},
            marks=pytest.mark.study,
        ),
        pytest.param("with_lapse", {"args": (True,)}, marks=pytest.mark.slow),
        pytest.param(
            "horseshoe",
            {"identified": ["M", "b"], "target_accept": 0.95},
            marks=pytest.mark.study,
        ),
    ],
)
def test_a_model_of_the_notebook_is_calibrated(space, name, given):
    # Family-wise false-alarm rate 1 % over the quantities of each model.
    found = pm.sbc(space[name], data(25), n_simulations=300, **{**FAST, **given})
    assert found.table.attrs["verdict"] != "disagree", str(found)
    assert not found.missed
