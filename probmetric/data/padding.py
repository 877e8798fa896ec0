"""Pad rows and pairs to a few sizes, so that compiled programs are reused."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from probmetric.data.containers import Labeled, Pairs, checked_rows
from probmetric.typing import Array


def bucket(n: int) -> int:
    """Return the padded size of n rows.

    Up to 2048, sizes are powers of two from 512. Above 2048, there are four sizes for
    each doubling, and the padded size is at most 25% larger than n.
    """
    if n <= 2048:
        return max(512, 1 << (n - 1).bit_length())
    step = 1 << ((n - 1).bit_length() - 3)
    return -(-n // step) * step


def pad_rows(
    rows: Shaped[Array, "n *d"], size: int, fill: int = 0
) -> Shaped[np.ndarray, "m *d"]:
    """Append rows of ``fill`` up to ``size``; the dtype does not change."""
    a = np.asarray(rows)
    return np.concatenate([a, np.full((size - len(a), *a.shape[1:]), fill, a.dtype)])


def host_weights(pairs: Pairs) -> Float[np.ndarray, "N"]:
    """Return the data weights as NumPy float64, 1 by default."""
    return np.ones(len(pairs.i)) if pairs.w is None else np.asarray(pairs.w, float)


def pad_labeled(data: Labeled) -> Labeled:
    """Append points of the first class at the origin, of weight 0, up to a bucket."""
    w = np.ones(len(data.X)) if data.w is None else data.w
    arrays = (data.X, np.asarray(data.y), w)
    return Labeled(*(pad_rows(a, bucket(len(data.X))) for a in arrays))


def pad_pairs(pairs: Pairs) -> Pairs:
    """Pad pairs to bucket sizes by points at 0 and pairs of weight 0.

    The numbers of points, of y=1 pairs and of y=0 pairs are padded. A pair with
    judgments of both kinds counts as a y=1 pair and as a y=0 pair. A padding pair joins
    point 0 with itself, and has one judgment.
    """
    pairs = checked_rows(pairs)
    w, y = host_weights(pairs), np.asarray(pairs.y)
    trials = np.ones_like(y) if pairs.trials is None else np.asarray(pairs.trials)
    rows = [int(np.sum(kind)) for kind in (y > 0, y < trials)]
    label = np.repeat([1, 0], [bucket(n) - n for n in rows])
    zeros = np.zeros(len(label), int)
    n, d = pairs.X.shape

    def join(a: Array, b: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(a), b])

    return Pairs(
        X=join(pairs.X, np.zeros((bucket(n) - n, d))),
        i=join(pairs.i, zeros),
        j=join(pairs.j, zeros),
        y=join(y, label),
        w=join(w, zeros.astype(float)),
        anchor=None if pairs.anchor is None else join(pairs.anchor, zeros),
        trials=None if pairs.trials is None else join(trials, zeros + 1),
    )


def chunks(rows: Array, most: int) -> Array:
    """Cut rows (n, ...) into chunks of at most ``most``, and fill up the last one."""
    rows = jnp.asarray(rows)
    size = min(most, len(rows))
    tail = jnp.zeros((-len(rows) % size, *rows.shape[1:]), rows.dtype)
    return jnp.concatenate([rows, tail]).reshape(-1, size, *rows.shape[1:])
