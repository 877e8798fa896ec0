"""Classical scaling of many objects through a few landmarks.

Scale the m landmarks among themselves, Eq. (2) of ``mds.fit``, place every object by
its dissimilarities from them, Eq. (3) of ``mds.fit``, then turn the axes to the
principal axes of all n places. Work O(m n k + m³) and memory O(m n): the n × n matrix
is never formed. Exact when D is Euclidean in at most k dimensions and the landmarks
span them; otherwise an approximation of the full solution that is best where landmarks
lie.

Landmarks are spread out: from a first one, each next is the object farthest from
those chosen (2-approximation of the k-centre problem), so that clusters are not
missed as a random choice misses them.

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
    """Choose m landmarks farthest-first and keep their rows of D.

    Parameters
    ----------
    row : callable
        ``row(i)`` returns the dissimilarities of object i from all n.
    first : int
        The first landmark.
    m : int
        How many, 1 to n. Fewer come back when every object coincides with one.

    Returns
    -------
    indices (m,) and dissimilarities (m, n).
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
    """Embed n objects from their dissimilarities to m landmarks.

    Parameters
    ----------
    landmarks : array of shape (m,)
        Which objects they are.
    D : array of shape (m, n)
    n_components : int
        k, at most m.
    correction : {None, "lingoes", "cailliez"}
        Fitted on the landmarks.

    Returns
    -------
    MDSParams
        With ``eigenvalues`` the sums of squares of the embedding's columns, and
        ``min_eigenvalue``, ``negative_share`` those of the landmarks alone.
    """
    core = fit(
        Distances(D[:, landmarks]), n_components, correction=correction, solver="eigh"
    ).params
    places = np.asarray(
        embed_new(core, corrected_squares(D, core.constant, correction).T)
    )
    middle = places.mean(0)
    _, _, axes = np.linalg.svd(places - middle, full_matrices=False)
    embedding = (places - middle) @ axes.T
    sign = row_signs(embedding.T)
    turn = sign * axes
    return core._replace(
        embedding=embedding * sign.T,
        eigenvalues=np.sum(embedding**2, 0),
        coefficients=turn @ core.coefficients,
        offset=-turn @ middle,
    )
