"""Moments of the columns and classes of a dataset on disk, in one pass.

The statistics of a block are about the means of the block. Let two sets have n and n'
rows, means m and m', and scatters S and S'. With δ = m' - m, by the formulas of Chan,
Golub and LeVeque, the union has the mean and the scatter

    m + δ n'/(n + n'),      S + S' + δδᵀ n n'/(n + n'),                            (1)

These formulas do not subtract large numbers. The statistics of columns count every row
of positive weight once, as scaling does. The statistics of classes sum the weights.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Labeled
from probmetric.data.scaling import Scaler
from probmetric.inference.gaussian_classes.posterior import (
    ClassStatistics,
    statistics,
)
from probmetric.large.reduce import Reduction, total, zeros
from probmetric.large.source import Source
from probmetric.typing import Array


class Columns(NamedTuple):
    """Number of rows of positive weight; minimum, maximum, mean, Σ(x - mean)² (d,)."""

    n: Float[Array, ""]
    low: Float[Array, "d"]
    high: Float[Array, "d"]
    mean: Float[Array, "d"]
    square: Float[Array, "d"]


class ClassMoments(NamedTuple):
    """Moments of columns, statistics of classes, and Σw² of each class (c,)."""

    columns: Columns
    classes: ClassStatistics
    squares: Float[Array, "c"]


def _columns(params: object, X: Array, y: Array, w: Array) -> Columns:
    counted = w > 0
    n = jnp.sum(counted.astype(X.dtype))
    indicator = jnp.where(counted, 1.0, 0.0)
    mean = indicator @ X / jnp.maximum(n, 1.0)
    square = indicator @ (X - mean) ** 2
    low = jnp.min(jnp.where(counted[:, None], X, jnp.inf), 0)
    high = jnp.max(jnp.where(counted[:, None], X, -jnp.inf), 0)
    return Columns(n, low, high, mean, square)


def _no_columns(shapes: Columns) -> Columns:
    none = zeros(shapes)
    return none._replace(low=none.low + jnp.inf, high=none.high - jnp.inf)


def _share(n: Array, more: Array) -> Array:
    return more / jnp.where(n + more > 0, n + more, 1.0)


def _joined_columns(a: Columns, b: Columns) -> Columns:
    share, off = _share(a.n, b.n), b.mean - a.mean
    return Columns(
        a.n + b.n,
        jnp.minimum(a.low, b.low),
        jnp.maximum(a.high, b.high),
        a.mean + off * share,
        a.square + b.square + off**2 * a.n * share,
    )


def _class_moments(params: Array, X: Array, y: Array, w: Array) -> ClassMoments:
    classes = statistics(Labeled(X, y, w), len(params))
    squares = jnp.zeros(len(params), X.dtype).at[y].add(w**2)
    return ClassMoments(_columns(params, X, y, w), classes, squares)


def _no_classes(shapes: ClassMoments) -> ClassMoments:
    return zeros(shapes)._replace(columns=_no_columns(shapes.columns))


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Combine the class statistics of two sets of rows, Eq. (1)."""
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


def _unchanged[S](params: object, moments: S) -> S:
    return moments


COLUMNS = Reduction(_columns, _unchanged, _joined_columns, _no_columns)
"""Moments of columns only. The parameters are not used."""

CLASSES = Reduction(
    _class_moments, _unchanged, _joined_classes, _no_classes, labeled=True
)
"""Moments of columns and classes. The parameters are any array with c entries."""


def first_row(source: Source) -> Float[np.ndarray, "d"]:
    """Read the first row, which passes subtract so that means are small."""
    part = next(part for part in source.parts if part.rows)
    return np.asarray(next(iter(source.read(part, 1))).X[0], float)


def column_moments(source: Source) -> Columns:
    """Compute the moments of the columns of a dataset in one pass."""
    origin = first_row(source)
    columns = total(COLUMNS, None, source, scaler=Scaler(origin, np.ones_like(origin)))
    return _moved(columns, origin)


def class_moments(
    source: Source, classes: np.ndarray
) -> tuple[ClassMoments, Float[np.ndarray, "d"]]:
    """Compute the moments of columns and classes in one pass, and the first row (d,).

    Moments of columns are in input units. Moments of classes are relative to the first
    row.
    """
    origin = first_row(source)
    moments = total(
        CLASSES,
        np.zeros(len(classes)),
        source,
        scaler=Scaler(origin, np.ones_like(origin)),
        classes=classes,
    )
    return moments._replace(columns=_moved(moments.columns, origin)), origin


def _moved(columns: Columns, origin: np.ndarray) -> Columns:
    return columns._replace(
        low=columns.low + origin,
        high=columns.high + origin,
        mean=columns.mean + origin,
    )


def total_scatter(classes: ClassStatistics) -> Float[np.ndarray, "d d"]:
    """Compute the scatter of all rows about their mean from the class statistics."""
    n, mean = np.asarray(classes.n), np.asarray(classes.mean)
    about = mean - n @ mean / n.sum()
    return np.asarray(classes.scatter).sum(0) + (about.T * n) @ about


def standardized(
    moments: ClassMoments, origin: Float[np.ndarray, "d"], scaler: Scaler
) -> ClassStatistics:
    """Standardize class statistics; a scale of infinity makes a column 0."""
    classes, scale = moments.classes, scaler.scale
    mean = (classes.mean + (origin - scaler.mean)) / scale
    mean = np.where(classes.n[:, None] > 0, mean, 0.0)
    scatter = classes.scatter / np.multiply.outer(scale, scale)
    return classes._replace(mean=mean, scatter=scatter)
