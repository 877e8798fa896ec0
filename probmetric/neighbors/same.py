"""P(same class) of two points, from class probabilities.

Let p(x) be the class probabilities of a point x. Given the training data, the classes
of two points are independent, so

    P(same) = Σ_c p_c(x) p_c(x'),    or p_y(x) if x' has the known label y.         (1)

P(same) may be below 1 for two equal points, and may increase with distance. If one of
the points equals a training row, the label of that row is known. If equal training rows
have several labels, the weighted shares of these labels are used as p(x'). If both
points equal training rows, leave-one-out probabilities are used for both points, with
weighted averages over equal rows.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import row_hashes
from probmetric.typing import ArrayLike


def label_places(
    labels: ArrayLike, classes: np.ndarray, n: int
) -> Int[np.ndarray, "N"]:
    """Return the position of each label in ``classes``, or raise ValueError."""
    values = np.asarray(labels)
    if values.shape != (n,):
        raise ValueError(f"labels must have shape ({n},), got {values.shape}")
    place = {label: k for k, label in enumerate(classes.tolist())}
    unknown = [label for label in values.tolist() if label not in place]
    if unknown:
        raise ValueError(
            f"labels must be classes of fit, got {unknown[0]!r}. For new classes use "
            "same_probability(new_classes=True, prior_odds=...) of a learner such as "
            "LCA"
        )
    return np.array([place[label] for label in values.tolist()], int)


def same_class(
    ends: tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "N d"]],
    known: Int[np.ndarray, "N"] | None,
    training: tuple[
        Float[np.ndarray, "n d"], Int[np.ndarray, "n"], Float[np.ndarray, "n"] | None
    ],
    n_classes: int,
    probabilities: Callable[..., Float[np.ndarray, "m c"]],
) -> Float[np.ndarray, "N"]:
    """Compute P(same) of pairs by Eq. (1).

    Parameters
    ----------
    ends : pair of arrays of shape (N, d)
        First and second points.
    known : array of shape (N,), optional
        Class codes of the second points.
    training : tuple of arrays of shape (n, d), (n,) and (n,) or None
        Training rows, their class codes and their weights.
    n_classes : int
    probabilities : callable
        Function that returns class probabilities of points (m, d). An optional second
        argument contains training row numbers of the points. These rows do not vote.
    """
    N, (X, codes, weights) = len(ends[0]), training
    w = np.ones(len(X)) if weights is None else weights
    rows = np.concatenate([*ends, X])
    _, index, place = np.unique(
        row_hashes(rows), return_index=True, return_inverse=True
    )
    first, second, at = np.split(place, [N, 2 * N])
    shares = np.zeros((len(index), n_classes))
    np.add.at(shares, (at, codes), w)
    times = shares.sum(1)
    seen = times > 0
    shares[seen] /= times[seen, None]
    labeled = seen[first] & ~seen[second], seen[second] & ~seen[first]
    used = np.concatenate([first[~labeled[0]], second[~labeled[1]]])
    used = np.unique(first if known is not None else used)
    P = np.zeros_like(shares)
    if len(new := used[~seen[used]]):
        P[new] = probabilities(rows[index[new]])
    if len(own := np.flatnonzero(np.isin(at, used))):
        share = (w[own] / times[at[own]])[:, None]
        np.add.at(P, at[own], share * probabilities(X[own], own))
    if known is not None:
        return P[first, known]
    a, b = (
        np.where(label[:, None], shares[end], P[end])
        for label, end in zip(labeled, (first, second), strict=True)
    )
    return np.sum(a * b, 1)
