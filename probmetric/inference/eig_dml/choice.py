"""A prior for Eig-DML: its metric mixed with the Euclidean one, and how much of that.

Eq. (1) of ``fit`` has no prior: its M answers to a few far pairs, has a rank far below
d, and with few points per dimension lives where the close pairs have no spread. With a
prior that counts as s points beside the n that were learned from,

    M_s = (1 - w) M + w (tr M/d) I,      w = s/(n + s):                          (11)

the Euclidean metric of the features as they came here (scaled, in the estimator), of
the same trace; d and I are of the columns that are not constant. s = 0 is M, s = ∞ the
Euclidean metric. M_s is feasible in (1) up to a factor, so the certificate (5) is about
M and says nothing of M_s for s > 0.

There is no likelihood, so that s is no parameter of a model: ``choose_strength`` takes
the s whose votes predict points left out, s = ∞ among them (``neighbors.strength``). M
does not depend on s, so that a fold costs one fit, to a gap of a tenth or 200 steps.

A stronger prior may be worse by two standard errors there, four times what other
learners allow: M hangs on a few pairs, so that of twenty points it can be good in folds
and bad afterwards. At ½, 3 of 110 fits lost .8 and more in log loss to the Euclidean
metric, where the best s in hindsight gains .08 on average.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from probmetric.data.containers import Labelled, Pairs
from probmetric.data.scaling import constant_columns
from probmetric.inference.eig_dml.fit import EigDMLParams, fit
from probmetric.linalg import mixed_with_identity
from probmetric.neighbors.strength import STRENGTHS, Chosen
from probmetric.neighbors.strength import choose_strength as choose_by_folds

FOLD_STEPS, FOLD_GAP = 200, 0.1
"""Most steps of a fold's fit, and its relative gap: votes need no certificate."""

TOLERANCE = 2.0
"""Standard errors in Eq. (1) of ``neighbors.strength``."""


def shrunk(
    params: EigDMLParams,
    strength: float | int,
    n: float | int,
    *,
    live: Bool[np.ndarray, "d"] | None = None,
) -> EigDMLParams:
    """Return a fit with the metric of Eq. (11) in place of its own.

    Parameters
    ----------
    params : EigDMLParams
    strength : float ≥ 0, infinity included
        s.
    n : float > 0
        Points that were learned from, or the weight of the pairs.
    live : array of d bool, optional
        Which columns vary; the others have no part in the metric. Default: all.

    Returns
    -------
    EigDMLParams
        With ``factor`` (d, d), rows by falling length; as it came where s = 0. The
        other fields stay: they are of the game.

    Examples
    --------
    A metric that sees one of two axes, and one that a prior of as many points as there
    are made of it:

    >>> import numpy as np
    >>> from probmetric.inference import eig_dml
    >>> one = np.diag([2.0, 0.0])
    >>> params = eig_dml.EigDMLParams(one[:1], np.eye(2), np.ones(1), 1.0, 1.0, 0.0)
    >>> L = eig_dml.shrunk(params, strength=10, n=10).factor
    >>> (L.T @ L).round(6).tolist()
    [[3.0, 0.0], [0.0, 1.0]]
    """
    if strength == 0:
        return params
    factor = mixed_with_identity(np.asarray(params.factor), strength, n, live)
    return params._replace(factor=factor)


def choose_strength(
    data: Labelled,
    pairs: Callable[[Labelled], Pairs],
    *,
    ridge: float | int = 0.0,
) -> Chosen:
    """Choose s of Eq. (11) by votes of neighbours in folds (``neighbors.strength``).

    Parameters
    ----------
    data : Labelled
        Unweighted.
    pairs : callable
        Makes pairs of a part of the data.
    ridge : float, default=0
        As ``fit``.

    Returns
    -------
    Chosen
        Where a fold cannot be learned from (no close pair, equal points of different
        classes, a singular H), only s = ∞ can be chosen.

    Examples
    --------
    The second feature is wide, and the first tells the classes apart: it pays to learn,
    and it does not where labels are random.

    >>> import numpy as np
    >>> from probmetric.data import Labelled, nearest_pairs
    >>> from probmetric.inference import eig_dml
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X, made = rng.normal(size=(40, 2)), lambda part: nearest_pairs(part.X, part.y)
    >>> eig_dml.choose_strength(Labelled(X, y), made).strength
    inf
    >>> X = X * [1.0, 50.0] + np.outer(y, [6.0, 0.0])
    >>> eig_dml.choose_strength(Labelled(X, y), made).strength
    1.0
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    live = ~constant_columns(X)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        part = Labelled(X[rows], y[rows])
        try:
            found = fit(
                pairs(part),
                ridge=ridge,
                solver="pdhg",
                tol=FOLD_GAP,
                max_steps=FOLD_STEPS,
            )
        except ValueError:  # Nothing to learn from: Euclid remains.
            same = np.eye(X.shape[1])
            return [same if np.isinf(s) else None for s in STRENGTHS]
        factor = np.asarray(found.params.factor)
        return [mixed_with_identity(factor, s, len(rows), live) for s in STRENGTHS]

    return choose_by_folds(learn, X, y, tolerance=TOLERANCE)
