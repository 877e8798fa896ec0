"""``EigDML``: the metric with the largest distance of the nearest far pair.

The derivation is ``inference.eig_dml.fit``.
"""

import warnings
from typing import Literal

import numpy as np

from probmetric.data.containers import Labeled, Pairs, weights
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
from probmetric.inference.eig_dml.choice import shrunk
from probmetric.inference.eig_dml.fit import Solver
from probmetric.inference.solvers.result import Fit


def apart(pairs: Pairs) -> Pairs:
    """Return the pairs without far pairs of two equal points."""
    X, i, j = (np.asarray(array) for array in pairs[:3])
    y = np.asarray(pairs.y)
    rest = (y == 1) | np.any(X[i] != X[j], 1)
    return Pairs(X, i[rest], j[rest], y[rest])


@settings
class EigDML(PairLearner):
    """Distance metric learning with eigenvalue optimization (Ying and Li).

    A close pair has two points of the same class, and a far pair two points of
    different classes. The learner maximizes the distance of the *nearest* far pair. The
    squared distances of all close pairs must sum to κ. The solver finds the global
    optimum up to ``gap_``. The learned metric is a weighted sum of this optimum and the
    Euclidean metric (see ``prior_strength``).

    Parameters
    ----------
    solver : {"pdhg", "frank_wolfe"}, default="pdhg"
        "pdhg" is a primal-dual gradient method, for relative errors of 1e-6 and below
        (``gap_ / primal_``). "frank_wolfe" is the paper's slower solver, for relative
        errors of about 1%.
    kappa : float > 0, optional
        Sum κ of the squared distances of close pairs. κ changes all distances by a
        common factor, and has no other effect. Default: the number of features d.
    ridge : float ≥ 0, default=1e-6
        Regularization of H, the sum of (a - b)(a - b)ᵀ over close pairs (a, b).
        ``ridge`` times the mean of its diagonal is added to the diagonal. If ``ridge``
        is 0, a singular H raises an error.
    prior_strength : "cv" or float ≥ 0, default="cv"
        Weight s of the Euclidean metric of standardized features, as a number of
        points. With n points, this metric has weight s/(n + s) in the learned metric,
        and the optimum has weight n/(n + s). Both are first scaled to the same trace.
        "cv" computes the log loss of ``KNeighborsClassifier`` in five folds for
        s = 1, 4, 16, 64, 256 and ∞. It chooses the largest s whose loss is at most two
        standard errors above the lowest. This choice takes 5 to 15 short fits with
        "pdhg". In ``fit_pairs``, s is a number of pairs, and "cv" means s = 0.
    pairs : {"nearest", "impostors", "all"}, default="nearest"
        Pairs that ``fit`` makes from class labels. "nearest" pairs each point with its
        nearest points of the same class and of other classes. "all" uses every pair of
        points. "impostors" pairs each point with its ``n_targets`` nearest points of
        the same class (its targets), and with all points of other classes that are
        nearer than its farthest target.
    tol : float > 0, optional
        The solver stops if ``gap_`` is at most ``tol`` times ``primal_``. Default: 1e-6
        for ``solver="pdhg"``, and 1e-2 for "frank_wolfe".
    max_iter : int, default=100_000
        Maximum number of iterations.

    Attributes
    ----------
    components_ : array of shape (r, d)
        Linear map in input units, unique only up to rotation and reflection of its
        rows. If s > 0, r is d. If s = 0, r is the rank of the optimum, which is often
        far below d. Columns of constant features are zero.
    prior_strength_ : float
        Value of s. ∞ if "cv" chose the Euclidean metric.
    primal_ : float
        Squared distance of the nearest far pair at the optimum, before the Euclidean
        metric is added.
    dual_ : float
        Upper bound on the squared distance of the nearest far pair, for every metric
        that satisfies the constraint on close pairs.
    gap_ : float
        ``dual_ - primal_``.
    far_weights_ : array of shape (n_F,)
        Dual weights of the n_F far pairs, which sum to one. Only far pairs with a
        positive weight determine the optimum. Far pairs that ``fit`` left out are not
        included.
    n_iter_ : int
    classes_, threshold_, pair_classes_, mean_, scale_
        As in ``LCA``.
    n_features_in_, feature_names_in_

    Notes
    -----
    If the points of a far pair are equal, their distance is 0 under every metric.
    ``fit`` leaves out such pairs with a warning, and ``fit_pairs`` raises an error.

    The optimum depends only on the nearest far pairs. With few labels, nearest-neighbor
    classification was less accurate under the optimum than under the Euclidean metric.
    Under the learned metric, it was at least as accurate (see the guide to few labels).

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

    def _solve_labels(self, data: Labeled) -> Fit:
        made = self._make_pairs(data)
        pairs = apart(made)
        if n_equal := len(made.i) - len(pairs.i):
            warnings.warn(
                f"EigDML: {n_equal} of {np.sum(np.asarray(made.y) == 0)} pairs of "
                "different classes have two equal points. No metric can separate "
                "them, so fit ignores these pairs. Check the labels of equal rows, or "
                "add features.",
                stacklevel=3,
            )
        if np.all(np.asarray(pairs.y) == 1):
            raise ValueError(
                "X: at least one pair must have different points of different "
                f"classes, got none among the {len(made.i)} pairs that fit made. "
                "Increase n_impostors, or add features."
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
        params = shrunk(fit.params, strength, n, live=live)
        return fit._replace(params=params)

    def _keep(self, fit: Fit) -> None:
        params = fit.params
        self.primal_, self.dual_, self.gap_ = params.primal, params.dual, params.gap
        self.far_weights_ = params.u
        self.n_iter_ = int(fit.n_steps)
