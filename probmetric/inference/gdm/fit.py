"""The posterior mode of the generalized dissimilarity model, with its certificate.

The mode maximizes the f of Eq. (1) of ``gdm.likelihood`` over β ≥ 0. f is strictly
concave, and minus its Hessian is at least Λ. So for any β ≥ 0 with gradient g and any
β* ≥ 0,

    f(β*) - f(β) ≤ Σ_j [g_j δ_j - ½ Λ_j δ_j²],   δ = β* - β ≥ -β.                 (1)

Each term is largest at δ_j = max(g_j/Λ_j, -β_j). The sum of these maxima is the *gap*.
For any β, it is an upper bound in nats on the difference between the global maximum and
f(β). The gap is zero only at the mode, where g_j = 0 or β_j = 0 > g_j.

``fit`` uses projected Newton steps (Bertsekas 1982) with gradient and Hessian of
``gdm.likelihood``. Entries at 0 with an outward gradient do not change. All other
entries take the Newton step and are truncated at 0. The step is halved until f
increases sufficiently.

References
----------
Bertsekas, "Projected Newton Methods for Optimization Problems with Simple Constraints",
SIAM J. Control and Optimization 20 (1982).
"""

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.special import xlogy

from probmetric.data.containers import Pairs
from probmetric.inference.gdm.likelihood import (
    LOG_HALF_NORMAL,
    Rows,
    in_float64,
    precisions,
    rows_of,
    to_beta,
    to_params,
    value_and_derivatives,
)
from probmetric.inference.solvers.result import Fit, Result
from probmetric.metric.splines import Coordinates
from probmetric.models.gdm import GDMParams, GDMPrior

SUFFICIENT, HALVINGS = 1e-4, 50
"""Share of the predicted rise that a step must reach; maximum number of halvings."""


def check_prior(prior: GDMPrior, d: int) -> None:
    """Raise ValueError for a wrong shape or order of knots, or scales ≤ 0."""
    knots, d = np.asarray(prior.knots), d - (prior.coordinates is not None)
    if knots.ndim != 2 or len(knots) != d or knots.shape[1] < 2:
        raise ValueError(
            f"knots must have shape ({d}, k) with k ≥ 2, got {knots.shape}."
        )
    valid = np.isfinite(knots).all(1) & (np.diff(knots, axis=1) >= 0).all(1)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(
            f"knots must be in ascending order in each row, got {knots[row].tolist()} "
            f"in row {row}."
        )
    for name in ("scale", "b_scale"):
        value = np.asarray(getattr(prior, name))
        if not (np.all(value > 0) and np.all(np.isfinite(value))):
            raise ValueError(f"prior.{name} must be > 0, got {value}.")


def knots_for(
    X: Float[np.ndarray, "n d"],
    n_splines: int = 3,
    coordinates: Coordinates | None = None,
) -> np.ndarray:
    """Return knots (d, n_splines) at quantiles of each covariate, as in R's gdm.

    The knots are the minimum, the maximum and evenly spaced quantiles between them. If
    ties make two knots equal, quantiles of the distinct values are used. A covariate
    with fewer distinct values than knots has evenly spaced knots. A constant covariate
    has equal knots and a flat curve.

    ``X`` (n, d) are the covariates of the sites, each site once. With ``coordinates``,
    the last row has quantiles of the distances between all sites.
    """
    X = np.asarray(X)
    if n_splines < 2:
        raise ValueError(f"n_splines must be at least 2, got {n_splines}.")
    if coordinates is not None:
        places = coordinates.places(X)
        i, j = np.triu_indices(len(X), 1)
        far = coordinates.apart(places[i], places[j])[:, None]
        covariates = X[:, coordinates.others(X.shape[1])]
        parts = (covariates, np.asarray(far))
        return np.concatenate([knots_for(part, n_splines) for part in parts])
    share = np.linspace(0, 1, n_splines)
    knots = np.quantile(X, share, axis=0).T
    for row, values in zip(knots, X.T, strict=True):
        if np.any(np.diff(row) <= 0):
            distinct = np.unique(values)
            row[:] = np.quantile(distinct, share)
            if len(distinct) < n_splines:
                low, high = distinct[0], distinct[-1]
                row[:] = low * (1 - share) + high * share
    return np.maximum.accumulate(knots, 1).astype(X.dtype)


def gap_at(
    beta: Float[np.ndarray, "q"],
    slope: Float[np.ndarray, "q"],
    precision: Float[np.ndarray, "q"],
) -> float:
    """Return the gap in nats, the bound in Eq. (1)."""
    move = np.maximum(slope / precision, -beta)
    return float(np.sum(slope * move - 0.5 * precision * move**2))


def climb(
    rows: Rows,
    precision: Float[np.ndarray, "q"],
    start: Float[np.ndarray, "q"],
    *,
    max_steps: int = 100,
    tol: float = 1e-12,
) -> tuple[np.ndarray, Result, list[float], float]:
    """Maximize f; return β, the result code, f after each step, and the gap.

    The start must have β ≥ 0, and t > 0 for every pair. The search stops at a gap below
    ``tol * max(1, |f|)`` nats.
    """
    beta, trace = np.array(start, float), list[float]()
    value, slope, H = value_and_derivatives(beta, rows, precision)
    gap = gap_at(beta, slope, precision)
    for _ in range(max_steps):
        if not np.isfinite(gap):
            return beta, Result.NONFINITE, trace, gap
        if gap <= tol * max(1.0, abs(value)):
            return beta, Result.CONVERGED, trace, gap
        move = _newton(beta, slope, H)
        for halving in range(HALVINGS):
            new = np.maximum(beta + 0.5**halving * move, 0.0)
            expansion = value_and_derivatives(new, rows, precision)
            # If values are equal up to rounding, the gap decides.
            nearer = gap_at(new, expansion[1], precision) < gap
            if expansion[0] >= value + SUFFICIENT * slope @ (new - beta) or (
                nearer and abs(expansion[0] - value) <= 1e-12 * max(1.0, abs(value))
            ):
                break
        else:
            return beta, Result.MAX_STEPS, trace, gap
        beta, (value, slope, H) = new, expansion
        gap = gap_at(beta, slope, precision)
        trace.append(value)
    done = gap <= tol * max(1.0, abs(value))
    return beta, Result.CONVERGED if done else Result.MAX_STEPS, trace, gap


def _newton(beta: np.ndarray, slope: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return Newton's step of the free entries; other entries move to 0."""
    # Entries near the edge with an outward gradient count as on it: otherwise halving
    # would make the whole step tiny.
    near = np.minimum(1e-3, np.linalg.norm(beta - np.maximum(beta + slope, 0)))
    free = ~((beta <= near) & (slope < 0))
    move = np.where(free, 0.0, -beta)
    if free.any():
        move[free] = cho_solve(cho_factor(H[np.ix_(free, free)]), slope[free])
    return move


def first(rows: Rows, q: int) -> Float[np.ndarray, "q"]:
    """Return equal starting values of b and θ that fit the share of shared units."""
    shared, other = rows.shared.sum(), rows.other.sum()
    t = -np.log((shared + 0.5) / (shared + other + 1.0))
    weight = (rows.shared + rows.other) @ rows.Z.sum(1) / max(shared + other, 1e-300)
    return np.full(q, t / max(float(weight), 1.0))


def fit(
    pairs: Pairs,
    prior: GDMPrior,
    *,
    learning_rate: float = 1.0,
    max_steps: int = 100,
    tol: float = 1e-12,
) -> Fit:
    """Fit the curves and the intercept: compute the unique posterior mode.

    Parameters
    ----------
    pairs : Pairs
        Pairs of sites. y is the number of shared units among ``trials``, or a label.
    prior : GDMPrior
        A proper prior, with the knots of the curves.
    learning_rate : float, default=1
        Power η on the likelihood.
    max_steps : int, default=100
    tol : float, default=1e-12
        The search stops if the estimated distance from the maximum is below ``tol *
        max(1, |f|)`` nats, where f is the log joint density.

    Returns
    -------
    Fit
        ``objective`` is the log joint density at the mode, including constants. The
        computation uses float64.

    Raises
    ------
    ValueError
        If the pairs have no y, the prior is flat, the prior and the pairs have
        different numbers of covariates, or the knots do not ascend.

    Examples
    --------
    Equal sites share half of their units, and distant sites share fewer:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import gdm
    >>> from probmetric.models.gdm import GDMPrior
    >>> i, j, y = np.array([[0, 0, 0], [0, 1, 2], [500, 184, 68]])  # e^{-1} a unit
    >>> trials = np.full(3, 1000)
    >>> pairs = Pairs(np.array([[0.0], [1.0], [2.0]]), i, j, y, trials=trials)
    >>> prior = GDMPrior(gdm.knots_for(pairs.X), scale=10.0)
    >>> params = gdm.fit(pairs, prior).params
    >>> round(float(params.b), 2), round(float(params.theta.sum()), 1)
    (0.69, 2.0)
    >>> gdm.gap(params, pairs, prior) < 1e-6
    True
    """
    X = np.asarray(pairs.X)
    check_prior(prior, X.shape[1])
    pairs = pairs._replace(X=X.astype(float))
    prior = in_float64(prior)
    rows, precision = rows_of(pairs, prior, learning_rate), precisions(prior)
    beta, result, trace, _ = climb(
        rows, precision, first(rows, len(precision)), max_steps=max_steps, tol=tol
    )
    value = value_and_derivatives(beta, rows, precision)[0]
    constants = np.sum(LOG_HALF_NORMAL + 0.5 * np.log(precision)) + rows.ways
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(float)
    params = to_params(beta, prior)
    return Fit(
        jax.tree.map(lambda value: np.asarray(value, dtype), params),
        np.asarray(value + constants, dtype),
        np.asarray(int(result)),
        np.asarray(len(trace)),
        np.asarray(len(trace) + 1),
        np.asarray(trace, dtype) + dtype.type(constants),
    )


def gap(
    params: GDMParams, pairs: Pairs, prior: GDMPrior, *, learning_rate: float = 1.0
) -> float:
    """Compute the gap in nats, an upper bound on the distance to the maximum, Eq. (1).

    ``params`` is the result of a fit. The other arguments are the arguments of ``fit``.
    """
    pairs = pairs._replace(X=np.asarray(pairs.X, float))
    rows = rows_of(pairs, in_float64(prior), learning_rate)
    precision, beta = precisions(prior), to_beta(params).astype(float)
    _, slope, _ = value_and_derivatives(beta, rows, precision)
    return gap_at(beta, slope, precision)


def deviance_explained(params: GDMParams, pairs: Pairs) -> float:
    """Compute the share of the deviance that a fit explains, at most 1.

    The null model has the same P for all pairs. (R's gdm reports this share in
    percent.) Deviances are binomial, with data weights and without the prior. If all
    pairs have the same share of shared units, the result is 0.
    """
    pairs = pairs._replace(X=np.asarray(pairs.X, float))
    rows = rows_of(pairs, params)
    shared, other = np.asarray(rows.shared), np.asarray(rows.other)
    total = shared + other
    share = np.divide(shared, total, out=np.zeros_like(total), where=total > 0)
    mean = shared.sum() / total.sum()

    def likelihood(P: np.ndarray | float) -> float:
        return float(np.sum(xlogy(shared, P) + xlogy(other, 1 - P)))

    saturated = likelihood(share)
    null = saturated - likelihood(mean)
    beta = to_beta(params).astype(float)
    fitted = saturated - value_and_derivatives(beta, rows, np.zeros(len(beta)))[0]
    return 1 - fitted / null if null > 0 else 0.0
