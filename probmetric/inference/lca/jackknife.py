"""The jackknife of LCA: refits without a group of points.

In a refit the points of one group have weight zero, which removes every pair with a
point of the group. The refit starts at the fit to all points (``bootstrap``). The prior
does not change, unless its mean was chosen by folds: then it is chosen again.
"""

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.data.padding import bucket, pad_pairs
from probmetric.inference.lca.bootstrap import bootstrap, check_results
from probmetric.inference.lca.fit import scaled_axes, scaled_within
from probmetric.inference.lca.recipe import Fitted, choose_power
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, LCAPrior

FEW = 50
"""The number of refits is padded to a multiple of it."""


def leave_out(
    fitted: Fitted,
    group: Int[np.ndarray, "n"],
    codes: Int[np.ndarray, "n"] | None = None,
) -> LCAParams:
    """Refit without each group of points; W is (g, p, d), log σ² and κ² are (g,).

    With ``codes``, the prior mean is chosen again without each group. Raises
    RuntimeError if a refit does not converge.
    """
    n, g = len(group), int(group.max()) + 1
    # Few shapes, few compilations. Added refits have unit weights and cost one step.
    size = -(-g // FEW) * FEW if codes is None else g
    u = np.ones((size, bucket(n)))
    u[:g, :n] = group != np.arange(g)[:, None]
    pairs = pad_pairs(fitted.pairs)

    def refits(prior: LCAPrior, u: Float[np.ndarray, "s n"]) -> Fit:
        start, rate = fitted.fit.params, fitted.learning_rate
        return bootstrap(pairs, prior, start, u, learning_rate=rate)

    if codes is None:
        made = refits(fitted.prior, u)
    else:
        priors = (_prior_without(fitted, group == k, codes) for k in range(g))
        fits = [refits(prior, row[None]) for prior, row in zip(priors, u, strict=True)]
        made = jax.tree.map(lambda *a: np.concatenate(a), *fits)
    check_results("jackknife", np.asarray(made.result)[:g], 0)
    return LCAParams(*(a[:g] for a in made.params))


def _prior_without(
    fitted: Fitted, out: np.ndarray, codes: Int[np.ndarray, "n"]
) -> LCAPrior:
    """Choose the prior mean again, from the other points, at the scale of the fit."""
    pairs, row = fitted.pairs, np.cumsum(~out) - 1
    rest = ~(out[pairs.i] | out[pairs.j])
    same = np.asarray(pairs.y)[rest]
    if not same.any():
        return fitted.prior
    X, codes = np.asarray(pairs.X)[~out], codes[~out]
    others = Pairs(X, row[pairs.i[rest]], row[pairs.j[rest]], same)
    mean = np.asarray(fitted.prior.mean)
    W0, c = scaled_within(others, codes, choose_power(X, codes), len(mean))
    scale = scaled_axes(mean, others)[1]  # Pairs were refreshed since it was set.
    return fitted.prior._replace(mean=W0 / scale, c=np.asarray(c / scale))
