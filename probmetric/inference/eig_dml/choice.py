"""A prior for Eig-DML: the mixture of its metric with the Euclidean metric.

The problem (1) of ``fit`` has no prior. Its M depends on a few far pairs and has a rank
far below d. With few points per dimension, M concentrates on directions in which the
close pairs do not vary. Let a prior count as s points beside the n training points:

    M_s = (1 - w) M + w (tr M/d) I,      w = s/(n + s).                          (11)

The second term is the Euclidean metric of the features (scaled, in the estimator) with
the trace of M; d and I refer to the columns that vary. s = 0 gives M, and s = ∞ gives
the Euclidean metric. Up to a factor, M_s is feasible in problem (1). The certificate
(5) is valid only for M, not for M_s with s > 0.

Without a likelihood, s is not a parameter of a model. ``choose_strength`` therefore
chooses s by the votes of neighbors in folds (``neighbors.strength``), with s = ∞ among
the candidates. M does not depend on s, hence a fold needs one fit.

The strongest prior is chosen whose loss is at most two standard errors above the best.
This is four times the tolerance of other learners. M depends on few pairs. With 20
points M may predict well in the folds and badly on new points.
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
"""Maximum steps and relative gap of the fit of a fold: votes need no certificate."""

TOLERANCE = 2.0
"""Standard errors in Eq. (1) of ``neighbors.strength``."""


def shrunk(
    params: EigDMLParams,
    strength: float | int,
    n: float | int,
    *,
    live: Bool[np.ndarray, "d"] | None = None,
) -> EigDMLParams:
    """Replace the metric of a fit by its mixture with the Euclidean metric, Eq. (11).

    Parameters
    ----------
    params : EigDMLParams
    strength : float ≥ 0, infinity included
        Strength s, in points.
    n : float > 0
        Number of training points, or total weight of the pairs.
    live : array of d bool, optional
        True for columns that vary. Other columns get weight 0. The default is all True.

    Returns
    -------
    EigDMLParams
        Parameters with a new ``factor`` (d, d), whose rows are in order of descending
        length. If s = 0, ``params`` is returned unchanged. The other fields do not
        change and describe the game of M.

    Examples
    --------
    M has one axis. The prior counts as much as the data:

    >>> import numpy as np
    >>> from probmetric.inference import eig_dml
    >>> M = np.diag([2.0, 0.0])
    >>> params = eig_dml.EigDMLParams(M[:1], np.eye(2), np.ones(1), 1.0, 1.0, 0.0)
    >>> L = eig_dml.shrunk(params, strength=10, n=10).factor
    >>> (L.T @ L).round(6).tolist()
    [[3.0, 0.0], [0.0, 1.0]]
    """
    if strength == 0:
        return params
    factor = mixed_with_identity(np.asarray(params.factor), strength, n, live)
    return params._replace(factor=factor)


def choose_strength(
    data: Labeled,
    pairs: Callable[[Labeled], Pairs],
    *,
    ridge: float | int = 0.0,
) -> Chosen:
    """Choose the strength s of the mixture, Eq. (11), by votes of neighbors in folds.

    Parameters
    ----------
    data : Labeled
        Unweighted points.
    pairs : callable
        Takes a part of the data and returns its pairs.
    ridge : float, default=0
        See ``fit``.

    Returns
    -------
    Chosen
        The choice is s = ∞ if some fold cannot be fitted. Reasons are: no close pair,
        equal points in different classes, or a singular H.

    See Also
    --------
    probmetric.inference.choose.choose_strength : The rule.

    Examples
    --------
    With random labels no learning (s = ∞) is best. In the second case the second
    feature has the largest variance and the first feature separates the classes, and a
    weak prior is best:

    >>> import numpy as np
    >>> from probmetric.data import Labeled, nearest_pairs
    >>> from probmetric.inference import eig_dml
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X, pairs = rng.normal(size=(40, 2)), lambda part: nearest_pairs(part.X, part.y)
    >>> eig_dml.choose_strength(Labeled(X, y), pairs).strength
    inf
    >>> X = X * [1.0, 50.0] + np.outer(y, [6.0, 0.0])
    >>> eig_dml.choose_strength(Labeled(X, y), pairs).strength
    1.0
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
