"""The posterior of W for samplers: log joint density and Laplace's Gaussian.

The likelihood depends only on M = WᵀW, so only the prior determines the rotations of W.
NUTS takes its start and its scales from the full covariance, including rotations.
Draws of Laplace's Gaussian exclude rotations (``inference.rotations``), as for LCA.
Under a prior centered at 0 the density is constant along rotations. In the covariance,
the precision along rotations is then the mean precision.
"""

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.data.containers import Triplets
from probmetric.inference.rotations import inverse_root, root_across, root_around
from probmetric.inference.sampling.target import Arrays, Gaussian, Posterior, Target
from probmetric.inference.triplet_comparisons import curvature
from probmetric.inference.triplet_comparisons.likelihood import (
    log_effects,
    log_joint,
    log_lapse,
    parts,
)
from probmetric.inference.triplet_comparisons.start import as_arrays
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays
from probmetric.typing import Scalar

type TripletData = tuple[Differences, TripletPrior]


def _rated(at: Arrays, data: TripletData) -> TripletData:
    """Return the data with the lapse rate and the effects of a position, if any."""
    rows, prior = data
    if prior.lapse is not None:
        rows = rows._replace(lapse=jax.nn.sigmoid(at["logit_lapse"]))
    return rows._replace(z=at.get("effects")), prior


def _log_density(at: Arrays, data: TripletData) -> Scalar:
    return log_joint(at["W"], *_rated(at, data))


def _functionals(at: Arrays, data: TripletData) -> Arrays:
    rows, prior = _rated(at, data)
    values = {"M": at["W"].T @ at["W"]}
    if rows.z is not None:
        values["sharpness"] = prior.sharpness(rows.z)
    return values if prior.lapse is None else {**values, "lapse_rate": rows.lapse}


def _parts(at: Arrays, data: TripletData) -> tuple[Arrays, Scalar]:
    rows, prior = _rated(at, data)
    log_prior, log_likelihood = parts(at["W"], rows, prior)
    of_site: Arrays = {"W": jnp.asarray(log_prior)}
    if prior.spread is not None:
        of_site["effects"] = jnp.asarray(log_effects(rows.z, prior))
    if prior.lapse is not None:
        of_site["logit_lapse"] = jnp.asarray(log_lapse(rows.lapse, prior))
    return of_site, log_likelihood


TARGET = Target(_log_density, _functionals, _parts)
"""Target for positions {W}, with ``effects`` and ``logit_lapse`` if the model has them.

The data are (``Differences``, prior).
"""


@native_arrays
def posterior(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
    lapse_rate: float = 0.0,
    quotient: bool = False,
) -> Posterior:
    """Return the posterior for samplers, with the Laplace approximation as start.

    If ``quotient`` is True, the Gaussian has no variance along rotations of W, which do
    not change M = WᵀW. Laplace uses this Gaussian, but NUTS cannot start from it,
    because it is singular. Raises ValueError if ``params`` is not a mode.
    """
    W = np.asarray(params.W)
    if W.size > curvature.MAX_PARAMETERS:
        raise ValueError(
            f"params must have at most {curvature.MAX_PARAMETERS} parameters "
            "(components times features) for second derivatives, got "
            f"{W.size}. Fit fewer components."
        )
    z = prior.effects(params.sharpness)
    data = differences(triplets, learning_rate, params.rate(lapse_rate), z)
    prior = as_arrays(prior, W.dtype)
    H = curvature.hessian(params, data, prior)
    if quotient:
        root = root_across(H, W)
    else:
        root = inverse_root(H) if np.any(prior.mean) else root_around(H, W)
    mode = {"W": W} if z is None else {"W": W, "effects": np.asarray(z, W.dtype)}
    if prior.lapse is not None:
        mode["logit_lapse"] = np.log(data.lapse / (1 - data.lapse))
    return Posterior(TARGET, (data, prior), Gaussian(mode, root))
