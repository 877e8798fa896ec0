"""Classical scaling of many objects by a few landmarks.

First, the m landmarks are scaled by Eq. (2) of ``mds.fit``. Then every object is
embedded by its dissimilarities from the landmarks, Eq. (3) of ``mds.fit``. Finally, the
embedding is rotated to the principal axes of all n objects. The cost is O(m n k + m³)
and memory is O(m n). The n × n matrix is never formed. The result is exact if D is
Euclidean in at most k dimensions and the landmarks span them. Otherwise the result
approximates the full solution, most accurately near the landmarks.

Landmarks are chosen farthest-first: each next landmark is the object farthest from the
landmarks so far (a 2-approximation of the k-center problem). A random choice may miss
clusters.

References
----------
de Silva and Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Distances
from probmetric.inference.mds.fit import (
    Correction,
    MDSParams,
    corrected_squares,
    embed_new,
    fit,
)
from probmetric.linalg import row_signs


def spread_out(
    row: Callable[[int], Float[np.ndarray, "n"]], first: int, m: int
) -> tuple[Int[np.ndarray, "m"], Float[np.ndarray, "m n"]]:
    """Choose m landmarks farthest-first; return their indices and rows of D.

    ``row(i)`` returns the dissimilarities of object i from all n. Fewer landmarks are
    returned if every object coincides with a landmark.
    """
    chosen, rows = [first], [row(first)]
    nearest = rows[0].copy()
    while len(chosen) < m:
        farthest = int(np.argmax(nearest))
        if nearest[farthest] <= 0:
            break
        chosen.append(farthest)
        rows.append(row(farthest))
        np.minimum(nearest, rows[-1], out=nearest)
    return np.asarray(chosen), np.stack(rows)


def fit_landmarks(
    landmarks: Int[np.ndarray, "m"],
    D: Float[np.ndarray, "m n"],
    n_components: int = 2,
    *,
    correction: Correction = None,
) -> MDSParams:
    """Embed n objects from their dissimilarities to m landmarks (indices).

    ``eigenvalues`` are the sums of squares of the columns of the embedding. The
    correction, ``min_eigenvalue`` and ``negative_share`` refer to the landmarks only.
    """
    core = fit(
        Distances(D[:, landmarks]), n_components, correction=correction, solver="eigh"
    ).params
    squares = corrected_squares(D, core.constant, correction)
    Q = np.asarray(embed_new(core, squares.T))
    center = Q.mean(0)
    _, _, axes = np.linalg.svd(Q - center, full_matrices=False)
    embedding = (Q - center) @ axes.T
    sign = row_signs(embedding.T)
    turn = sign * axes
    return core._replace(
        embedding=embedding * sign.T,
        eigenvalues=np.sum(embedding**2, 0),
        coefficients=turn @ core.coefficients,
        offset=-turn @ center,
    )
