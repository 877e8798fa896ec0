"""What a metric offers: ``Metric``, ``Dissimilarity`` of your own, ``MetricDraws``.

Every kind of this package is a ``Metric``. A class of your own needs no more than a
``Dissimilarity`` for neighbours, votes and posteriors (with ``distance`` where it is
one); JAX has to know it as a pytree
(``jax.tree_util.register_dataclass``). Points with the wrong number of features are
refused wherever the metric says how many it takes, by ``n_features``. What the search
can make use of is optional: ``Prepared``, ``Squared`` and ``Bounded``.

JAX compares structures and shapes, not metrics: functions under ``jit`` are compiled
once for a kind and shape.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

from probmetric.data.inputs import real, refuse_masked
from probmetric.metric.feature_names import check_columns
from probmetric.precision import finite, numpy_in_numpy_out
from probmetric.typing import Array


@runtime_checkable
class Dissimilarity(Protocol):
    """The interface that neighbours need: enough for a metric of your own.

    Where ``is_distance`` is True they also ask ``distance(A, B)``, the distances (not
    squared) between matching rows.

    Examples
    --------
    City blocks, as a metric of one's own. JAX is told that its arrays are its fields:

    >>> from dataclasses import dataclass
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.metric import Dissimilarity
    >>> @jax.tree_util.register_dataclass
    ... @dataclass(frozen=True, eq=False)
    ... class CityBlock:
    ...     weight: object
    ...     is_distance, symmetric = False, True
    ...     def dissimilarity(self, q, Y):
    ...         return jnp.sum(self.weight * jnp.abs(Y - q), -1)
    ...     def pairwise(self, Q, P):
    ...         return jax.vmap(lambda q: self.dissimilarity(q, P))(Q)
    >>> metric, points = CityBlock(np.ones(2)), np.array([[2.0, 0.0], [1.5, 1.5]])
    >>> D, index = pm.nearest(metric, np.zeros((1, 2)), points, 2)
    >>> isinstance(metric, Dissimilarity), D.tolist(), index.tolist()
    (True, [[2.0, 3.0]], [[0, 1]])
    """

    is_distance: ClassVar[bool]
    symmetric: ClassVar[bool]

    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return how far the rows of Y are from one query; smaller is closer."""
        ...

    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return how far each row of P is from each query, shape (m, n)."""
        ...


@runtime_checkable
class Metric(Dissimilarity, Protocol):
    """The interface that every metric of this package has.

    Notes
    -----
    ``metric(u, v)`` is how far v is from the query u, smaller is closer: the distance
    of kinds that are one (``is_distance``), otherwise the entry of ``pairwise``. For
    Mahalanobis kinds ``pairwise`` is the square of it, for ``ClassDistribution`` too;
    for ``PairSimilarity`` it is minus the score, so that it may be negative.

    Two metrics are equal where they are the same object: metrics can be members of
    sets and keys of dictionaries, and ``==`` compares no arrays.

    ``sklearn.metrics.pairwise_distances(X, metric=metric)`` takes it as it is. With
    one set of points scikit-learn fills one half of the matrix and mirrors it: where
    ``symmetric`` is False hand in both, ``pairwise_distances(Q, P, metric=metric)``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.metric import Mahalanobis
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> isinstance(metric, Metric), metric(np.zeros(2), np.array([3.0, 2.0]))
    (True, 5.0)
    """

    @property
    def n_features(self) -> int:
        """Number of features d of the points it takes."""
        ...

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return how far v is from the query u."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A metric whose queries share what need not be computed again for every point.

    Where it has ``refine(Q, P, idx, prepared=None)`` too, that is given what is shared;
    JAX traces it as the rest. Where it has ``prepare_alone(Q)``, which returns the same
    of NumPy arrays, a search calls that and does not trace it.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.metric import Mahalanobis, Prepared
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> Q, P = np.ones((1, 2)), np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> isinstance(metric, Prepared), metric.prepare(Q).tolist()  # their images
    (True, [[1.0, 2.0]])
    >>> metric.from_prepared(metric.prepare(Q), P).tolist()
    [[5.0, 4.0]]
    >>> metric.pairwise(Q, P).tolist()
    [[5.0, 4.0]]
    """

    def prepare(self, Q: Float[Array, "m d"]) -> Any:
        """Return what the dissimilarities from the rows of Q share."""
        ...

    def from_prepared(
        self, prepared: Any, P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)`` given ``prepare(Q)``."""
        ...


@runtime_checkable
class Squared(Protocol):
    """A metric of squared lengths of mapped differences, which float64 may not hold.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.metric import Mahalanobis, Squared
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> isinstance(metric, Squared), [L.tolist() for L in metric.maps()]
    (True, [[[1.0, 0.0], [0.0, 2.0]]])
    """

    def maps(self) -> list[Array]:
        """Return the linear maps that are taken before squares."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A metric that cannot be computed at every query.

    Examples
    --------
    A metric from class densities takes fourth powers of points, and refuses queries
    further than 1e75 away:

    >>> import numpy as np
    >>> from probmetric.densities import ClassDensities
    >>> from probmetric.metric import Bounded, Mahalanobis, local_metric
    >>> one, centres = np.ones((2, 1)), np.array([[[-1.0]], [[1.0]]])
    >>> factors = np.ones((2, 1, 1, 1))
    >>> classes = ClassDensities(np.log([0.5, 0.5]), 0 * one, centres, factors, 0 * one)
    >>> metric = local_metric(classes)
    >>> isinstance(metric, Bounded), isinstance(Mahalanobis(np.eye(2)), Bounded)
    (True, False)
    >>> metric.refuse_far(np.array([[1e80]]), "X")
    Traceback (most recent call last):
    ValueError: X: expected queries within 1e75 of the centre in coordinates of the \
frame, got a largest entry of 1e+80
    """

    def refuse_far(self, X: Float[np.ndarray, "m d"], name: str) -> None:
        """Raise a ValueError that names ``name`` for queries it cannot take."""
        ...


@runtime_checkable
class MetricDraws(Protocol):
    """What neighbours ask of draws of a metric, such as a ``PosteriorMetric``."""

    def metrics(self) -> list[Any]:
        """Return the draws, a metric each."""
        ...

    def mean_metric(self) -> Metric:
        """Return the metric of mean dissimilarity over draws."""
        ...


def said(self: Any) -> str:
    """Write a metric with shapes in the place of its arrays, as its ``__repr__``."""
    parts = {f.name: getattr(self, f.name) for f in fields(self)}
    return _written(type(self).__name__, parts)


def _written(kind: str, parts: dict[str, Any]) -> str:
    """Write parts by name; what was not given, None, is left out."""
    words = []
    for name, part in parts.items():
        if hasattr(part, "_asdict"):
            word = _written(type(part).__name__, part._asdict())
        elif isinstance(part, tuple):
            word = f"{len(part)} of {type(part[0]).__name__}" if part else part
        elif isinstance(part, str):
            word = repr(part)
        else:  # A number, also as an array, reads as one.
            word = np.shape(part) or part
        words += [] if part is None else [f"{name}={word}"]
    return f"{kind}({', '.join(words)})"


def features_of(metric: Any) -> int | None:
    """Return the number of features a metric takes, None where it does not say."""
    return getattr(metric, "n_features", None)


def maps_of(metric: Any) -> list[Array]:
    """Return the maps before a metric's squares; none where it takes no squares."""
    return metric.maps() if isinstance(metric, Squared) else []


def check_metric(metric: Any, what: str = "a metric") -> None:
    """Refuse what is no metric; of a learner say where its metric is.

    Raises
    ------
    ValueError
    """
    if hasattr(metric, "pairwise") and not isinstance(metric, type):
        return
    kind = metric if isinstance(metric, type) else type(metric)
    where = "; give its get_metric()" if hasattr(metric, "get_metric") else ""
    raise ValueError(f"metric: expected {what}, got {kind.__name__}{where}")


def check_features(metric: Any, **points: Any) -> None:
    """Refuse points, given by the names of arguments, of another number of features.

    Raises
    ------
    ValueError
        Naming the first argument whose last axis does not fit.
    """
    wanted = features_of(metric)
    if wanted is None:
        return
    for name, X in points.items():
        shape = np.shape(X if hasattr(X, "shape") else real(X, name))
        if shape[-1:] != (wanted,):
            raise ValueError(
                f"{name}: expected {wanted} features as the metric has, got "
                f"{shape[-1] if shape else 'a single number'}"
            )


def two_points(metric: Any, u: Any, v: Any) -> tuple[Array, Array]:
    """Return two points as arrays of shape (d,), or refuse what is none."""
    points = {"u": _in_floats("u", u), "v": _in_floats("v", v)}
    check_features(metric, **points)
    for name, x in points.items():
        _check_rank(name, x, "d")
    return points["u"], points["v"]


def measured[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a metric's method as ``numpy_in_numpy_out``, and check what comes and goes.

    Its positional arguments are points, real numbers whose shape has to be that of
    their annotation and whose number of features has to fit (``check_features``), but
    for ``idx``, indices of points. What is no array of floats, lists and whole numbers
    (differences of uint8 are modulo 256), is taken as one. NumPy results hold no NaN or
    infinity.

    Raises
    ------
    ValueError
        Naming the first argument that does not fit; or the method and the largest
        number that came in, for results that float64 cannot hold.
    """
    return _refusing(function, infinite=False)


def log_measured[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap as ``measured``; results are logarithms, so that -inf is one of them."""
    return _refusing(function, infinite=True)


def _refusing[**P, R](function: Callable[P, R], *, infinite: bool) -> Callable[P, R]:
    inner: Any = numpy_in_numpy_out(function)
    _, *takes = signature(function).parameters.values()
    axes = {
        p.name: _axes_of(p.annotation)
        for p in takes
        if p.kind is not p.KEYWORD_ONLY and p.name != "idx"
    }

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        metric, *values = args
        given: Any = dict(zip((p.name for p in takes), values, strict=False)) | kwargs
        points = {n: given[n] for n in axes if n in given}
        check_columns(metric, **points)
        points = {n: _in_floats(n, X) for n, X in points.items()}
        check_features(metric, **points)
        for name, X in points.items():
            _check_rank(name, X, axes[name])
        _check_rows(points, axes)
        given |= points
        result: R = inner(metric, **given)
        if isinstance(result, (np.ndarray, np.floating)):
            values = np.asarray(result)
            if not infinite or np.isnan(values).any():
                finite(values, function.__name__, *jax.tree.leaves(given))
        return result

    return wrapper


def _axes_of(annotation: Any) -> str:
    """Return the axes that an annotation names: "n d" of ``Float[Array, "n d"]``."""
    return (get_args(annotation) or (annotation,))[0].dim_str


def _check_rank(name: str, X: Any, axes: str) -> None:
    """Refuse points of another number of axes than named, but for a free "*n"."""
    wanted = axes.split()
    if not axes.startswith("*") and np.ndim(X) != len(wanted):
        shape = ", ".join(wanted) + ("," if len(wanted) == 1 else "")
        raise ValueError(f"{name}: expected shape ({shape}), got {np.shape(X)}")


def _check_rows(points: dict[str, Any], axes: dict[str, str]) -> None:
    """Refuse two sets of matching rows whose numbers of rows do not match."""
    names = list(points)
    if len(names) == 2 and axes[names[0]] == axes[names[1]]:
        first, second = (np.shape(points[name])[:-1] for name in names)
        if first == second:
            return
        try:
            np.broadcast_shapes(first, second)
        except ValueError:
            raise ValueError(
                f"{names[1]}: expected rows that match those of {names[0]}, {first}, "
                f"got {second}"
            ) from None


def _in_floats(name: str, value: Any) -> Any:
    """Return what is given as an array of floats; complex ones are refused later."""
    if not isinstance(value, np.ndarray | jax.Array):
        return real(value, name)
    if isinstance(value, np.ma.MaskedArray):
        refuse_masked(value, name)
        value = np.asarray(value)
    kind = value.dtype.kind
    if kind in "iub":
        return value.astype(float)
    if kind == "f" and (value.dtype.itemsize > 8 or not value.dtype.isnative):
        return value.astype(f"f{min(value.dtype.itemsize, 8)}")
    return value if kind in "fc" or isinstance(value, jax.Array) else real(value, name)
