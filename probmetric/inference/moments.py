"""Count, range, mean and squares of every column, by class too: one pass of a source.

Of a block they are about its own means; those of two sets of rows, n and n' of them
with means m and m', become one by Chan, Golub and LeVeque's formulas, δ = m' - m:

    m + δ n'/(n + n'),      S + S' + δδᵀ n n'/(n + n'),                            (1)

which subtract nothing large. Gaussian classes, LDA, RCA and pair LDA need nothing else
of their rows; the two-stage mixture takes its scale and default prior from them.

Columns count every row of positive weight once, as scaling does; classes count weights.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Labelled
from probmetric.data.scaling import Scaler
from probmetric.data.source import Source
from probmetric.inference.gaussian_classes.posterior import (
    ClassStatistics,
    statistics,
)
from probmetric.inference.reduce import Reduction, total, zeros
from probmetric.typing import Array


class Columns(NamedTuple):
    """Rows of positive weight, and smallest, largest, mean and Σ(x - mean)² (d,)."""

    n: Float[Array, ""]
    low: Float[Array, "d"]
    high: Float[Array, "d"]
    mean: Float[Array, "d"]
    square: Float[Array, "d"]


class ClassMoments(NamedTuple):
    """Columns, statistics of the classes, and Σw² of each class (c,)."""

    columns: Columns
    classes: ClassStatistics
    squares: Float[Array, "c"]


def _columns(params: object, X: Array, y: Array, w: Array) -> Columns:
    there = w > 0
    n = jnp.sum(there.astype(X.dtype))
    one = jnp.where(there, 1.0, 0.0)
    mean = one @ X / jnp.maximum(n, 1.0)
    square = one @ (X - mean) ** 2
    low = jnp.min(jnp.where(there[:, None], X, jnp.inf), 0)
    high = jnp.max(jnp.where(there[:, None], X, -jnp.inf), 0)
    return Columns(n, low, high, mean, square)


def _no_columns(shapes: Columns) -> Columns:
    none = zeros(shapes)
    return none._replace(low=none.low + jnp.inf, high=none.high - jnp.inf)


def _share(n: Array, more: Array) -> Array:
    """Return n'/(n + n'), 0 where both are none."""
    return more / jnp.where(n + more > 0, n + more, 1.0)


def _joined_columns(a: Columns, b: Columns) -> Columns:
    """Return Eq. (1) of two sets of rows."""
    share, off = _share(a.n, b.n), b.mean - a.mean
    return Columns(
        a.n + b.n,
        jnp.minimum(a.low, b.low),
        jnp.maximum(a.high, b.high),
        a.mean + off * share,
        a.square + b.square + off**2 * a.n * share,
    )


def _class_moments(params: Array, X: Array, y: Array, w: Array) -> ClassMoments:
    own = statistics(Labelled(X, y, w), len(params))
    squares = jnp.zeros(len(params), X.dtype).at[y].add(w**2)
    return ClassMoments(_columns(params, X, y, w), own, squares)


def _no_classes(shapes: ClassMoments) -> ClassMoments:
    return zeros(shapes)._replace(columns=_no_columns(shapes.columns))


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Return the statistics of two sets of rows as one, Eq. (1)."""
    share, off = _share(a.n, b.n), b.mean - a.mean
    pull = jnp.einsum("c,ci,cj->cij", a.n * share, off, off)
    mean = a.mean + off * share[:, None]
    return ClassStatistics(a.n + b.n, mean, a.scatter + b.scatter + pull)


def _joined_classes(a: ClassMoments, b: ClassMoments) -> ClassMoments:
    return ClassMoments(
        _joined_columns(a.columns, b.columns),
        merge(a.classes, b.classes),
        a.squares + b.squares,
    )


def _as_they_are[S](params: object, moments: S) -> S:
    return moments


COLUMNS = Reduction(_columns, _as_they_are, _joined_columns, _no_columns)
"""The columns of rows; without parameters."""

CLASSES = Reduction(
    _class_moments, _as_they_are, _joined_classes, _no_classes, labelled=True
)
"""Columns and classes; the parameters are any array (c,), which says how many."""


def first_row(source: Source) -> Float[np.ndarray, "d"]:
    """Return the first row, which a pass subtracts, so that means are small."""
    part = next(part for part in source.parts if part.rows)
    return np.asarray(next(iter(source.read(part, 1))).X[0], float)


def column_moments(source: Source) -> Columns:
    """Return the columns of a source, about 0: one pass."""
    origin = first_row(source)
    found = total(COLUMNS, None, source, scaler=Scaler(origin, np.ones_like(origin)))
    return _moved(found, origin)


def class_moments(
    source: Source, classes: np.ndarray
) -> tuple[ClassMoments, Float[np.ndarray, "d"]]:
    """Return columns, about 0, and classes, about the first row, which is returned too.

    One pass.
    """
    origin = first_row(source)
    found = total(
        CLASSES,
        np.zeros(len(classes)),
        source,
        scaler=Scaler(origin, np.ones_like(origin)),
        classes=classes,
    )
    return found._replace(columns=_moved(found.columns, origin)), origin


def _moved(columns: Columns, origin: np.ndarray) -> Columns:
    return columns._replace(
        low=columns.low + origin,
        high=columns.high + origin,
        mean=columns.mean + origin,
    )


def total_scatter(classes: ClassStatistics) -> Float[np.ndarray, "d d"]:
    """Return the scatter of all rows about their mean, from that of each class."""
    n, mean = np.asarray(classes.n), np.asarray(classes.mean)
    about = mean - n @ mean / n.sum()
    return np.asarray(classes.scatter).sum(0) + (about.T * n) @ about


def standardised(
    moments: ClassMoments, origin: Float[np.ndarray, "d"], scaler: Scaler
) -> ClassStatistics:
    """Return the statistics of the classes of standardised rows.

    A scale of infinity makes a column 0.
    """
    own = moments.classes
    mean = (own.mean + (origin - scaler.mean)) / scaler.scale
    mean = np.where(own.n[:, None] > 0, mean, 0.0)
    return own._replace(
        mean=mean, scatter=own.scatter / np.multiply.outer(scaler.scale, scaler.scale)
    )
