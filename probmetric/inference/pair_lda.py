"""Pair LDA: a metric in closed form from close and far pairs.

C̄, F̄ are the mean outer products of close and far differences (d, d), of pairs given or
of all pairs of labelled points (``second_moments``); C_α = C̄ + αI. α > 0 is a prior:
differences are N(0, C), and α a variance that every direction has at least. It also
makes C_α invertible. Four metrics, each positive semi-definite:

    generalized   F̄ u = λ C_α u,  UᵀC_αU = I,   M = U diag(g(λ)) Uᵀ               (1)
                  g = 1 for the k largest λ ("one"), or (λ-1)₊ ("excess"),
                  or (log λ)₊ ("log");
    kissme        M = Π(C_α⁻¹ - F_α⁻¹), Π the nearest positive semi-definite
                  matrix: the log likelihood ratio of far against close            (2)
    rca           M = C_α⁻¹                                                        (3)
    notes         M = K⁻¹, K = αI + C̄ - F̄, only where K is positive definite,
                  i.e. α > α_min = λ_max(F̄ - C̄)                                    (4)

A prior that counts as s points pulls both to isotropic ones of their own size, with
c = tr C̄/d, f = tr F̄/d and n the number of points (of pairs, where these are given, and
s counts as pairs): before α is added,

    C̄ ← (n C̄ + s c I)/(n + s),   F̄ ← (n F̄ + s f₀ I)/(n + s),                      (5)

f₀ = max(f, 1.01 (c + α)), but f for (4): far pairs are farther apart a priori. As s
grows, every metric goes to a multiple of the identity: to no learning, s = ∞.
``choose_strength`` lets neighbours' votes choose s.

Each can be cut to its k largest directions. With g = 1 and k = d, (1) *is* (3): the
far pairs then matter through the choice of directions only.

Errata of seed 003: P9: for the notes' "small α" K is indefinite. An eigenvalue
1/(α + c - f) of M grows to +∞ as f - c rises to α and is negative beyond: the most
discriminating directions get negative weight, are dropped by "top k", and distances
turn imaginary. Here that is an error, which states α_min. P10: M_k = AᵀA with
A = Λ_k^½ V_kᵀ, V_k (d, k).

There is no generative story of pairs here (KISSME's two normals are not one), hence
no NumPyro model; d × d eigenproblems on the host, where JAX brings nothing.

References
----------
Köstinger et al., "Large scale metric learning from equivalence constraints", CVPR
2012 (KISSME).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, eigh

from probmetric.data.containers import Labelled, Pairs, weights
from probmetric.data.pairs import as_labels
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.neighbors.strength import STRENGTHS, Chosen
from probmetric.typing import Array

KNOWN = 1e9
"""How often the data a prior of infinite strength counts as.

Not more: where k < d rows are kept of what is all but isotropic, the moments still say
which.
"""


class SecondMoments(NamedTuple):
    """C̄ and F̄ (d, d), mean outer products of close and of far differences.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import pair_lda
    >>> moments = pair_lda.SecondMoments(close=np.eye(2), far=np.diag([9.0, 1.0]))
    >>> found = pair_lda.fit(moments, alpha=0.0, n=100)
    >>> found.params.values.tolist()  # Far over close variance, where it is above 1
    [9.0]
    """

    close: Float[np.ndarray, "d d"]
    far: Float[np.ndarray, "d d"]


def second_moments(data: Pairs | Labelled) -> SecondMoments:
    """Return C̄ and F̄, weighted means of δδᵀ over close and over far pairs.

    Of labelled points all pairs are meant, those of one class close, each weighing
    w_i w_j. They are summed without being formed, in O(n d²): over all pairs of a set
    Σ w_i w_j δδᵀ = (Σ w) · scatter.

    Raises
    ------
    ValueError
        When there is no close or no far pair of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> close, far = pair_lda.second_moments(Labelled(X, y))
    >>> close.tolist(), far.tolist()  # 1², and (3² + 2²)/2
    ([[1.0]], [[6.5]])
    """
    data = data if isinstance(data, Labelled) else as_labels(data)
    X = np.asarray(data.X)
    y, w = np.asarray(data.y), np.asarray(weights(data))
    if isinstance(data, Labelled):
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
    """Return C̄ and F̄ over all pairs of points, from statistics of their classes.

    Parameters
    ----------
    stats : ClassStatistics
    squares : array of shape (c,)
        Σw² of each class.

    Raises
    ------
    ValueError
        As ``second_moments``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes, pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> stats = gaussian_classes.statistics(Labelled(X, y), 2)
    >>> close, far = pair_lda.class_second_moments(stats, np.array([2.0, 1.0]))
    >>> close.round(6).tolist(), far.round(6).tolist()  # As ``second_moments``
    ([[1.0]], [[6.5]])
    """
    n, S = np.asarray(stats.n), np.asarray(stats.scatter)
    N, q = n.sum(), np.asarray(squares)
    about = np.asarray(stats.mean) - n @ np.asarray(stats.mean) / N
    close, near = np.einsum("c,cij->ij", n, S), (n @ n - q.sum()) / 2
    # Between classes: Σ_{b<c} (n_b S_c + n_c S_b + n_b n_c gap gapᵀ), all of it ≥ 0.
    far = np.einsum("c,cij->ij", N - n, S) + N * ((about.T * n) @ about)
    apart = (N**2 - n @ n) / 2
    return _means(close, float(near), far, float(apart))


def _means(
    close: np.ndarray, near: float, far: np.ndarray, apart: float
) -> SecondMoments:
    """Return sums over weights."""
    if min(near, apart) <= 0:
        raise ValueError(
            "y: expected at least one close (1) and one far (0) pair of positive "
            f"weight, got total weights {near:g} and {apart:g}"
        )
    return SecondMoments(close / near, far / apart)


def _all_pairs(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum w_i w_j δδᵀ and w_i w_j over all pairs i < j of a set."""
    total = float(w.sum())
    centred = X - (w @ X) / total if total > 0 else X
    scatter = (centred * w[:, None]).T @ centred
    return total * scatter, (total**2 - float(w @ w)) / 2


type Method = Literal["generalized", "kissme", "rca", "notes"]
type Weighting = Literal["log", "excess", "one"]


class PairLDAParams(NamedTuple):
    """The learned metric.

    Attributes
    ----------
    factor : array of shape (k, d)
        L with LᵀL = M, rows by falling value; each identified up to its sign.
    values : array of shape (k,)
        "generalized": λ, far over close variance along each row. Otherwise the
        eigenvalues of M.
    negative_share : float
        What Π removed in (2): Σ|negative| over Σ|all| eigenvalues. Zero elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import pair_lda
    >>> params = pair_lda.PairLDAParams(np.array([[2.0, 0.0]]), values=np.array([9.0]))
    >>> pair_lda.to_metric(params).matrix.tolist()  # LᵀL
    [[4.0, 0.0], [0.0, 0.0]]
    """

    factor: Float[Array, "k d"]
    values: Float[Array, "k"]
    negative_share: float = 0.0


def alpha_min(close: Float[Array, "d d"], far: Float[Array, "d d"]) -> float:
    """Return λ_max(F̄ - C̄), at and below which the notes' M is not a metric (P9).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import pair_lda
    >>> pair_lda.alpha_min(close=np.eye(2), far=np.diag([9.0, 1.0]))  # 9 - 1
    8.0
    """
    return float(eigh(np.asarray(far) - np.asarray(close), eigvals_only=True)[-1])


def _against(far: np.ndarray, close: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve F u = λ C u with UᵀCU = I; λ falling, U in columns."""
    own = eigh(close, eigvals_only=True)
    message = (
        "alpha: expected C̄ + αI of full rank, got a singular one: close pairs span too "
        "few directions; set alpha > 0, in units of squared (standardised) features"
    )
    if own[0] <= 10 * len(close) * np.finfo(close.dtype).eps * own[-1]:
        raise ValueError(message)
    try:
        values, vectors = eigh(far, close)
    except LinAlgError as error:
        raise ValueError(message) from error
    return values[::-1], vectors[:, ::-1]


def _factor(values: np.ndarray, vectors: np.ndarray) -> Array:
    """Return rows √value · vectorᵀ, the largest entry of each positive."""
    rows = (np.sqrt(values) * vectors).T
    return row_signs(rows) * rows


def _generalized(
    close: np.ndarray, far: np.ndarray, k: int | None, weighting: Weighting
) -> PairLDAParams:
    """Eq. (1). Without k, the directions in which far pairs are the wider (λ > 1)."""
    values, U = _against(far, close)
    wider = int(np.sum(values > 1))
    keep = wider if k is None else k if weighting == "one" else min(k, wider)
    if keep == 0:
        raise ValueError(
            "pairs: expected a direction in which far pairs are farther apart than "
            f"close ones, got none (largest ratio of variances {values[0]:.3g} ≤ 1)"
        )
    values, U = values[:keep], U[:, :keep]
    if weighting == "one":
        g = np.ones_like(values)
    else:
        g = np.log(values) if weighting == "log" else values - 1
    order = np.argsort(-g, kind="stable")
    return PairLDAParams(_factor(g[order], U[:, order]), values[order])


def _cut(M: np.ndarray, k: int | None) -> PairLDAParams:
    """Keep the k largest positive eigenvalues of M."""
    values, vectors = eigh(M)
    values, vectors = values[::-1], vectors[:, ::-1]
    share = float(-values[values < 0].sum() / np.abs(values).sum())
    positive = int(np.sum(values > len(M) * np.finfo(M.dtype).eps * values[0]))
    if values[0] <= 0:
        raise ValueError(
            "pairs: expected a direction in which far pairs are farther apart than "
            "close ones, got none (no positive eigenvalue of M)"
        )
    keep = positive if k is None else min(k, positive)
    return PairLDAParams(
        _factor(values[:keep], vectors[:, :keep]), values[:keep], share
    )


def fit(
    data: Pairs | Labelled | SecondMoments,
    n_components: int | None = None,
    *,
    method: Method = "generalized",
    alpha: float | int = 0.01,
    weighting: Weighting = "log",
    prior_strength: float | int = 0.0,
    n: float | int | None = None,
) -> Fit:
    """Return a metric learned from pairs in closed form (Eqs. 1-5).

    Parameters
    ----------
    data : Pairs, Labelled or SecondMoments
        y = 1 for close, 0 for far pairs; or class codes, and all pairs are meant; or
        what these say, and then ``n`` is given.
    n_components : int, optional
        k, 1 to d: at most so many rows; fewer where M has fewer positive directions.
    method : {"generalized", "kissme", "rca", "notes"}
    alpha : float, default=0.01
        α ≥ 0, in units of squared differences.
    weighting : {"log", "excess", "one"}
        g of Eq. (1).
    prior_strength : float, default=0
        s ≥ 0 of Eq. (5); ∞ counts as ``KNOWN`` · n.
    n : float, optional
        What the data count as beside s. Default: the weight of the points, or of the
        pairs where these are given.

    Returns
    -------
    Fit
        ``params`` is a ``PairLDAParams``; ``objective`` the mean squared distance of
        far pairs less that of close pairs under M.

    Raises
    ------
    ValueError
        When a label is missing, C̄ + αI is singular, no direction has far pairs
        farther apart, or, for "notes", α ≤ α_min.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> found = pair_lda.fit(Labelled(X, y), alpha=0.0, weighting="one")
    >>> found.params.values.round(6).tolist()  # Mean squares: 6.5 far, over 1 close
    [6.5]
    """
    if isinstance(data, SecondMoments):
        close, far = data
        if n is None:
            raise ValueError("n: expected a number beside second moments, got None")
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
) -> tuple[np.ndarray, np.ndarray]:
    """Return C̄ and F̄ under a prior of s points, Eq. (5)."""
    if strength == 0:
        return close, far
    d, s = len(close), KNOWN * n if np.isinf(strength) else strength
    c, f = np.trace(close) / d, np.trace(far) / d
    f = f if method == "notes" else max(f, 1.01 * (c + alpha))
    w, one = s / (n + s), np.eye(d, dtype=close.dtype)
    return (1 - w) * close + w * c * one, (1 - w) * far + w * f * one


def choose_strength(
    data: Labelled,
    n_components: int | None = None,
    *,
    pairs: Callable[[Labelled], Pairs | Labelled] = lambda data: data,
    method: Method = "generalized",
    alpha: float | int = 0.01,
    weighting: Weighting = "log",
) -> Chosen:
    """Choose s of Eq. (5) by the votes of neighbours in folds (``neighbors.strength``).

    Parameters
    ----------
    data : Labelled
        Unweighted.
    pairs : callable, optional
        Makes pairs of a part of the data. Default: all pairs are meant.
    n_components, method, alpha, weighting
        As ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import pair_lda
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 2)) * [1.0, 50.0]  # The second feature is wide, and
    >>> X[:, 0] += 6 * y  # the first tells the classes apart: it pays to learn.
    >>> chosen = pair_lda.choose_strength(Labelled(X, y))
    >>> chosen.strength, chosen.losses[[0, -1]].round(2).tolist()  # At s = ∞ and s = 1
    (1.0, [0.62, 0.02])
    """
    X, y = np.asarray(data.X), np.asarray(data.y)

    def learn(rows: np.ndarray) -> list[np.ndarray | None]:
        close, far = second_moments(pairs(Labelled(X[rows], y[rows])))
        return [learned(close, far, len(rows), s) for s in STRENGTHS]

    def learned(
        close: np.ndarray, far: np.ndarray, n: int, s: float
    ) -> np.ndarray | None:
        held = _shrunk(close, far, n, s, alpha, method)
        try:
            found = _solve(*held, n_components, method, alpha, weighting)
            return np.asarray(found.factor)
        except ValueError:  # No direction has the far pairs farther apart.
            return None

    return choose_by_folds(learn, X, y)


def _solve(
    close: np.ndarray,
    far: np.ndarray,
    n_components: int | None,
    method: Method,
    alpha: float | int,
    weighting: Weighting,
) -> PairLDAParams:
    """Solve Eqs. (1-4) from C̄ and F̄."""
    ridge = alpha * np.eye(len(close), dtype=close.dtype)
    if method == "generalized":
        return _generalized(close + ridge, far, n_components, weighting)
    if method == "kissme":
        values, U = _against(far + ridge, close + ridge)
        if values[-1] <= 0:
            raise ValueError(
                "alpha: expected F̄ + αI of full rank, got a singular one; set alpha > 0"
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
            f"alpha: expected more than alpha_min = λ_max(F̄ - C̄) = {least:.6g} for "
            f"method='notes', got {alpha:.6g}: the notes' matrix is indefinite "
            "there and gives imaginary distances; use method='generalized' or "
            "'kissme'"
        )
    keep = len(K) if n_components is None else n_components
    inverse = 1 / values[:keep]
    return PairLDAParams(_factor(inverse, vectors[:, :keep]), inverse)


def to_metric(params: PairLDAParams) -> Mahalanobis:
    """Return the learned metric.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import pair_lda
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    >>> found = pair_lda.fit(Labelled(X, y), alpha=0.0, weighting="one")
    >>> pair_lda.to_metric(found.params).matrix.round(6).tolist()  # Close pairs: 1/1
    [[1.0]]
    """
    return Mahalanobis(params.factor)
