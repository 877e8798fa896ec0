"""Second moments of close and of far differences, from pairs or from class labels."""

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Labelled, Pairs

__all__ = ["second_moments"]


def second_moments(
    data: Pairs | Labelled,
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d d"]]:
    """Return C̄ and F̄, weighted means of δδᵀ over close and over far pairs.

    Of labelled points all pairs are meant, those of one class close, each weighing
    w_i w_j. They are summed without being formed, in O(n d²): over all pairs of a set
    Σ w_i w_j δδᵀ = (Σ w) · scatter.

    Raises
    ------
    ValueError
        When there is no close or no far pair of positive weight.
    """
    X = np.asarray(data.X)
    y = np.asarray(data.y)
    if isinstance(data, Labelled):
        w = np.ones(len(X), X.dtype) if data.w is None else np.asarray(data.w)
        sums = [_all_pairs(X[y == c], w[y == c]) for c in np.unique(y)]
        everything = _all_pairs(X, w)
        close, near = np.sum([s[0] for s in sums], 0), sum(s[1] for s in sums)
        far, apart = everything[0] - close, everything[1] - near
    else:
        delta = X[np.asarray(data.i)] - X[np.asarray(data.j)]
        w = np.ones(len(delta), X.dtype) if data.w is None else np.asarray(data.w)
        near, apart = float(w[y == 1].sum()), float(w[y != 1].sum())
        close = (delta[y == 1] * w[y == 1, None]).T @ delta[y == 1]
        far = (delta[y != 1] * w[y != 1, None]).T @ delta[y != 1]
    if min(near, apart) <= 0:
        raise ValueError(
            "y: wanted at least one close (1) and one far (0) pair of positive "
            f"weight, got total weights {near:g} and {apart:g}"
        )
    return (close / near).astype(X.dtype), (far / apart).astype(X.dtype)


def _all_pairs(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    """Sum w_i w_j δδᵀ and w_i w_j over all pairs i < j of a set."""
    total = float(w.sum())
    centred = X - (w @ X) / total if total > 0 else X
    scatter = (centred * w[:, None]).T @ centred
    return total * scatter, (total**2 - float(w @ w)) / 2
