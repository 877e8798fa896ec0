"""What samplers draw from: the log joint density of W, and Laplace's Gaussian.

The likelihood sees M = WᵀW alone, so that directions along rotations of W are held by
the prior only. NUTS starts from, and whitens by, the whole covariance, which they are
part of; draws of Laplace's Gaussian leave them out
(``inference.rotations``), as LCA's do. Under a prior centred at 0 rotations are held by
nothing; that covariance then has the mean precision along them.
"""

from typing import Any

import numpy as np

from probmetric.data.containers import Triplets
from probmetric.inference.rotations import inverse_root, root_across, root_around
from probmetric.inference.sampling.target import Gaussian, Posterior, Target
from probmetric.inference.triplet_comparisons import curvature
from probmetric.inference.triplet_comparisons.likelihood import log_joint, parts
from probmetric.inference.triplet_comparisons.start import as_arrays
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior
from probmetric.precision import native_arrays


def _log_density(at: Any, data: Any) -> Any:
    return log_joint(at["W"], *data)


def _functionals(at: Any, data: Any) -> dict[str, Any]:
    del data
    return {"M": at["W"].T @ at["W"]}


def _parts(at: Any, data: Any) -> tuple[dict[str, Any], Any]:
    log_prior, log_likelihood = parts(at["W"], *data)
    return {"W": log_prior}, log_likelihood


TARGET = Target(_log_density, _functionals, _parts)
"""Of positions {W} and data (``Differences``, prior)."""


@native_arrays
def posterior(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
    quotient: bool = False,
) -> Posterior:
    """Return what samplers draw from, started at Laplace's Gaussian at a mode.

    Parameters
    ----------
    params : TripletParams
        As of ``fit``.
    triplets, prior, learning_rate
        Its problem.
    quotient : bool, default=False
        Leave the rotations of W out of the Gaussian, for its draws; it then has fewer
        columns than rows, and no NUTS starts from it.

    Raises
    ------
    ValueError
        Where the parameters are no mode; more than ``MAX_PARAMETERS`` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Triplets
    >>> from probmetric.inference import triplet_comparisons as m
    >>> a, near, far, y = np.array([[0], [1], [2], [1]])
    >>> triplets = Triplets(np.array([[0.0], [1.0], [2.0]]), a, near, far, y)
    >>> params = m.fit(triplets, prior := m.prior_for(triplets)).params
    >>> root = m.posterior(params, triplets, prior).start.factor
    >>> H = m.hessian(params, m.differences(triplets), prior)
    >>> (root.T @ H @ root).round(6).tolist()  # The covariance is H⁻¹.
    [[1.0]]
    """
    W = np.asarray(params.W)
    if W.size > curvature.MAX_PARAMETERS:
        raise ValueError(
            f"params: expected at most {curvature.MAX_PARAMETERS} parameters (p·d) for "
            f"second derivatives, where draws start, got {W.size}: fit fewer components"
        )
    data, prior = differences(triplets, learning_rate), as_arrays(prior, W.dtype)
    H = curvature.hessian(params, data, prior)
    if quotient:
        root = root_across(H, W)
    else:
        root = inverse_root(H) if np.any(prior.mean) else root_around(H, W)
    return Posterior(TARGET, (data, prior), Gaussian({"W": W}, root))
