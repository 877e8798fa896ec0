"""Pair LDA: a metric in closed form from close and far pairs.

C̄ and F̄ are the mean outer products (d, d) of close and far differences
(``second_moments``). The differences come from explicit pairs or from all pairs of
labeled points. Let C_α = C̄ + αI. α > 0 makes C_α invertible, and acts as a prior,
because α is the least variance in every direction. The four metrics are positive
semi-definite:

    generalized   F̄ u = λ C_α u,  UᵀC_αU = I,   M = U diag(g(λ)) Uᵀ               (1)
                  g = 1 for the k largest λ ("one"), or (λ-1)₊ ("excess"),
                  or (log λ)₊ ("log");
    kissme        M = Π(C_α⁻¹ - F_α⁻¹), Π the nearest positive semi-definite
                  matrix: the log likelihood ratio of far against close            (2)
    rca           M = C_α⁻¹                                                        (3)
    notes         M = K⁻¹, K = αI + C̄ - F̄, only if K is positive definite,
                  i.e. α > α_min = λ_max(F̄ - C̄)                                    (4)

A prior that counts as s points shrinks C̄ and F̄ to isotropic matrices on the same
scale. With explicit pairs, n and s count pairs. With c = tr C̄/d, f = tr F̄/d, n
points, and before α is added,

    C̄ ← (n C̄ + s c I)/(n + s),   F̄ ← (n F̄ + s f₀ I)/(n + s),                     (5)

with f₀ = max(f, 1.01 (c + α)), or f₀ = f for (4). As s grows, every metric converges to
a multiple of the identity. ``choose_strength`` chooses s by the votes of neighbors.
Each metric can be truncated to its k largest directions. If g = 1 and k = d, Eq. (1)
equals Eq. (3).

Errata of seed 003. P9: for the notes' "small α" K is indefinite. As f - c rises to α,
an eigenvalue 1/(α + c - f) of M grows to +∞, and beyond α it is negative. The most
discriminating directions get negative weight, "top k" drops them, and distances become
imaginary. The fit therefore raises an error. P10: M_k = AᵀA, A = Λ_k^½ V_kᵀ, V_k (d,
k).

There is no generative model of pairs, and no NumPyro model. The computation is a d × d
eigenproblem in NumPy and SciPy.

References
----------
Köstinger et al., "Large scale metric learning from equivalence constraints", CVPR 2012
(KISSME).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, eigh

from probmetric.data.containers import Labeled, Pairs, weights
from probmetric.data.pairs import as_labels
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.inference.lda import coordinates
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.neighbors.strength import STRENGTHS, Chosen
from probmetric.typing import Array

__all__ = [
    "PairLDAParams",
    "SecondMoments",
    "choose_strength",
    "fit",
    "second_moments",
    "to_metric",
]

INFINITE = 1e9
"""Weight of a prior of infinite strength, relative to the data.

The weight is finite, because the moments still decide which k < d rows remain.
"""


class SecondMoments(NamedTuple):
    """Mean outer products of close and of far differences, C̄ and F̄ (d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import pair_lda
    >>> moments = pair_lda.SecondMoments(close=np.eye(2), far=np.diag([9.0, 1.0]))
    >>> result = pair_lda.fit(moments, alpha=0.0, n=100)
    >>> result.params.values.tolist()  # Far over close variance, if above 1
    [9.0]
    """

    close: Float[np.ndarray, "d d"]
    far: Float[np.ndarray, "d d"]


def second_moments(data: Pairs | Labeled) -> SecondMoments:
    """Compute C̄ and F̄, the weighted means of δδᵀ over close and over far pairs.

    Labeled points represent all pairs of these points, with weights w_i w_j. Pairs
    within a class are close. The cost is O(n d²), because Σ w_i w_j δδᵀ = (Σ w) ·
    scatter over all pairs of a set.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> close, far = pair_lda.second_moments(Labeled(X, y))
    >>> close.tolist(), far.tolist()  # 1², and (3² + 2²)/2
    ([[1.0]], [[6.5]])
    """
    data = data if isinstance(data, Labeled) else as_labels(data)
    X = np.asarray(data.X)
    y, w = np.asarray(data.y), np.asarray(weights(data))
    if isinstance(data, Labeled):
        sums = [_all_pairs(X[y == c], w[y == c]) for c in np.unique(y)]
        everything = _all_pairs(X, w)
        close, near = np.sum([s[0] for s in sums], 0), sum(s[1] for s in sums)
        far, apart = everything[0] - close, everything[1] - near
    else:
        delta = X[np.asarray(data.i)] - X[np.asarray(data.j)]
        near, apart = float(w[y == 1].sum()), float(w[y != 1].sum())
        close = (delta[y == 1] * w[y == 1, None]).T @ delta[y == 1]
        far = (delta[y != 1] * w[y != 1, None]).T @ delta[y != 1]
    mean = _means(close, near, far, apart)
    return SecondMoments(*(M.astype(X.dtype) for M in mean))


def class_second_moments(
    stats: ClassStatistics, squares: Float[Array, "c"]
) -> SecondMoments:
    """Compute C̄ and F̄ over all pairs of points from class statistics and Σw² (c,)."""
    n, S = np.asarray(stats.n), np.asarray(stats.scatter)
    N, q = n.sum(), np.asarray(squares)
    about = np.asarray(stats.mean) - n @ np.asarray(stats.mean) / N
    close, near = np.einsum("c,cij->ij", n, S), (n @ n - q.sum()) / 2
    # Between classes: Σ_{b<c} (n_b S_c + n_c S_b + n_b n_c gap gapᵀ), all terms ≥ 0.
    far = np.einsum("c,cij->ij", N - n, S) + N * ((about.T * n) @ about)
    apart = (N**2 - n @ n) / 2
    return _means(close, float(near), far, float(apart))


def _means(
    close: np.ndarray, near: float, far: np.ndarray, apart: float
) -> SecondMoments:
    if min(near, apart) <= 0:
        raise ValueError(
            "y must contain a close pair (1) and a far pair (0) with weight above 0, "
            f"got total weights {near:g} and {apart:g}. Add the missing pairs."
        )
    return SecondMoments(close / near, far / apart)


def _all_pairs(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum w_i w_j δδᵀ and w_i w_j over all pairs i < j of a set."""
    total = float(w.sum())
    centered = X - (w @ X) / total if total > 0 else X
    scatter = (centered * w[:, None]).T @ centered
    return total * scatter, (total**2 - float(w @ w)) / 2


type Method = Literal["generalized", "kissme", "rca", "notes"]
type Weighting = Literal["log", "excess", "one"]


class PairLDAParams(NamedTuple):
    """The learned metric.

    Attributes
    ----------
    factor : array of shape (k, d)
        Factor L with LᵀL = M, rows by descending value. Each row is identified up to
        its sign.
    values : array of shape (k,)
        For ``method="generalized"``, the ratios λ of far to close variance along the
        rows. Otherwise the eigenvalues of M.
    negative_share : float
        For ``method="kissme"``, Σ|negative| / Σ|all| of the eigenvalues before the
        projection Π, Eq. (2). Zero for other methods.
    """

    factor: Float[Array, "k d"]
    values: Float[Array, "k"]
    negative_share: float = 0.0


def alpha_min(close: Float[Array, "d d"], far: Float[Array, "d d"]) -> float:
    """Compute λ_max(F̄ - C̄), the bound that α must exceed for ``method="notes"``."""
    return float(eigh(np.asarray(far) - np.asarray(close), eigvals_only=True)[-1])


def _against(far: np.ndarray, close: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve F u = λ C u with UᵀCU = I, in order of descending λ; U in columns."""
    spectrum = eigh(close, eigvals_only=True)
    message = (
        "alpha must be large enough to make the second moments of close pairs "
        "invertible, got a singular matrix. Differences of close pairs do not span "
        "all directions. Set alpha=0.01"
    )
    if spectrum[0] <= 10 * len(close) * np.finfo(close.dtype).eps * spectrum[-1]:
        raise ValueError(message)
    try:
        values, vectors = eigh(far, close)
    except LinAlgError as error:
        raise ValueError(message) from error
    return values[::-1], vectors[:, ::-1]


def _factor(values: np.ndarray, vectors: np.ndarray) -> Array:
    """Compute the rows √value · vectorᵀ; the largest entry of each row is positive."""
    rows = (np.sqrt(values) * vectors).T
    return row_signs(rows) * rows


def _generalized(
    close: np.ndarray, far: np.ndarray, k: int | None, weighting: Weighting
) -> PairLDAParams:
    """Solve Eq. (1); by default keep all directions of larger far variance (λ > 1)."""
    values, U = _against(far, close)
    wider = int(np.sum(values > 1))
    keep = wider if k is None else k if weighting == "one" else min(k, wider)
    if keep == 0:
        raise ValueError(
            "pairs: far pairs (y = 0) must be farther apart than close pairs (y = 1) "
            "in some direction, got mean squared differences that are at most "
            f"{values[0]:.3g} times as large. Check that y is 1 for close pairs."
        )
    values, U = values[:keep], U[:, :keep]
    if weighting == "one":
        g = np.ones_like(values)
    else:
        g = np.log(values) if weighting == "log" else values - 1
    order = np.argsort(-g, kind="stable")
    return PairLDAParams(_factor(g[order], U[:, order]), values[order])


def _cut(M: np.ndarray, k: int | None) -> PairLDAParams:
    values, vectors = eigh(M)
    values, vectors = values[::-1], vectors[:, ::-1]
    share = float(-values[values < 0].sum() / np.abs(values).sum())
    positive = int(np.sum(values > len(M) * np.finfo(M.dtype).eps * values[0]))
    if values[0] <= 0:
        raise ValueError(
            "pairs: far pairs (y = 0) must be farther apart than close pairs (y = 1) "
            "in some direction, got no positive eigenvalue of M. Check that y is 1 "
            "for close pairs."
        )
    keep = positive if k is None else min(k, positive)
    return PairLDAParams(
        _factor(values[:keep], vectors[:, :keep]), values[:keep], share
    )


def fit(
    data: Pairs | Labeled | SecondMoments,
    n_components: int | None = None,
    *,
    method: Method = "generalized",
    alpha: float | int = 0.01,
    weighting: Weighting = "log",
    prior_strength: float | int = 0.0,
    n: float | int | None = None,
) -> Fit:
    """Fit a metric to close and far pairs in closed form, Eqs. (1)-(5).

    Parameters
    ----------
    data : Pairs, Labeled or SecondMoments
        Pairs with y = 1 for close and 0 for far pairs. Labeled points represent all
        their pairs. Second moments require ``n``.
    n_components : int, optional
        Largest number k of rows, 1 to d. M may have fewer positive eigenvalues and
        rows.
    method : {"generalized", "kissme", "rca", "notes"}, default="generalized"
        Metric to compute, Eqs. (1)-(4) in this order.
    alpha : float, default=0.01
        Ridge α ≥ 0 added to the mean outer products of differences, in their units.
    weighting : {"log", "excess", "one"}, default="log"
        Weights g of the directions in Eq. (1).
    prior_strength : float, default=0
        Strength s ≥ 0 of the prior, Eq. (5), in units of points (or of explicit pairs).
        ∞ is computed as ``INFINITE`` · n.
    n : float, optional
        Weight of the data, in the same units as s. The default is the total weight of
        the points, or of explicit pairs.

    Returns
    -------
    Fit
        ``params`` is a ``PairLDAParams``. ``objective`` is the mean squared distance of
        far pairs minus the mean squared distance of close pairs, under M.

    Raises
    ------
    ValueError
        If labels are missing, if α is 0 and the differences of close pairs do not span
        all dimensions, if far pairs are in no direction farther apart than close pairs,
        or if α ≤ α_min of Eq. (4) with ``method="notes"``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> result = pair_lda.fit(Labeled(X, y), alpha=0.0, weighting="one")
    >>> result.params.values.round(6).tolist()  # Mean squares: 6.5 far, over 1 close
    [6.5]
    """
    if isinstance(data, SecondMoments):
        close, far = data
        if n is None:
            raise ValueError(
                "n must be the number of points if data are second moments, got "
                "None. Pass n."
            )
    else:
        close, far = second_moments(data)
        n = float(np.sum(weights(data))) if n is None else n
    close, far = _shrunk(close, far, n, prior_strength, alpha, method)
    params = _solve(close, far, n_components, method, alpha, weighting)
    L = params.factor
    return Fit.closed(params, np.sum((L @ (far - close)) * L))


def _shrunk(
    close: np.ndarray,
    far: np.ndarray,
    n: float | int,
    strength: float | int,
    alpha: float | int,
    method: Method,
    n_features: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink C̄ and F̄, Eq. (5); pass d as ``n_features`` in a span of points."""
    if strength == 0:
        return close, far
    s, d = INFINITE * n if np.isinf(strength) else strength, n_features or len(close)
    c, f = np.trace(close) / d, np.trace(far) / d
    f = f if method == "notes" else max(f, 1.01 * (c + alpha))
    w, eye = s / (n + s), np.eye(len(close), dtype=close.dtype)
    return (1 - w) * close + w * c * eye, (1 - w) * far + w * f * eye


def choose_strength(
    data: Labeled,
    n_components: int | None = None,
    *,
    pairs: Callable[[Labeled], Pairs | Labeled] = lambda data: data,
    method: Method = "generalized",
    alpha: float | int = 0.01,
    weighting: Weighting = "log",
) -> Chosen:
    """Choose the strength s of the prior, Eq. (5), by cross-validation.

    The loss is the log loss of the votes of neighbors.

    Parameters
    ----------
    data : Labeled
        Unweighted points.
    pairs : callable, optional
        Function from a subset of the data to its pairs. Default: all pairs.
    n_components, method, alpha, weighting
        See ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import pair_lda
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 2)) * [1.0, 50.0]  # The second feature is wide,
    >>> X[:, 0] += 6 * y  # and the first separates the classes.
    >>> chosen = pair_lda.choose_strength(Labeled(X, y))
    >>> chosen.strength, chosen.losses[[0, -1]].round(2).tolist()  # At s = ∞ and s = 1
    (1.0, [0.62, 0.01])
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    A, d = X, X.shape[1]
    if len(X) < d and n_components is None:  # Directions that no point has are unused.
        A = coordinates(X, np.eye(d))

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        moments = second_moments(pairs(Labeled(A[rows], y[rows])))
        return [factor(*moments, len(rows), s) for s in STRENGTHS]

    def factor(
        close: np.ndarray, far: np.ndarray, n: int, s: float
    ) -> np.ndarray | None:
        shrunk = _shrunk(close, far, n, s, alpha, method, d)
        try:
            params = _solve(*shrunk, n_components, method, alpha, weighting)
        except ValueError:  # Far pairs are farther apart in no direction.
            return None
        return A @ np.asarray(params.factor).T

    return choose_by_folds(learn, X, y, images=True)


def _solve(
    close: np.ndarray,
    far: np.ndarray,
    n_components: int | None,
    method: Method,
    alpha: float | int,
    weighting: Weighting,
) -> PairLDAParams:
    ridge = alpha * np.eye(len(close), dtype=close.dtype)
    if method == "generalized":
        return _generalized(close + ridge, far, n_components, weighting)
    if method == "kissme":
        values, U = _against(far + ridge, close + ridge)
        if values[-1] <= 0:
            raise ValueError(
                "alpha must be above 0 if both points of every far pair (not same) are "
                f"equal in some direction, got {alpha:.6g}. Set alpha=0.01."
            )
        # C_α⁻¹ = UUᵀ and F_α⁻¹ = U diag(1/λ) Uᵀ: no inverse is formed.
        return _cut((U * (1 - 1 / values)) @ U.T, n_components)
    K = close + ridge if method == "rca" else close + ridge - far
    least = alpha_min(close, far) if method == "notes" else 0.0
    values, vectors = eigh(K)
    if values[0] <= 10 * len(K) * np.finfo(K.dtype).eps * abs(values[-1]):
        if method == "rca":
            _against(far, K)  # raises: C̄ + αI is singular
        raise ValueError(
            f"alpha must be above {least:.6g} for method='notes' and these pairs, got "
            f"{alpha:.6g}. Set a larger alpha, or use method='generalized' or "
            "'kissme'."
        )
    keep = len(K) if n_components is None else n_components
    inverse = 1 / values[:keep]
    return PairLDAParams(_factor(inverse, vectors[:, :keep]), inverse)


def to_metric(params: PairLDAParams) -> Mahalanobis:
    """Convert a fit to its metric.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import pair_lda
    >>> params = pair_lda.PairLDAParams(np.array([[2.0, 0.0]]), values=np.array([9.0]))
    >>> pair_lda.to_metric(params).matrix.tolist()  # LᵀL
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return Mahalanobis(params.factor)
