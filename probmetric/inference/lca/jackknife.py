"""The jackknife of LCA: refits without a group of points.

In a refit the points of one group have weight zero, which removes every pair with a
point of the group. The refit starts at the fit to all points (``bootstrap``), and the
prior does not change. ``estimators.lca.rank`` uses it to choose the number of rows.
"""

import numpy as np
from jaxtyping import Int

from probmetric.data.padding import bucket, pad_pairs
from probmetric.inference.lca.bootstrap import bootstrap, check_results
from probmetric.inference.lca.recipe import Fitted
from probmetric.models.lca import LCAParams

FEW = 50
"""The number of refits is padded to a multiple of it."""


def leave_out(fitted: Fitted, group: Int[np.ndarray, "n"]) -> LCAParams:
    """Refit without each group of points; W is (g, p, d), log σ² and κ² are (g,).

    Raises RuntimeError if a refit does not converge.
    """
    n, g = len(group), int(group.max()) + 1
    # Few shapes, few compilations. Added refits have unit weights and cost one step.
    u = np.ones((-(-g // FEW) * FEW, bucket(n)))
    u[:g, :n] = group != np.arange(g)[:, None]
    made = bootstrap(
        pad_pairs(fitted.pairs),
        fitted.prior,
        fitted.fit.params,
        u,
        learning_rate=fitted.learning_rate,
    )
    check_results("jackknife", np.asarray(made.result)[:g], 0)
    return LCAParams(*(a[:g] for a in made.params))
