"""The spectrum of a doubly centered matrix, dense or by Lanczos.

M = -½ C S C for squared dissimilarities S (n, n), C = I - 11ᵀ/n: Eq. (1) of
``mds.fit``. Lanczos needs only products M v and forms neither C nor a centered copy of
S. The smallest eigenvalue is λ₁ minus the largest eigenvalue of λ₁I - M.
"""

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from probmetric.linalg import row_signs
from probmetric.typing import Array

type Solver = Literal["auto", "eigh", "lanczos"]

DENSE_LIMIT = 600
"""Largest n for which a dense eigenproblem is as fast as Lanczos."""


def double_center(A: Float[Array, "n n"]) -> Float[np.ndarray, "n n"]:
    """Compute -½ C A C, Eq. (1) of ``mds.fit``, without forming C."""
    rows, columns = np.mean(A, 1), np.mean(A, 0)
    centered = np.subtract(A, rows[:, None])
    centered -= columns - rows.mean()
    centered *= -0.5
    return centered


def _operator(
    n: int, dtype: np.dtype, product: Callable[[np.ndarray], np.ndarray]
) -> LinearOperator:
    return cast("Any", LinearOperator)((n, n), matvec=product, dtype=dtype)


def top_eigenpairs(
    S: Float[Array, "n n"], k: int, *, solver: Solver = "auto"
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "n k"], float, float]:
    """Compute the k largest eigenpairs of M from squared dissimilarities S.

    "eigh" costs O(n³). "lanczos" needs k < n and costs O(n²) per product with S.
    Returns the eigenvalues, descending; eigenvectors whose largest entry is positive;
    the smallest eigenvalue (Lanczos: error about 1e-4 λ₁); and the share of negative
    eigenvalues in Σ|λ| (Lanczos: NaN).
    """
    squares = np.asarray(S)
    n, eps = len(squares), float(np.finfo(squares.dtype).eps)
    if solver == "auto":
        solver = "eigh" if n <= DENSE_LIMIT or k > n // 10 else "lanczos"
    if solver == "eigh":
        values, vectors = eigh(double_center(squares), overwrite_a=True)
        size = np.abs(values).sum()
        share = float(-values[values < 0].sum() / size) if size > 0 else 0.0
        # The zero eigenvalue (vector 1) is computed with a rounding error of any sign.
        share = 0.0 if share <= n * eps else share
        lowest = float(values[0])
    else:

        def product(v: np.ndarray) -> np.ndarray:
            image = squares @ (v - v.mean(0))  # -½ C S (C v)
            return -0.5 * (image - image.mean(0))

        start = np.random.default_rng(0).standard_normal(n).astype(squares.dtype)
        operator = _operator(n, squares.dtype, product)
        values, vectors = eigsh(operator, k, which="LA", v0=start)
        # Largest eigenvalue of λ₁I - M: the tolerance is relative to λ₁, and λ_min = 0
        # (D Euclidean) converges like any other.
        top = float(values.max())
        flipped = _operator(n, squares.dtype, lambda v: top * v - product(v))
        highest = eigsh(
            flipped, 1, which="LA", v0=start, tol=eps**0.25, return_eigenvectors=False
        )
        lowest, share = top - float(highest[0]), float("nan")
    order = np.argsort(values)[::-1][:k]
    values, vectors = values[order], vectors[:, order]
    return values, vectors * row_signs(vectors.T).T, lowest, share
