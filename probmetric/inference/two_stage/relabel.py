"""Draws of the two-stage mixture: components relabelled to a reference, for display.

Components carry no order, so that chains and draws disagree about their names; R-hat
and intervals belong on ``models.two_stage.invariant`` functionals. To *look* at
components, each draw is permuted to the reference (the EM solution) by the assignment
that minimises the sum over components of the squared distance of means,

    (μ - μ_ref)ᵀ S_ref⁻¹ (μ - μ_ref),   S = W + B.                                (1)
"""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from probmetric.models.two_stage import TwoStageParams

__all__ = ["relabel"]


def relabel(draws: TwoStageParams, reference: TwoStageParams) -> TwoStageParams:
    """Permute the components of every draw to those of a reference, by Eq. (1).

    Parameters
    ----------
    draws : TwoStageParams
        Arrays with one leading draw axis: weights (s, k), means (s, k, d), ...
    reference : TwoStageParams
        Without that axis.

    Returns
    -------
    TwoStageParams
        As ``draws``. For display only: where components overlap, names are forced.
    """
    total = np.asarray(reference.within) + np.asarray(reference.between)
    L = np.linalg.cholesky(total)
    off = np.asarray(draws.means)[:, :, None] - np.asarray(reference.means)
    z = np.linalg.solve(L, off[..., None])[..., 0]  # (s, k of draw, k of reference, d)
    cost = np.sum(z**2, -1)
    order = np.stack([linear_sum_assignment(c.T)[1] for c in cost])

    def permute(a: Any) -> np.ndarray:
        values = np.asarray(a)
        index = order.reshape(*order.shape, *([1] * (values.ndim - 2)))
        return np.take_along_axis(values, index, 1)

    return TwoStageParams(*(permute(a) for a in draws))
