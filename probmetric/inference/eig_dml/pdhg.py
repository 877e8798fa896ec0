"""Restarted primal-dual hybrid gradient for the game of ``eig_dml.fit``.

The game is at unit scale (κ = 1). The solver uses unit vectors e_τ = z_τ/‖z_τ‖, because
the lengths of z_τ may differ by orders of magnitude. With m = min ‖z_τ‖², c_τ =
m/‖z_τ‖² in (0, 1] and w_τ = u_τ/c_τ,

    f*/m = max_S min_τ e_τᵀSe_τ / c_τ = min { λ_max(Σ w_τ e_τe_τᵀ) : w ≥ 0, cᵀw = 1 },

which lies in (0, 1]. With A(S)_τ = e_τᵀ S e_τ and its adjoint A*:

    w ← Π_c (w - s/ω A(S)),                     Π_c onto {w ≥ 0, cᵀw = 1},
    S ← Π_spectraplex (S + s ω A*(2w⁺ - w)),    s = 0.95 / ‖A‖,                    (10)

where the spectraplex projection projects the eigenvalues onto the simplex. The solver
also averages the iterates. From the better of the average and the last iterate, the
solver restarts in two cases: its gap is at most 0.3 of the gap at the last restart, or
the average covers half of the run. With restarts, convergence is linear for a game
whose solution is sharp. Each restart replaces ω by the geometric mean of ω and
‖ΔS‖/‖Δw‖, the distances since the last restart, as in PDLP. Without this update the
solver does not converge if the lengths of z differ by orders of magnitude.

‖A‖² = λ_max((EEᵀ)∘(EEᵀ)) is bounded from above without forming the matrix. As its
entries are not negative, max_τ (Bx)_τ / x_τ with Bx = A(A*(x)) is a bound for every x >
0 (Collatz-Wielandt).

Few far pairs are active. The solver therefore uses a working set of far pairs, at first
the pairs with the smallest a. The solver adds the most violated pairs until no pair is
violated. A dual point of the subset is also a dual point of all pairs, and the primal
bound is the minimum over all far pairs. Hence Eq. (5) of ``eig_dml.fit`` certifies the
full problem.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.inference.eig_dml.certificate import (
    Solution,
    dual_value,
    far_values,
    weighted_gram,
)

CHECK_EVERY = 20
"""Steps between two checks of the gap. A check is as expensive as a step."""

RESTART = 0.3
"""The solver restarts if the gap is below this share of the gap at the last restart."""


def project_simplex(
    v: Float[np.ndarray, "f"], c: Float[np.ndarray, "f"] | float = 1.0
) -> Float[np.ndarray, "f"]:
    """Project v onto {w ≥ 0, Σ c w = 1}, c > 0: max(v - θc, 0) by sorting v/c."""
    # For short arrays, methods and an addition are faster than NumPy's functions.
    costs = np.zeros_like(v) + c
    order = (-v / costs).argsort()
    falling, costs = v[order], costs[order]
    theta = ((costs * falling).cumsum() - 1) / (costs**2).cumsum()
    last = (falling > theta * costs).nonzero()[0][-1]
    return np.maximum(v - theta[last] * c, 0)


def project_spectraplex(S: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """Project the symmetric S onto {S ⪰ 0, tr S = 1}."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    return (vectors * project_simplex(values)) @ vectors.T


def operator_norm(Z: Float[np.ndarray, "f d"]) -> float:
    """Compute an upper bound on ‖A‖, within 2% if 100 products are sufficient."""
    x = np.ones(len(Z), Z.dtype)
    upper = np.inf
    for _ in range(100):
        image = far_values(Z, weighted_gram(Z, x))
        upper = min(upper, float(np.max(image / x)))
        if upper <= 1.02**2 * float(x @ image / (x @ x)):
            break
        # Keep x > 0 in floating point: a lower limit only loosens the bound.
        x = np.maximum(image / image.max(), np.finfo(Z.dtype).eps)
    return float(np.sqrt(upper))


LONGEST = 1000
"""Minimum length of an average for the restart at half of the run."""


class _State(NamedTuple):
    """A point of the game with both bounds, in units of m."""

    S: Float[np.ndarray, "d d"]
    w: Float[np.ndarray, "f"]
    primal: float
    dual: float


def _at(E: np.ndarray, c: np.ndarray, S: np.ndarray, w: np.ndarray) -> _State:
    return _State(S, w, float((far_values(E, S) / c).min()), dual_value(E, w))


def _rebalanced(omega: float, old: _State, new: _State) -> float:
    """Compute the geometric mean of ω and ‖ΔS‖/‖Δw‖, or ω if nothing moved."""
    moved_S = float(np.linalg.norm(new.S - old.S))
    moved_w = float(np.linalg.norm(new.w - old.w))
    still = np.finfo(new.S.dtype).eps
    if min(moved_S, moved_w) <= still:
        return omega
    return float(np.sqrt(omega * moved_S / moved_w))


def _play(
    E: np.ndarray, c: np.ndarray, start: _State, max_steps: int, tol: float
) -> tuple[_State, int]:
    """Solve one game from a start (Eq. 10); return the best bounds and the steps."""
    step, omega = 0.95 / operator_norm(E), 1.0
    S, w, origin = start.S, start.w, start
    best, at_restart = start, start.dual - start.primal
    sum_S, sum_w, averaged = np.zeros_like(S), np.zeros_like(w), 0
    for t in range(max_steps):
        w_next = project_simplex(w - step / omega * far_values(E, S), c)
        extrapolated = 2 * w_next - w
        S = project_spectraplex(S + step * omega * (E * extrapolated[:, None]).T @ E)
        w = w_next
        sum_S += S
        sum_w += w
        averaged += 1
        if (t + 1) % CHECK_EVERY and t + 1 < max_steps:
            continue
        last, mean = _at(E, c, S, w), _at(E, c, sum_S / averaged, sum_w / averaged)
        for point in (last, mean):
            if point.primal > best.primal:
                best = best._replace(S=point.S, primal=point.primal)
            if point.dual < best.dual:
                best = best._replace(w=point.w, dual=point.dual)
        if best.dual - best.primal <= tol * best.primal:
            return best, t + 1
        better = min(last, mean, key=lambda p: p.dual - p.primal)
        fallen = better.dual - better.primal <= RESTART * at_restart
        if fallen or averaged >= max(LONGEST, (t + 1) // 2):
            S, w, at_restart = better.S, better.w, better.dual - better.primal
            omega = _rebalanced(omega, origin, better)
            origin = better
            sum_S, sum_w, averaged = np.zeros_like(S), np.zeros_like(w), 0
    return best, max_steps


def pdhg(Z: Float[np.ndarray, "f d"], *, max_steps: int, tol: float) -> Solution:
    """Solve the game by restarted PDHG to a relative gap of ``tol``.

    No row of Z is zero. ``max_steps`` is the total over all working sets. The solver
    stops if dual - primal ≤ tol · primal, with both bounds recomputed over all pairs.
    """
    n_far, d = Z.shape
    squared = np.sum(Z**2, 1)
    unit = float(squared.min())
    E, c = Z / np.sqrt(squared)[:, None], unit / squared
    S = np.eye(d, dtype=Z.dtype) / d
    active = np.argsort(squared, kind="stable")[: 10 * d]
    w = np.full(len(active), 1 / c[active].sum(), Z.dtype)
    best_S, primal = S, float(far_values(Z, S).min())
    best_u = np.full(n_far, 1 / n_far, Z.dtype)
    dual = dual_value(Z, best_u)
    taken, trace = 0, np.empty(max_steps, Z.dtype)
    while taken < max_steps:
        start = _at(E[active], c[active], S, w)
        end, steps = _play(E[active], c[active], start, max_steps - taken, tol / 2)
        S, w = end.S, end.w
        a = far_values(Z, S)
        if a.min() > primal:
            best_S, primal = S, float(a.min())
        u = np.zeros(n_far, Z.dtype)
        u[active] = w * c[active]
        u /= u.sum()
        ceiling = dual_value(Z, u)
        if ceiling < dual:
            best_u, dual = u, ceiling
        trace[taken : taken + steps] = primal
        taken += steps
        if dual - primal <= tol * primal:
            return Solution(best_S, best_u, primal, dual, True, taken, trace[:taken])
        outside = np.setdiff1d(np.arange(n_far), active)
        violated = outside[a[outside] < unit * end.primal]
        added = violated[np.argsort(a[violated], kind="stable")[: 10 * d]]
        active = np.concatenate([active, added])
        w = np.concatenate([w, np.zeros(len(added), Z.dtype)])
    return Solution(best_S, best_u, primal, dual, False, max_steps, trace)
