"""The posterior of W for samplers: log joint density and Laplace's Gaussian.

The likelihood depends only on M = WᵀW, so only the prior determines the rotations of W.
NUTS uses the full covariance, with rotations, for its start and for whitening. Draws of
Laplace's Gaussian leave the rotations out (``inference.rotations``), as for LCA. Under
a prior centered at 0 the density is constant along rotations. In the covariance, the
precision along rotations is then set to the mean precision.
"""

import jax.numpy as jnp
import numpy as np

from probmetric.data.containers import Triplets
from probmetric.inference.rotations import inverse_root, root_across, root_around
from probmetric.inference.sampling.target import Arrays, Gaussian, Posterior, Target
from probmetric.inference.triplet_comparisons import curvature
from probmetric.inference.triplet_comparisons.likelihood import log_joint, parts
from probmetric.inference.triplet_comparisons.start import as_arrays
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays
from probmetric.typing import Scalar

type TripletData = tuple[Differences, TripletPrior]


def _log_density(at: Arrays, data: TripletData) -> Scalar:
    return log_joint(at["W"], *data)


def _functionals(at: Arrays, data: TripletData) -> Arrays:
    del data
    return {"M": at["W"].T @ at["W"]}


def _parts(at: Arrays, data: TripletData) -> tuple[Arrays, Scalar]:
    log_prior, log_likelihood = parts(at["W"], *data)
    return {"W": jnp.asarray(log_prior)}, log_likelihood


TARGET = Target(_log_density, _functionals, _parts)
"""Target for positions {W} and data (``Differences``, prior)."""


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
    """Return the posterior for samplers, with Laplace's Gaussian at a mode as start.

    ``quotient`` leaves the rotations of W out of the Gaussian, for Laplace draws. NUTS
    cannot start from this singular Gaussian. If ``params`` is not a mode, ValueError is
    raised.
    """
    W = np.asarray(params.W)
    if W.size > curvature.MAX_PARAMETERS:
        raise ValueError(
            f"params must have at most {curvature.MAX_PARAMETERS} parameters (p·d) for "
            f"second derivatives, got {W.size}. Fit fewer components."
        )
    data = differences(triplets, learning_rate, lapse_rate)
    prior = as_arrays(prior, W.dtype)
    H = curvature.hessian(params, data, prior)
    if quotient:
        root = root_across(H, W)
    else:
        root = inverse_root(H) if np.any(prior.mean) else root_around(H, W)
    return Posterior(TARGET, (data, prior), Gaussian({"W": W}, root))
