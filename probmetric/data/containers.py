"""Containers of data: the one data argument of every model, fit and sampler.

Each container is a NamedTuple of arrays, so that ``compare``, simulation-based
calibration, the bootstrap and ``validate`` are written once. ``w`` are data weights
(None means all one; zero is allowed, negative is not). A label of None simulates.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.precision import in_native_order, traced
from probmetric.typing import Array


class Points(NamedTuple):
    """Unlabelled observations: X (n, d), data weights w (n,) or None.

    Examples
    --------
    >>> import numpy as np
    >>> Points(np.array([[0.0], [1.0]]), w=np.array([1.0, 2.0])).w.tolist()
    [1.0, 2.0]
    """

    X: Float[Array, "n d"]
    w: Float[Array, "n"] | None = None


class Labelled(NamedTuple):
    """Observations with a class code y (n,) in 0..C-1; y=None simulates.

    Examples
    --------
    >>> import numpy as np
    >>> Labelled(np.array([[0.0], [1.0]]), np.array([0, 1])).y.tolist()
    [0, 1]
    """

    X: Float[Array, "n d"]
    y: Int[Array, "n"] | None
    w: Float[Array, "n"] | None = None


class Pairs(NamedTuple):
    """Pairs (X[i], X[j]) with y (N,) = 1 where they coincide, 0 where they do not.

    ``anchor`` (N,) holds a group number per pair for models with a scale per anchor.
    ``trials`` (N,), where there is one, says how often each pair was judged; y is then
    the number of times that it was called the same, 0..trials. ``LCA`` and ``GDM`` take
    counts.

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
    """Comparisons: is X[near] nearer to X[anchor] than X[far] is?

    Of quadruplets, which have ``other``: than X[far] is to X[other]. y (N,) = 1 where
    the answer was yes, 0 where the point called far was the nearer; y=None simulates.

    Examples
    --------
    >>> import numpy as np
    >>> X, one = np.array([[0.0], [0.1], [2.0]]), np.ones(1, int)
    >>> triplets = Triplets(X, 0 * one, near=one, far=2 * one, y=one)
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

    @property
    def beside(self) -> Int[Array, "N"]:
        """The points from which far is seen: ``other``, or the anchors."""
        return self.anchor if self.other is None else self.other

    @property
    def ends(self) -> tuple[Int[Array, "N"], ...]:
        """Anchor, near, far, and other where it is given."""
        own = self.anchor, self.near, self.far
        return own if self.other is None else (*own, self.other)


class Groups(NamedTuple):
    """Observations that share a source: group (n,) holds a code in 0..G-1.

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


type Data = Points | Labelled | Pairs | Triplets | Groups | Distances


def checked_rows[D](data: D) -> D:
    """Return pairs or triplets in native byte order; other data as they are.

    Raises
    ------
    ValueError
        For row numbers outside X: JAX clips them, and -1 is the last row. Traced
        numbers pass.

    Examples
    --------
    >>> X, one = np.zeros((2, 1)), np.ones(1, int)
    >>> checked_rows(Pairs(X, i=0 * one, j=2 * one, y=one))
    Traceback (most recent call last):
    ValueError: j must be row numbers of X (0 to 1), got 2 in row 0. Count from 0.
    """
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


def weights(data: Points | Labelled | Pairs | Triplets | Groups) -> Float[Array, "N"]:
    """Return the data weights, one where none were given, in X's dtype."""
    if data.w is not None:
        return data.w
    rows = data.X
    if isinstance(data, Pairs | Triplets):
        rows = data.i if isinstance(data, Pairs) else data.anchor
    ones = np.ones if isinstance(data.X, np.ndarray) else jnp.ones
    return ones(len(rows), data.X.dtype)


def refuse_trials(pairs: Pairs, model: str) -> None:
    """Raise where pairs are counts, of which ``model`` has no likelihood."""
    if pairs.trials is not None:
        raise ValueError(
            f"pairs.trials: expected None of {model}, got counts: they are for LCA "
            "and GDM"
        )
