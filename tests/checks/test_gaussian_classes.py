"""The calibration check of Gaussian classes can see a fault of ``draw`` itself.

Its truth once came from ``draw``, so that a fault of ``draw`` was in truth and
posterior alike: again a conjugate pair, with uniform ranks at any number of worlds.
"""

import jax
import numpy as np
import pytest

from probmetric.checks.check import Problem
from probmetric.checks.gaussian_classes import sampling
from probmetric.checks.uniformity import uniformity
from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes.posterior import draw
from probmetric.models.gaussian_classes import NIWPrior

pytestmark = pytest.mark.usefixtures("x64")

PRIOR = NIWPrior(np.array([0.3, -0.2]), np.eye(2) + 0.2, 0.8, 5.0, 1.5)
SMALL = Problem(
    "six points", None, Labeled(np.zeros((6, 2)), None), PRIOR, {"n_classes": 2}
)
"""So few points that one degree of freedom moves log |Σ| by a third of a posterior sd.

In 1000 worlds, which take a second once they are compiled, z is about 12.
"""

N_WORLDS = 2000


def is_odd(key):
    return jax.random.key_data(key)[-1] % 2


def at_times_one_degree_too_few(key, post, n_draws):
    """Draw as ``draw``, but by an odd key every χ² of Eq. (4) is one degree short."""
    return draw(key, post._replace(nu=post.nu - is_odd(key)), n_draws)


@pytest.fixture(scope="module")
def ranks():
    """Rank the truth among the draws of that function: as ``draw``'s, and with fault.

    In one compiled run, worlds told apart by their keys; nothing stays compiled.
    """
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "draw", at_times_one_degree_too_few)
        sampling._world_ranks.clear_cache()
        found = sampling.ranks_of_draws(SMALL, n_worlds=N_WORLDS)
        worlds = jax.random.split(jax.random.key(11), N_WORLDS)
        of_draws = jax.vmap(lambda key: jax.random.split(key)[1])(worlds)
        odd = np.asarray(jax.vmap(is_odd)(of_draws), bool)
    sampling._world_ranks.clear_cache()

    def of(rows):
        kept = {name: np.asarray(rank)[rows] for name, rank in found.ranks.items()}
        return found._replace(ranks=kept)

    return {"right": of(~odd), "short": of(odd)}


@pytest.mark.long
def test_exact_draws_are_calibrated_in_small_worlds(ranks):
    assert uniformity(ranks["right"]).attrs["verdict"] == "agree"


@pytest.mark.long
def test_draws_with_one_degree_of_freedom_too_few_are_rejected(ranks):
    """Called calibrated, at any number of worlds, while ``draw`` made the truth."""
    table = uniformity(ranks["short"])
    assert table.attrs["verdict"] == "disagree"
    rejected = table.sel(entry="mean rank of log |Σ_0|")
    assert str(rejected["verdict"].to_numpy()) == "disagree"
    assert float(np.abs(rejected["z"])) > 10
