"""``EigDML``: the metric that spreads the far pairs most, with its certificate.

The derivation is ``probmetric.inference.eig_dml.fit``; this file holds no mathematics.
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
    """Return the pairs without those of equal points in different classes."""
    X, i, j = (np.asarray(part) for part in pairs[:3])
    y = np.asarray(pairs.y)
    rest = (y == 1) | np.any(X[i] != X[j], 1)
    return Pairs(X, i[rest], j[rest], y[rest])


@settings
class EigDML(PairLearner):
    """Distance metric learning with eigenvalue optimisation (Ying and Li).

    Makes the *nearest* far pair as far as it can be, while the squared distances of
    close pairs sum to κ. The optimum is global and certified: no metric with that sum
    has all far pairs at a squared distance above ``dual_``. That metric is then mixed
    with the Euclidean one, as much as ``prior_strength`` says.

    Parameters
    ----------
    solver : {"pdhg", "frank_wolfe"}, default="pdhg"
        Restarted primal-dual gradient, for a gap of 1e-6 and below; or the paper's,
        for a gap of a per cent, which it reaches later than "pdhg" does 1e-6.
    kappa : float > 0, optional
        κ. Default d. Scales all distances by a common factor.
    ridge : float ≥ 0, default=1e-6
        Close pairs' scatter H gets ridge · tr(H)/d added to its diagonal: a prior
        scatter that every direction has. With 0 a singular H is an error.
    prior_strength : "cv" or float ≥ 0, default="cv"
        s: of n points the optimum has weight n/(n + s), the Euclidean metric of
        standardised features, of the same trace, the rest; 0 is the optimum itself and
        ∞ not to learn. "cv" chooses among 1, 4, 16, 64, 256 and ∞ by soft votes of
        neighbours in five folds (``neighbors.strength``), at the cost of five to
        fifteen short fits by "pdhg": the largest s that is worse than the best by no
        more than two standard errors. Pairs handed in have no classes to vote for: with
        them "cv" is 0, and a number counts pairs.
    pairs : {"nearest", "impostors", "all"}, default="nearest"
        Pairs that ``fit`` makes from labels.
    n_targets, n_impostors : int, default=3
        Neighbours of a point of its own and of other classes, unless "all".
    tol : float > 0, optional
        Stop when ``dual_ - primal_ ≤ tol · primal_``. Default 1e-6, or 1e-2 for
        "frank_wolfe".
    max_iter : int, default=100_000
    standardize : bool, default=True
        Centre and scale the features inside ``fit``. Results are in input units.
    preprocessor : array-like of shape (n, d) or callable, optional
        X of shape (n,), and pairs (N, 2), are rows of it by number; or it is a function
        of such entries, numbers or text, that returns the points.
    unlabeled : label, default="warn"
        Rows with this label are left out, for example -1; NaN also stands for None.
        None and "warn" use every label as a class, and "warn" warns about a -1.

    Attributes
    ----------
    components_ : array of shape (r, d)
        In input units; r is d, or at s = 0 the rank of the optimum, often far below d.
        Identified only up to rotation and reflection of its rows. Zero in constant
        columns.
    prior_strength_ : float
        s in use; ∞ where "cv" found nothing worth learning.
    primal_, dual_, gap_ : float
        Of the optimum, before it is mixed: squared distance of the nearest far pair;
        an upper bound on what any metric reaches; their difference.
    far_weights_ : array of shape (n_F,)
        Dual weights, which sum to one: where positive, the pair limits the metric. Far
        pairs of equal points, left out after ``fit``, have none.
    n_iter_ : int
    classes_ : array of shape (c,)
        After ``fit``.
    threshold_, pair_classes_ : float, array of shape (2,)
        Of ``predict`` on pairs, once calibrated or set.
    mean_, scale_ : arrays of shape (d,)
    n_features_in_, feature_names_in_

    Notes
    -----
    With a far pair at distance zero the optimum is 0 for every metric. Such pairs of
    equal points in different classes are left out of the pairs made from labels, with a
    warning. Among given pairs they are an error.

    The optimum looks at the nearest far pair alone. With 20 to 160 labels its votes
    have a higher log loss than those of the Euclidean distance (+.48 ± .12); mixed,
    they are level with them at 20 labels (+.010 ± .008) and ahead with more
    (``docs/guide/few_labels.md``).

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
        given = self.prior_strength
        strength = 0.0 if isinstance(given, str) else float(given)
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
                lambda part: apart(self._make_pairs(part)),
                ridge=float(self.ridge),
            ).strength
        else:
            strength = float(self.prior_strength)
        return self._learn(pairs, strength, len(data.X))

    def _learn(self, data: Pairs, strength: float, n: float | int) -> Fit:
        self.prior_strength_ = strength
        found = eig_dml.fit(
            data,
            kappa=None if self.kappa is None else float(self.kappa),
            tol=None if self.tol is None else float(self.tol),
            ridge=float(self.ridge),
            solver=self.solver,
            max_steps=int(self.max_iter),
        )
        live = ~constant_columns(np.asarray(data.X))
        params = eig_dml.shrunk(found.params, strength, n, live=live)
        return found._replace(params=params)

    def _keep(self, fit: Fit) -> None:
        params = fit.params
        self.primal_, self.dual_, self.gap_ = params.primal, params.dual, params.gap
        self.far_weights_ = params.u
        self.n_iter_ = int(fit.n_steps)
