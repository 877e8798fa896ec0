"""Containers of data: the data argument of models, fits and samplers.

Each container is a NamedTuple of arrays. ``w`` are data weights ≥ 0. If ``w`` is None,
all weights are 1. If the labels y are None, a NumPyro model simulates labels.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.precision import in_native_order, traced
from probmetric.typing import Array


class Points(NamedTuple):
    """Unlabeled points X (n, d), with data weights w (n,), 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> Points(np.array([[0.0], [1.0]]), w=np.array([1.0, 2.0])).w.tolist()
    [1.0, 2.0]
    """

    X: Float[Array, "n d"]
    w: Float[Array, "n"] | None = None


class Labeled(NamedTuple):
    """Points X (n, d) with class codes y (n,) in 0..C-1.

    ``w`` (n,) are data weights, 1 by default. ``groups`` (n,) identifies the cluster of
    each row by a number. Only ``LCA`` uses groups. A NumPyro model that is called with
    y=None simulates the classes.

    Examples
    --------
    >>> import numpy as np
    >>> Labeled(np.array([[0.0], [1.0]]), np.array([0, 1])).y.tolist()
    [0, 1]
    """

    X: Float[Array, "n d"]
    y: Int[Array, "n"] | None
    w: Float[Array, "n"] | None = None
    groups: Int[Array, "n"] | None = None


def arrays_of(
    data: Labeled,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return points, class codes, weights and groups as NumPy arrays."""
    X, y, w, groups = (v if v is None else np.asarray(v) for v in data)
    assert X is not None
    assert y is not None
    return X, y, w, groups


class Pairs(NamedTuple):
    """Pairs (X[i], X[j]) with labels y (N,): 1 for same, 0 for different.

    i and j (N,) are row numbers of X (n, d). A NumPyro model that is called with y=None
    simulates the labels. The optional arrays have shape (N,):

    * ``w`` are data weights, 1 by default.
    * ``anchor`` identifies the group of each pair, such as its subject, by a number. In
      pairs of ``nearest_pairs`` and ``impostor_pairs``, it equals i.
    * ``trials`` is the number of judgments of each pair. Then y is the number of *same*
      judgments. Only ``LCA`` and ``GDM`` support ``trials``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [2.0]])
    >>> pairs = Pairs(X, i=np.array([0, 0]), j=np.array([1, 2]), y=np.array([1, 0]))
    >>> (pairs.X[pairs.i] - pairs.X[pairs.j]).ravel().tolist()
    [-0.1, -2.0]
    """

    X: Float[Array, "n d"]
    i: Int[Array, "N"]
    j: Int[Array, "N"]
    y: Int[Array, "N"] | None
    w: Float[Array, "N"] | None = None
    anchor: Int[Array, "N"] | None = None
    trials: Int[Array, "N"] | None = None


class Triplets(NamedTuple):
    """Comparisons of three points: is X[near] nearer to X[anchor] than X[far] is?

    ``anchor``, ``near`` and ``far`` (N,) are row numbers of X (n, d). y (N,) is 1 for
    yes and 0 for no. A NumPyro model that is called with y=None simulates responses.
    The optional arrays have shape (N,):

    * ``w`` are data weights, 1 by default.
    * ``other`` turns triplets into quadruplets. A quadruplet compares two pairs: is
      X[near] nearer to X[anchor] than X[far] is to X[other]?
    * ``rater`` identifies, by a number, the person or instrument of each response.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [0.1], [2.0]]), np.array([1])
    >>> triplets = Triplets(X, np.array([0]), np.array([1]), np.array([2]), y)
    >>> (triplets.X[triplets.anchor] - triplets.X[triplets.far]).ravel().tolist()
    [-2.0]
    """

    X: Float[Array, "n d"]
    anchor: Int[Array, "N"]
    near: Int[Array, "N"]
    far: Int[Array, "N"]
    y: Int[Array, "N"] | None
    w: Float[Array, "N"] | None = None
    other: Int[Array, "N"] | None = None
    rater: Int[Array, "N"] | None = None

    @property
    def beside(self) -> Int[Array, "N"]:
        """Row numbers of the partner of ``far``: ``other`` if set, else ``anchor``."""
        return self.anchor if self.other is None else self.other

    @property
    def ends(self) -> tuple[Int[Array, "N"], ...]:
        """Row numbers of anchor, near and far, and of other if present."""
        ends = self.anchor, self.near, self.far
        return ends if self.other is None else (*ends, self.other)

    @property
    def alternatives(self) -> tuple[tuple[Int[Array, "N"], Int[Array, "N"]], ...]:
        """Row numbers of the two pairs. y is the index of the nearer pair."""
        return (self.beside, self.far), (self.anchor, self.near)


class OddOneOut(Triplets):
    """Which of three objects X[anchor], X[near], X[far] is the odd one?

    y (N,) is 1 if far is the odd one, 0 if near is, and 2 if anchor is. The odd one is
    the object that is not in the nearest pair. All arrays are as in ``Triplets``.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [0.1], [2.0]]), np.array([1])
    >>> triplets = OddOneOut(X, np.array([0]), np.array([1]), np.array([2]), y)
    >>> [(int(i[0]), int(j[0])) for i, j in triplets.alternatives]
    [(0, 2), (0, 1), (1, 2)]
    """

    __slots__ = ()

    @property
    def alternatives(self) -> tuple[tuple[Int[Array, "N"], Int[Array, "N"]], ...]:
        """Row numbers of the three pairs. y is the index of the nearest pair."""
        return (*super().alternatives, (self.near, self.far))


class Groups(NamedTuple):
    """Points X (n, d) in groups. Rows of one group are measurements of one source.

    ``group`` (n,) has a code in 0..G-1 for each row, and ``w`` (n,) are data weights, 1
    by default.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [2.0]])
    >>> Groups(X, np.array([0, 0, 1])).group.tolist()
    [0, 0, 1]
    """

    X: Float[Array, "n d"]
    group: Int[Array, "n"]
    w: Float[Array, "n"] | None = None


class Distances(NamedTuple):
    """A symmetric matrix D (n, n) of distances, not squared.

    Examples
    --------
    >>> import numpy as np
    >>> Distances(np.array([[0.0, 2.0], [2.0, 0.0]])).D.shape
    (2, 2)
    """

    D: Float[Array, "n n"]


type Data = Points | Labeled | Pairs | Triplets | Groups | Distances


def checked_rows[D](data: D) -> D:
    """Return pairs or triplets in native byte order; raise for row numbers beyond X."""
    if not isinstance(data, Pairs | Triplets) or traced(data):
        return data
    triplet = "anchor", "near", "far", "other"
    last = len(data.X) - 1
    for name in ("i", "j") if isinstance(data, Pairs) else triplet:
        rows = getattr(data, name)
        rows = np.asarray([] if rows is None else rows)
        wrong = np.flatnonzero((rows < 0) | (rows > last))
        if len(wrong):
            raise ValueError(
                f"{name} must be row numbers of X (0 to {last}), got {rows[wrong[0]]} "
                f"in row {wrong[0]}. Count from 0."
            )
    return in_native_order(data)


def weights(data: Points | Labeled | Pairs | Triplets | Groups) -> Float[Array, "N"]:
    """Return the data weights in the dtype of X, 1 by default."""
    if data.w is not None:
        return data.w
    rows = data.X
    if isinstance(data, Pairs | Triplets):
        rows = data.i if isinstance(data, Pairs) else data.anchor
    ones = np.ones if isinstance(data.X, np.ndarray) else jnp.ones
    return ones(len(rows), data.X.dtype)


def refuse_trials(pairs: Pairs, model: str) -> None:
    """Raise if pairs are counts, which ``model`` does not support."""
    if pairs.trials is not None:
        raise ValueError(
            f"pairs.trials must be None for {model}, got counts. Use LCA or GDM, or "
            "replace each count by single pairs with y = 0 or 1."
        )
