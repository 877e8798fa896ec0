"""A prior for Eig-DML: the mixture of its metric with the Euclidean metric.

The problem (1) of ``fit`` has no prior. The solution M depends on a few far pairs. With
few points per dimension, M concentrates on directions in which the close pairs do not
vary. Let a prior count as s points beside the n training points:

    M_s = (1 - w) M + w (tr M/d) I,      w = s/(n + s).                          (11)

The second term is the Euclidean metric of the features (scaled, in the estimator) with
the trace of M. I and d refer to the columns that vary. Up to a factor, M_s is feasible
in problem (1). The certificate (5) is valid only for M, not for M_s with s > 0.

``choose_strength`` chooses s by the votes of neighbors in folds
(``neighbors.strength``), with s = ∞ among the candidates. A fold needs one fit, because
M does not depend on s. The result is the strongest prior whose loss is at most two
standard errors above the best. Other learners allow half a standard error. The
tolerance is larger here, because M depends on few pairs and may predict well in the
folds but badly on new points.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.scaling import constant_columns
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.eig_dml.fit import EigDMLParams, fit
from probmetric.linalg import mixed_with_identity
from probmetric.neighbors.strength import STRENGTHS, Chosen

FOLD_STEPS, FOLD_GAP = 200, 0.1
"""Maximum steps and relative gap of the fit of a fold; votes need no certificate."""

TOLERANCE = 2.0
"""Tolerance, in standard errors, of Eq. (1) of ``neighbors.strength``."""


def shrunk(
    params: EigDMLParams,
    strength: float | int,
    n: float | int,
    *,
    live: Bool[np.ndarray, "d"] | None = None,
) -> EigDMLParams:
    """Replace the metric of a fit by its mixture with the Euclidean metric, Eq. (11).

    ``strength`` s counts points and may be ∞. ``n`` is the number of training points,
    or the total weight of the pairs. Columns that are not ``live`` get weight 0. The
    fields S, u and the bounds still describe the game of M. The rows of the new factor
    (d, d) are in order of descending length.
    """
    if strength == 0:
        return params
    factor = mixed_with_identity(np.asarray(params.factor), strength, n, live)
    return params._replace(factor=factor)


def choose_strength(
    data: Labeled, pairs: Callable[[Labeled], Pairs], *, ridge: float | int = 0.0
) -> Chosen:
    """Choose the strength s of the prior, Eq. (11), by cross-validation.

    The loss is the log loss of the votes of neighbors.

    Parameters
    ----------
    data : Labeled
        Unweighted points.
    pairs : callable
        Function that takes a subset of the data and returns its pairs.
    ridge : float, default=0
        See ``fit``.

    Returns
    -------
    Chosen
        The choice is s = ∞ if a fold cannot be fitted. This is the case without a close
        pair, with equal points in different classes, or with a singular H.

    Examples
    --------
    With random labels no learning (s = ∞) is best:

    >>> import numpy as np
    >>> from probmetric.data import Labeled, nearest_pairs
    >>> from probmetric.inference import eig_dml
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X, pairs = rng.normal(size=(40, 2)), lambda part: nearest_pairs(part.X, part.y)
    >>> eig_dml.choose_strength(Labeled(X, y), pairs).strength
    inf
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    live = ~constant_columns(X)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        part = Labeled(X[rows], y[rows])
        try:
            params = fit(
                pairs(part),
                ridge=ridge,
                solver="pdhg",
                tol=FOLD_GAP,
                max_steps=FOLD_STEPS,
            ).params
        except ValueError:  # The fold cannot be fitted: only Euclid remains.
            euclid = np.eye(X.shape[1])
            return [euclid if np.isinf(s) else None for s in STRENGTHS]
        factor = np.asarray(params.factor)
        return [mixed_with_identity(factor, s, len(rows), live) for s in STRENGTHS]

    return choose_by_folds(learn, X, y, tolerance=TOLERANCE)
