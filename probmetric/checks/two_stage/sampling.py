"""New points of the two-stage mixture, SVI compared with NUTS, and calibration.

Only functionals that do not depend on the order of the components are ranked.
"""

from functools import partial

import jax
import numpy as np
import xarray as xr

from probmetric.checks import claims
from probmetric.checks.check import (
    Problem,
    Values,
    by_sampling,
)
from probmetric.checks.sides import as_dataset
from probmetric.checks.two_stage.similarity import near
from probmetric.data.containers import Groups
from probmetric.data.groups import Stacks
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.inference.two_stage.draws import new_points, posterior
from probmetric.inference.two_stage.target import Fitted
from probmetric.models.two_stage import TwoStagePrior, two_stage

N_WORLDS = 380
"""Number of simulations. It detects a common shift of 0.3 sd among five quantities."""


def _world() -> tuple[Stacks, TwoStagePrior]:
    prior = TwoStagePrior(
        3.0, np.zeros(1), 0.2, 8.0, 6 * np.eye(1), 8.0, np.eye(1), 2.0, 2.0
    )
    return Stacks((np.zeros((15, 2, 1)),), (np.ones(15),)), prior


def _posterior(problem: Problem[Groups]) -> Posterior:
    fitted = Fitted(problem.data, problem.prior, problem.params, False, None)
    return posterior(fitted)


def _invariants(draws: Draws) -> xr.Dataset:
    """Return the mean and the matrix logarithms of both covariances (less skewed)."""
    values = draws.values
    i, j = np.tril_indices(values["mean"].shape[-1])

    def log(A: np.ndarray) -> np.ndarray:
        size, U = np.linalg.eigh(A)
        return ((U * np.log(size)[..., None, :]) @ np.swapaxes(U, -1, -2))[..., i, j]

    table = {
        "mean": values["mean"],
        "log of W": log(np.asarray(values["within_average"])),
        "log of the covariance": log(np.asarray(values["covariance_total"])),
    }
    return as_dataset(table, draws.attributes)


def invariants_by_nuts(problem: Problem[Groups]) -> xr.Dataset:
    """Sample the invariants of free W and B from Laplace's start."""
    with jax.enable_x64(True):
        start = _posterior(problem)
        draws = NUTS().draw(start, seed=4, n_draws=500, progress=False)
    return _invariants(draws)


def invariants_by_svi(problem: Problem[Groups]) -> xr.Dataset:
    """Draw them from a full-rank guide, with steps small enough for its mean."""
    slow = SVI(n_steps=6000, step_size=0.002)
    with jax.enable_x64(True):
        draws = slow.draw(_posterior(problem), seed=5, progress=False)
    return _invariants(draws)


def moments_of_new(problem: Problem[Groups]) -> Values:
    """Return moments of two instances of one source and of an instance of another."""
    p = near(problem)
    shared = np.einsum("k,kij->ij", p.weights, p.between)
    shared = shared + np.einsum("k,ki,kj->ij", p.weights, p.means, p.means)
    whole = shared + np.einsum("k,kij->ij", p.weights, p.within)
    mean = p.weights @ p.means
    i, j = np.tril_indices(len(mean))
    return {
        "x": mean,
        "x xᵀ": whole[i, j],
        "x yᵀ, one source": shared[i, j],
        "x yᵀ, two sources": np.outer(mean, mean)[i, j],
    }


def new(problem: Problem[Groups], apart: bool = False) -> xr.Dataset:
    """Draw three points by ``new_points``; wrong: each of another source."""
    p = near(problem)
    d = p.means.shape[1]
    group = np.arange(3) if apart else np.array([7, 7, 3])
    data = Groups(np.zeros((3, d)), group)
    values = {
        name: np.broadcast_to(a, (4, 5000, *np.shape(a)))
        for name, a in p._asdict().items()
    }
    fitted = Fitted(data, problem.prior, p, False, None)
    x, y, z = np.moveaxis(new_points(fitted, values, seed=1), 2, 0)
    i, j = np.tril_indices(d)
    return as_dataset(
        {
            "x": x,
            "x xᵀ": x[..., i] * x[..., j],
            "x yᵀ, one source": x[..., i] * y[..., j],
            "x yᵀ, two sources": x[..., i] * z[..., j],
        }
    )


CHECKS = (
    by_sampling(
        "new points have the model's moments, within and between sources",
        reference=moments_of_new,
        estimate=new,
        controls={"each from another source": partial(new, apart=True)},
    ),
    claims.near(
        "SVI's invariants are near NUTS draws",
        invariants_by_nuts,
        invariants_by_svi,
        wide=2.0,
        bound=0.3,
        slow=True,
    ),
    claims.calibrated(
        two_stage,
        _world,
        identified=("alpha", "mean", "within_average", "covariance_total"),
        options={"n_components": 2, "covariance": "proportional"},
        n_simulations=N_WORLDS,
        n_draws=63,
        thin=2,
        n_warmup=120,
    ),
)
