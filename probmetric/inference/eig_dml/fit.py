"""Eig-DML: maximize the smallest far distance under a budget for the close pairs.

Let x_c be the close differences, x_τ the n_F far differences, and H = Σ_c w_c x_c x_cᵀ
(+ δI).

    max over M ⪰ 0 of  min_τ x_τᵀ M x_τ      subject to ⟨H, M⟩ ≤ κ.               (1)

With the Cholesky factor H = R Rᵀ, z_τ = R⁻¹ x_τ and S = Rᵀ M R, the problem is a matrix
game:

    f* = max over S ⪰ 0, tr S = κ of  min_τ a_τ,   a_τ = z_τᵀ S z_τ               (2)
       = min over u in the simplex of  κ λ_max(G(u)),   G(u) = Σ u_τ z_τ z_τᵀ     (3)
    M  = R⁻ᵀ S R⁻¹,  ⟨H, M⟩ = κ          (the constraint is tight)               (4)

*Any* feasible S and u therefore certify  min_τ a_τ ≤ f* ≤ κ λ_max(G(u)).         (5)
A fit stores both bounds, recomputed from the final S and u, and stops if they are
close. There are two solvers: ``frank_wolfe`` (the paper's, corrected) for a gap of 1%,
and ``pdhg`` for a gap of 1e-6 and below. Both solvers need O((n_F + d) d) memory.

Errata of seed 003. P12: a vertex of {S ⪰ 0, tr S = κ} is κ vvᵀ, not vvᵀ (all iterates
of the notes have trace 1), and a first step of 1/t discards the start. P13: the notes
use S as if it were M, because Eq. (4) is missing. P14: a step needs the eigenvector,
not the eigenvalue. P16: the constraint on M is exactly ⟨H, M⟩ = κ. P17: a far pair at
distance zero makes f* = 0, and a singular H needs δ relative to its trace.

There is no generative model, and no NumPyro model. The loops run in NumPy and SciPy,
because JAX would compile longer than the fit takes: the stop depends on the data, and
the set of active pairs changes.

References
----------
Ying and Li, "Distance metric learning with eigenvalue optimization", JMLR 2012.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, eigh, solve_triangular

from probmetric.data.containers import Pairs, checked_rows, refuse_trials, weights
from probmetric.inference.eig_dml.frank_wolfe import frank_wolfe
from probmetric.inference.eig_dml.pdhg import pdhg
from probmetric.inference.solvers.result import Fit, Result
from probmetric.linalg import one_blas_thread, row_signs
from probmetric.metric import Mahalanobis
from probmetric.typing import Array

type Solver = Literal["pdhg", "frank_wolfe"]


class EigDMLParams(NamedTuple):
    """The learned metric and its certificate.

    Attributes
    ----------
    factor : array of shape (r, d)
        Factor L with LᵀL = M, rows by descending eigenvalue of S. r is the rank of S,
        usually far below d.
    S : array of shape (d, d)
        Solution of the max-min problem, Eq. (2). Its trace is the budget κ.
    u : array of shape (n_F,)
        Dual weights of the far pairs, Eq. (3). Only active pairs have positive weights.
    primal, dual, gap : float
        ``primal`` is the smallest squared distance of a far pair under M. ``dual`` is
        an upper bound on this value for every M. ``gap`` is dual - primal.
    """

    factor: Float[Array, "r d"]
    S: Float[Array, "d d"]
    u: Float[Array, "f"]
    primal: float
    dual: float
    gap: float


class Game(NamedTuple):
    """The whitened problem: Z (n_F, d), the root R (d, d) of H, and κ."""

    Z: Float[np.ndarray, "f d"]
    R: Float[np.ndarray, "d d"]
    kappa: float


def game(
    data: Pairs, *, kappa: float | int | None = None, ridge: float | int = 0.0
) -> Game:
    """Whiten the differences of far pairs by the matrix of close pairs, Eq. (2).

    Pairs of weight zero are ignored. Positive weights of far pairs have no effect. κ is
    d by default, and δ = ridge · tr(H)/d is added to the diagonal of H.
    """
    refuse_trials(data, "eig_dml")
    data = checked_rows(data)
    X = np.asarray(data.X)
    delta = X[np.asarray(data.i)] - X[np.asarray(data.j)]
    same, w = np.asarray(data.y) == 1, np.asarray(weights(data))
    close = delta[same & (w > 0)] * np.sqrt(w[same & (w > 0)])[:, None]
    far = delta[~same & (w > 0)]
    d = delta.shape[1]
    if not len(close) or not len(far):
        raise ValueError(
            "y must contain a close pair (1) and a far pair (0) with weight above 0, "
            f"got {len(close)} close and {len(far)} far pairs. Add the missing pairs."
        )
    zero = ~np.any(far, 1)
    if zero.any():
        raise ValueError(
            f"pairs: the two points of a far pair must be different, got {zero.sum()} "
            "far pairs of equal points. Remove these pairs."
        )
    H = close.T @ close
    H = H + ridge * np.trace(H) / d * np.eye(d, dtype=H.dtype)
    values = eigh(H, eigvals_only=True)
    if values[0] <= d * np.finfo(H.dtype).eps * values[-1]:
        rank = int(np.sum(values > d * np.finfo(H.dtype).eps * values[-1]))
        raise ValueError(
            f"ridge must be > 0, because differences of close pairs span only {rank} "
            f"of {d} dimensions, got {ridge}. Set ridge=1e-6, or add close pairs."
        )
    R = cholesky(H, lower=True)
    return Game(
        Z=solve_triangular(R, far.T, lower=True).T,
        R=R,
        kappa=float(d if kappa is None else kappa),
    )


def back_transform(
    S: Float[Array, "d d"], R: Float[Array, "d d"]
) -> Float[np.ndarray, "r d"]:
    """Compute L (r, d) with LᵀL = R⁻ᵀ S R⁻¹, Eq. (4); r is the numerical rank of S."""
    values, vectors = np.linalg.eigh(S)
    keep = values > len(values) * np.finfo(values.dtype).eps * values[-1]
    root = (vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1]
    rows = solve_triangular(np.asarray(R), root, lower=True, trans=1).T
    return row_signs(rows) * rows


def fit(
    data: Pairs,
    *,
    kappa: float | int | None = None,
    ridge: float | int = 0.0,
    solver: Solver = "pdhg",
    max_steps: int = 100_000,
    tol: float | int | None = None,
) -> Fit:
    """Fit the metric M that maximizes the smallest distance of a far pair.

    The sum of the squared distances of close pairs is at most the budget κ. The fit
    includes ``dual``, an upper bound on the smallest far distance under any such M.

    Parameters
    ----------
    data : Pairs
        y = 1 for close, 0 for far pairs. Positive weights of far pairs have no effect.
    kappa : float, optional
        Budget κ > 0. M is proportional to κ. The default is d.
    ridge : float, default=0
        Ridge, relative to the mean diagonal entry of H. H is the sum of xxᵀ over the
        differences x of close pairs. A singular H requires a ridge above 0.
    solver : {"pdhg", "frank_wolfe"}, default="pdhg"
        Algorithm. "pdhg" reaches smaller gaps; "frank_wolfe" is the paper's algorithm.
    max_steps : int, default=100_000
    tol : float, optional
        The fit stops if dual - primal ≤ tol · primal. The default is 1e-6 for "pdhg",
        which converges linearly, and 1e-2 for "frank_wolfe", whose error is
        O(1/√steps).

    Returns
    -------
    Fit
        ``params`` is an ``EigDMLParams``. ``objective`` is the primal value. ``trace``
        has the best primal value after each step.

    Raises
    ------
    ValueError
        If there is no close or no far pair, a far pair has distance zero, H is
        singular, or pairs are counts.

    Examples
    --------
    Close pairs are 1 and 2 apart along the axes, and far pairs 2 and 4. The metric
    rescales the axes, and both far pairs have the squared distance 4:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import eig_dml
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 4.0]])
    >>> pairs = Pairs(X, np.zeros(4, int), np.arange(1, 5), y=np.array([1, 1, 0, 0]))
    >>> result = eig_dml.fit(pairs)
    >>> metric = eig_dml.to_metric(result.params)
    >>> round(float(result.objective), 3), np.diag(metric.matrix).round(3).tolist()
    (4.0, [1.0, 0.25])
    """
    run, default = {"frank_wolfe": (frank_wolfe, 1e-2), "pdhg": (pdhg, 1e-6)}[solver]
    # One thread for all steps: BLAS threads woken by one call spin during the next.
    with one_blas_thread(np.shape(data.X)[1]):
        problem = game(data, kappa=kappa, ridge=ridge)
        # Unit scale (largest ‖z‖ = 1, κ = 1), undone below in S and in both bounds.
        scale = float(np.max(np.sum(problem.Z**2, 1)))
        end = run(
            problem.Z / np.sqrt(scale),
            max_steps=max_steps,
            tol=default if tol is None else tol,
        )
        factor = back_transform(problem.kappa * end.S, problem.R)
    unit = problem.kappa * scale
    params = EigDMLParams(
        factor=factor,
        S=problem.kappa * end.S,
        u=end.u,
        primal=unit * end.primal,
        dual=unit * end.dual,
        gap=unit * (end.dual - end.primal),
    )
    code = Result.CONVERGED if end.certified else Result.MAX_STEPS
    return Fit.closed(params, params.primal)._replace(
        result=np.asarray(int(code)),
        n_steps=np.asarray(end.n_steps),
        n_evaluations=np.asarray(end.n_steps),
        trace=unit * end.trace,
    )


def to_metric(params: EigDMLParams) -> Mahalanobis:
    """Convert a fit to its metric.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import eig_dml
    >>> factor, u = np.diag([1.0, 0.5]), np.array([0.5, 0.5])
    >>> params = eig_dml.EigDMLParams(factor, np.eye(2), u, 4.0, 4.0, 0.0)
    >>> float(eig_dml.to_metric(params).distance([0.0, 0.0], [0.0, 4.0]))
    2.0
    """
    return Mahalanobis(params.factor)
