"""Fit Latent Coincidence Analysis: starts, solvers and the mode.

References
----------
Der and Saul, "Latent Coincidence Analysis", NIPS 2012 (seed 000). The docstrings name
the errors of the paper ("erratum") where these files differ from it.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import qr

from probmetric.data.containers import Pairs, checked_rows
from probmetric.data.scaling import constant_columns
from probmetric.inference.lca.em import full_step, reduced_step, spectrum
from probmetric.inference.lca.likelihood import to_params
from probmetric.inference.lca.mode import maximize, pool
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.models.lca import LCAParams, LCAPrior, log_b_of
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

type Solver = Literal["lbfgs", "em", "full_em"]


def scaled_identity(
    pairs: Pairs, n_components: int | None = None
) -> tuple[Float[Array, "p d"], float]:
    """Return W₀ = c·I (p, d) and c = 1/√(median ‖δ‖² over the y = 1 pairs with δ ≠ 0).

    A prior centered at W₀ shrinks the metric to the Euclidean metric in units of the
    link. Raises ValueError if no y = 1 pair has δ ≠ 0.
    """
    d = np.shape(pairs.X)[1]
    p = d if n_components is None else n_components
    return _scaled(np.eye(p, d), pairs)


def scaled_pca(pairs: Pairs, n_components: int) -> tuple[Float[Array, "p d"], float]:
    """Return W₀ = c·V_pᵀ of the leading principal axes of the points, and c.

    c = 1/√(median ‖V_pᵀδ‖² over the y = 1 pairs with V_pᵀδ ≠ 0). The largest entry of
    each axis is positive. Axes beyond the rank of the points are orthogonal to the
    others, close to single features, and do not depend on the order of the points.
    """
    return scaled_axes(principal_axes(np.asarray(pairs.X), n_components), pairs)


def principal_axes(
    X: Float[np.ndarray, "n d"], n_components: int
) -> Float[np.ndarray, "p d"]:
    """Return the leading principal axes of points, orthonormal rows."""
    s, V = np.linalg.svd(X - X.mean(0), full_matrices=False)[1:]
    rank = int((s > s[0] * max(X.shape) * np.finfo(s.dtype).eps).sum())
    axes = V[: min(rank, n_components)]
    if n_components > rank:
        complement = np.eye(X.shape[1]) - axes.T @ axes
        more = np.asarray(qr(complement, pivoting=True)[0])[:, : n_components - rank]
        axes = np.concatenate([axes, more.T])
    return axes


def scaled_within(
    pairs: Pairs,
    codes: Int[np.ndarray, "n"],
    power: float = 1.0,
    n_components: int | None = None,
    groups: Int[np.ndarray, "n"] | None = None,
) -> tuple[Float[Array, "p d"], float]:
    """Return W₀ = a·V_p S^(-g/2), with S the within-class covariance, and c.

    With ``power`` g = 1, a prior centered at W₀ shrinks the metric to the Mahalanobis
    distance of S (the metric of RCA). With g = 0, W₀ is the same as in
    ``scaled_identity``. S is the scatter about the class means, shrunk toward a
    multiple of the identity by Ledoit and Wolf's estimate (Journal of Multivariate
    Analysis 88, 2004). One additional isotropic point prevents a singular S. Constant
    columns are left out of S. For this estimate, a group counts as one point.

    The rows of V_p are the p leading principal axes of the points S^(-g/2)x. If p = d,
    V_p is the identity. The scale a is chosen such that the median ‖W₀δ‖² over the y =
    1 pairs with W₀δ ≠ 0 is 1. As for every prior mean given as a matrix, c = ‖W₀‖/√p.
    """
    X, codes = np.asarray(pairs.X), np.asarray(codes)
    axes = within_axes(X, codes, power, n_components, groups)
    W0, _ = _scaled(axes, pairs)
    return W0, float(np.linalg.norm(W0) / np.sqrt(len(W0)))


def within_axes(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    power: float,
    n_components: int | None = None,
    groups: Int[np.ndarray, "n"] | None = None,
) -> Float[np.ndarray, "p d"]:
    """Return V_p S^(-g/2) of ``scaled_within``, up to scale."""
    (A,) = whitenings(X, codes, [power], groups)
    if n_components is None or n_components == len(A):
        return A
    axes = principal_axes(X @ A, n_components)
    return np.asarray(row_signs(axes) * axes @ A)


def whitenings(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    powers: Sequence[float],
    groups: Int[np.ndarray, "n"] | None = None,
) -> list[Float[np.ndarray, "d d"]]:
    """Return S^(-g/2) of ``scaled_within`` for each g of ``powers``, up to scale."""
    live = ~constant_columns(X)
    values, rest, axes = _within(X[:, live], codes, groups, int(live.sum()))
    maps: list[np.ndarray] = []
    for g in powers:
        low, high = rest ** (-g / 2), values ** (-g / 2)
        inner = low * np.eye(live.sum()) + (axes.T * (high - low)) @ axes
        A = np.eye(len(live)) * np.linalg.norm(inner) / np.sqrt(max(live.sum(), 1))
        A[np.ix_(live, live)] = inner
        maps.append(A)
    return maps


def whitened(
    X: Float[np.ndarray, "n d"],
    rows: Int[np.ndarray, "l"],
    codes: Int[np.ndarray, "n"],
    powers: Sequence[float],
    groups: Int[np.ndarray, "n"] | None = None,
) -> Iterator[Float[np.ndarray, "n q"]]:
    """Yield the images of X under ``whitenings`` of some rows, up to a rotation."""
    live = ~constant_columns(X[rows])
    groups = None if groups is None else groups[rows]
    Z, d = X[:, live], max(int(live.sum()), 1)
    if len(Z) < d:  # n coordinates with the same inner products.
        Z = np.linalg.qr(Z.T, mode="r").T
    values, rest, axes = _within(Z[rows], codes[rows], groups, d)
    inside = Z @ axes.T
    outside = Z - inside @ axes if len(values) < d else Z[:, :0]
    for g in powers:
        low, high = rest ** (-g / 2), values ** (-g / 2)
        dead = np.sqrt((low**2 * (d - len(values)) + np.sum(high**2)) / d)
        yield np.hstack([inside * high, outside * low, X[:, ~live] * dead])


def _within(
    X: np.ndarray, codes: np.ndarray, groups: np.ndarray | None, d: int
) -> tuple[np.ndarray, float, Float[np.ndarray, "r q"]]:
    """Return Ledoit and Wolf's S in d dimensions: eigenpairs, and its value off them.

    The points have q coordinates: all d, or fewer that contain the points.
    """
    n = len(X)
    spread = np.empty_like(X)
    for code in np.unique(codes):
        spread[codes == code] = X[codes == code] - X[codes == code].mean(0)
    if not (size := np.abs(spread).max(initial=0.0)) > 0:
        return np.ones(0), 1.0, np.zeros((0, X.shape[1]))
    spread = spread / size  # Rescale so that squares neither overflow nor underflow.
    wide = n < d
    values, axes = np.linalg.eigh(spread @ spread.T if wide else spread.T @ spread)
    there = values > values[-1] * max(n, d) * np.finfo(float).eps
    values, axes = values[there][::-1], axes[:, there][:, ::-1]
    axes = (axes.T @ spread) / np.sqrt(values)[:, None] if wide else axes.T
    values = values / n
    mean = values.sum() / d
    apart = (np.sum(values**2) - d * mean**2) / d
    noise = np.sum(np.sum(spread**2, 1) ** 2) / n - np.sum(values**2)
    n = n if groups is None else len(np.unique(groups))
    share = min(noise / (n * d * apart), 1.0) if apart > 0 else 0.0
    values = n * (1 - share) * values + (n * share + 1) * mean
    rest = values[-1] if len(values) == d else (n * share + 1) * mean
    return values / values[0], float(rest / values[0]), axes


def scaled_axes(
    axes: Float[np.ndarray, "p d"], pairs: Pairs
) -> tuple[Float[Array, "p d"], float]:
    """Return W₀ = c·V_pᵀ and c for given orthonormal axes; see ``scaled_pca``."""
    return _scaled(row_signs(axes) * axes, pairs)


def _scaled(W0: Array, pairs: Pairs) -> tuple[Array, float]:
    """Return c W₀ and c = 1/√(median ‖W₀δ‖² over the y = 1 pairs with W₀δ ≠ 0)."""
    pairs = checked_rows(pairs)
    X, i, j = (np.asarray(a) for a in (pairs.X, pairs.i, pairs.j))
    times = np.asarray(pairs.y, int)  # A count y is equivalent to y pairs with y = 1.
    if pairs.w is not None:
        times = times * (np.asarray(pairs.w) > 0)
    used = times > 0
    i, j = i[used], j[used]
    if len(X) < len(i):  # Points are projected and then subtracted: fewer products.
        Z = (X - X.mean(0)) @ W0.T
        apart = Z[i] - Z[j]
    else:
        apart = (X[i] - X[j]) @ W0.T
    median = _median(np.sum(apart**2, 1), times[used])
    if not median > 0:
        raise ValueError(
            "pairs: at least one pair with y = 1 must have two different points, got "
            f"equal points in all {int(used.sum())} such pairs. The scale of the "
            "prior is computed from these pairs. Add pairs of different points with "
            "y = 1."
        )
    c = 1 / np.sqrt(median)
    return c * W0, float(c)


def _median(values: np.ndarray, times: np.ndarray) -> float:
    order = np.argsort(values)
    order = order[values[order] > 0]
    if not len(order):
        return 0.0
    ends = np.cumsum(times[order])
    middle = np.searchsorted(ends, [(ends[-1] - 1) // 2, ends[-1] // 2], side="right")
    return float(values[order[middle]].mean())


def check_prior(prior: LCAPrior) -> None:
    """Raise ValueError if the prior of W is proper and centered at zero."""
    if np.all(np.asarray(prior.lam) > 0) and not np.any(np.asarray(prior.mean)):
        raise ValueError(
            "prior.mean must not be zero with lam > 0, got zeros. A prior with mean "
            "zero only makes all distances smaller. Use a multiple of the identity "
            "matrix, or principal components of the points."
        )


@numpy_in_numpy_out
def fit(
    pairs: Pairs,
    prior: LCAPrior,
    *,
    init: LCAParams | None = None,
    solver: Solver = "lbfgs",
    learning_rate: float = 1.0,
    max_steps: int = 500,
    tol: float | None = None,
) -> Fit:
    """Fit LCA: maximize the log joint density of the labels and (W, log b).

    W (p, d) is the linear map, and b is -log P(same) at distance 0.

    Parameters
    ----------
    pairs : Pairs
        Labeled pairs. Under a flat prior both labels must occur with positive weight;
        otherwise the likelihood has no maximum.
    prior : LCAPrior
        Prior of W and b. Use ``LCAPrior(mean, lam=0, b_shape=0, b_rate=0)`` for maximum
        likelihood.
    init : LCAParams, optional
        Starting values. Default: the prior mean of W, and b = 0.3. W must have full
        rank, because EM never raises the rank of W, and W = 0 is a saddle point.
    solver : {"lbfgs", "em", "full_em"}, default="lbfgs"
        - "lbfgs": L-BFGS on the log joint density.
        - "em": reduced EM.
        - "full_em": corrected EM of the paper (slow, for reference).
    learning_rate : float, default=1
        Power on the likelihood.
    max_steps : int, default=500
        Maximum number of iterations.
    tol : float, optional
        L-BFGS stops if an iteration increases the log density by less than ``tol`` nats
        (default 1e-8). The EM solvers stop at an estimated relative distance from the
        maximum (default √eps of the precision).

    Returns
    -------
    Fit
        ``result`` is the outcome of the solver. The optimum is local in general. If p =
        d and the prior is flat, it is global (``lca.curvature.certificate``).

    Raises
    ------
    ValueError
        If the solver is unknown, or ``lam > 0`` and the prior of W is centered at zero.

    Examples
    --------
    Under a flat prior, P(same) at each distance is the share of judgments *same*:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAPrior, to_metric
    >>> X, i, j = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0]), np.array([1, 2])
    >>> pairs = Pairs(X, i, j, y=np.array([4, 1]), trials=np.array([8, 8]))
    >>> flat = LCAPrior(np.eye(1), lam=0.0, b_shape=0.0, b_rate=0.0)
    >>> metric = to_metric(lca.fit(pairs, flat).params)
    >>> metric.same_probability(X[i], X[j]).round(3).tolist()
    [0.5, 0.125]
    """
    if solver not in ("lbfgs", "em", "full_em"):
        raise ValueError(f"solver must be 'lbfgs', 'em' or 'full_em', got {solver!r}.")
    check_prior(prior)
    W = np.asarray(prior.mean if init is None else init.W)
    log_b = (
        np.log(0.3) if init is None else log_b_of(np.asarray(init.log_sigma2), len(W))
    )
    start: Arrays = {"W": W, "log_b": np.asarray(log_b, W.dtype)}
    prior = LCAPrior(*(np.asarray(v, W.dtype) for v in prior))
    if solver == "lbfgs":
        tol = 1e-8 if tol is None else tol
        data = pool(pairs), prior, learning_rate
        return jax.device_put(maximize(*data, start, max_steps=max_steps, tol=tol))
    stats = prepare(pairs)
    result = run_em(
        full_step if solver == "full_em" else reduced_step,
        start,
        (
            stats,
            prior,
            np.asarray(learning_rate, W.dtype),
            spectrum(stats.S if solver == "full_em" else stats.T),
        ),
        max_steps=max_steps,
        tol=tol,
    )
    # On the host, which compiles nothing.
    at = {**result.params, "log_b": np.asarray(result.params["log_b"])}
    return result._replace(params=to_params(at))
