"""``EigDML``: the metric that separates far pairs most, with its certificate.

The derivation is ``probmetric.inference.eig_dml.fit``; this file has no mathematics.
"""

import warnings
from typing import Literal

import numpy as np

from probmetric.data.containers import Labelled, Pairs, weights
from probmetric.data.scaling import constant_columns
from probmetric.estimators._pair_learner import PairLearner
from probmetric.estimators._settings import (
    Count,
    Extended,
    NonNegative,
    PairSet,
    Positive,
    settings,
)
from probmetric.inference import eig_dml
from probmetric.inference.eig_dml.fit import Solver
from probmetric.inference.solvers.result import Fit


def apart(pairs: Pairs) -> Pairs:
    """Return the pairs without equal points in different classes."""
    X, i, j = (np.asarray(array) for array in pairs[:3])
    y = np.asarray(pairs.y)
    rest = (y == 1) | np.any(X[i] != X[j], 1)
    return Pairs(X, i[rest], j[rest], y[rest])


@settings
class EigDML(PairLearner):
    """Distance metric learning with eigenvalue optimization (Ying and Li).

    Maximizes the distance of the *nearest* far pair, while the squared distances of
    close pairs sum to κ. The optimum is global and certified: no metric with that sum
    has all far pairs at a squared distance above ``dual_``. The metric is then mixed
    with the Euclidean one, according to ``prior_strength``.

    Parameters
    ----------
    solver : {"pdhg", "frank_wolfe"}, default="pdhg"
        Restarted primal-dual gradient, for a gap of 1e-6 and below; or the paper's
        solver, for a gap of 1%, which is slower.
    kappa : float > 0, optional
        κ. Default d. Scales all distances by a common factor.
    ridge : float ≥ 0, default=1e-6
        ridge · tr(H)/d is added to the diagonal of the scatter H of close pairs: a
        prior scatter of every direction. With 0 a singular H is an error.
    prior_strength : "cv" or float ≥ 0, default="cv"
        s: with n points the optimum has weight n/(n + s), and the Euclidean metric of
        standardized features, of the same trace, the rest. 0 is the optimum, ∞ learns
        nothing. "cv" chooses among 1, 4, 16, 64, 256 and ∞ by soft votes of neighbors
        in five folds (``neighbors.strength``), which takes five to fifteen short fits
        with "pdhg": the largest s that is at most two standard errors worse than the
        best. For ``fit_pairs`` "cv" is 0, and a number counts pairs.
    pairs : {"nearest", "impostors", "all"}, default="nearest"
        Pairs that ``fit`` makes from labels.
    n_targets, n_impostors : int, default=3
        Neighbors of a point of its class and of other classes, unless "all".
    tol : float > 0, optional
        Stop when ``dual_ - primal_ ≤ tol · primal_``. Default 1e-6, or 1e-2 for
        "frank_wolfe".
    max_iter : int, default=100_000
        Maximum number of iterations.

    Attributes
    ----------
    components_ : array of shape (r, d)
        In input units; r is d, or at s = 0 the rank of the optimum, often far below d.
        Identified only up to rotation and reflection of its rows. Zero in constant
        columns.
    prior_strength_ : float
        s in use; ∞ if "cv" chose to learn nothing.
    primal_, dual_, gap_ : float
        For the optimum, before mixing: squared distance of the nearest far pair; an
        upper bound for all metrics; their difference.
    far_weights_ : array of shape (n_F,)
        Dual weights, which sum to one; pairs with positive weight limit the metric. Far
        pairs of equal points, left out after ``fit``, have none.
    n_iter_ : int
    classes_ : array of shape (c,)
        After ``fit``.
    threshold_, pair_classes_ : float, array of shape (2,)
        For ``predict`` on pairs, once calibrated or set.
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Notes
    -----
    With a far pair at distance zero the optimum is 0 for every metric. ``fit`` leaves
    out such pairs of equal points in different classes, with a warning. In
    ``fit_pairs`` they are an error.

    The optimum only depends on the nearest far pair. With few labels its votes are
    worse than votes of the Euclidean distance; mixed, they are as good or better (see
    the guide to few labels).

    References
    ----------
    Ying and Li, "Distance metric learning with eigenvalue optimization", JMLR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learned = EigDML().fit(X, y)
    >>> bool(learned.gap_ <= 1e-6 * learned.primal_)
    True
    >>> learned.prior_strength_  # Votes of the Euclidean distance are as good here.
    inf
    """

    solver: Solver = "pdhg"
    kappa: Positive | None = None
    ridge: NonNegative = 1e-6
    prior_strength: Extended | Literal["cv"] = "cv"
    pairs: PairSet = "nearest"
    tol: Positive | None = None
    max_iter: Count = 100_000

    def _solve(self, data: Pairs) -> Fit:
        strength = self.prior_strength
        strength = 0.0 if isinstance(strength, str) else float(strength)
        return self._learn(data, strength, float(np.sum(weights(data))))

    def _solve_labels(self, data: Labelled) -> Fit:
        made = self._make_pairs(data)
        pairs = apart(made)
        if n_equal := len(made.i) - len(pairs.i):
            warnings.warn(
                f"EigDML: {n_equal} of {np.sum(np.asarray(made.y) == 0)} pairs of "
                "different classes are equal points. No metric can separate them, so "
                "they are left out. Check the labels of equal rows, or add features",
                stacklevel=3,
            )
        if np.all(np.asarray(pairs.y) == 1):
            raise ValueError(
                "X must have pairs of different classes that are not equal points, got "
                f"none among {len(made.i)} pairs. Raise n_impostors, or add features"
            )
        if isinstance(self.prior_strength, str):
            strength = eig_dml.choose_strength(
                data,
                lambda fold: apart(self._make_pairs(fold)),
                ridge=float(self.ridge),
            ).strength
        else:
            strength = float(self.prior_strength)
        return self._learn(pairs, strength, len(data.X))

    def _learn(self, data: Pairs, strength: float, n: float | int) -> Fit:
        self.prior_strength_ = strength
        fit = eig_dml.fit(
            data,
            kappa=None if self.kappa is None else float(self.kappa),
            tol=None if self.tol is None else float(self.tol),
            ridge=float(self.ridge),
            solver=self.solver,
            max_steps=int(self.max_iter),
        )
        live = ~constant_columns(np.asarray(data.X))
        params = eig_dml.shrunk(fit.params, strength, n, live=live)
        return fit._replace(params=params)

    def _keep(self, fit: Fit) -> None:
        params = fit.params
        self.primal_, self.dual_, self.gap_ = params.primal, params.dual, params.gap
        self.far_weights_ = params.u
        self.n_iter_ = int(fit.n_steps)
