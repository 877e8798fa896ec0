"""Interfaces of metrics, and the checks of their arguments.

All metrics of this package implement ``Metric``. Your own class requires only the
methods of ``Dissimilarity`` for neighbors, votes and posteriors. It must be registered
as a pytree (``jax.tree_util.register_dataclass``). If the class has ``n_features``,
points with another number of features raise an error. The interfaces ``Prepared``
and ``Bounded``, and a method ``maps`` (linear maps that are applied to differences
before squaring), are optional and are used by the neighbor search.

A jitted function of a metric is compiled once for each class and shape of metric.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, Protocol, cast, get_args, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.data.inputs import real, refuse_masked
from probmetric.metric.feature_names import check_columns
from probmetric.precision import finite, numpy_in_numpy_out, one_program, store_native
from probmetric.typing import Array, ArrayLike


@runtime_checkable
class Dissimilarity(Protocol):
    """Interface that your own metric must implement.

    It is sufficient for neighbor search, votes of neighbors and ``PosteriorMetric``.
    Register the class as a JAX pytree, as in the example.

    Attributes
    ----------
    is_distance : bool
        True for a symmetric function that is 0 for equal points and satisfies the
        triangle inequality. The class then also needs a method ``distance(A, B)``. It
        returns the distance (not squared) between each row of A and the same row of B.
    symmetric : bool
        Whether exchanging the two points never changes the dissimilarity.

    Examples
    --------
    A city-block metric:

    >>> from dataclasses import dataclass
    >>> import jax, jax.numpy as jnp, numpy as np
    >>> import probmetric as pm
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
        """Return the dissimilarity of each row of Y from a query q."""
        ...

    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Return dissimilarities of rows of P from rows of Q, shape (m, n)."""
        ...


@runtime_checkable
class Metric(Dissimilarity, Protocol):
    """Interface of all metrics of this package.

    The dissimilarities that ``dissimilarity`` and ``pairwise`` return depend on the
    class:

    - ``Mahalanobis``, ``ClassDistribution``: squared distances.
    - ``SplineCityBlock``: distances.
    - ``LocalMahalanobis``, ``LocalFisher``: squared distances that are not symmetric.
    - ``PairSimilarity``: minus a similarity score. They may be negative.

    ``metric(u, v)`` returns a distance if ``is_distance`` is True, and a dissimilarity
    otherwise. Two metrics are equal only if they are the same object.

    Metrics can be used in scikit-learn: ``pairwise_distances(X, metric=metric)``. If
    ``metric.symmetric`` is False, use ``pairwise_distances(Q, P, metric=metric)``. For
    a single set of points, scikit-learn computes half of the matrix and mirrors it.

    Examples
    --------
    >>> from probmetric.metric import Mahalanobis
    >>> metric = Mahalanobis(np.diag([1.0, 2.0]))
    >>> isinstance(metric, Metric), metric(np.zeros(2), np.array([3.0, 2.0]))
    (True, 5.0)
    """

    @property
    def n_features(self) -> int:
        """Number of features d."""
        ...

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return the distance (or dissimilarity) of v from a query u."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A metric with computations that depend only on the queries.

    If the metric has a method ``refine(Q, P, idx, prepared=None)``, the neighbor search
    passes the result of ``prepare`` to ``refine``. If the metric has a method
    ``prepare_alone(Q)``, the search calls this method instead of tracing ``prepare``.
    ``prepare_alone`` should return the values of ``prepare`` as NumPy arrays.
    """

    def prepare(self, Q: Float[Array, "m d"]) -> Any:
        """Compute the terms that depend only on the queries."""
        ...

    def from_prepared(
        self,
        prepared: Any,
        P: Float[Array, "n d"],  # The result of ``prepare``.
    ) -> Float[Array, "m n"]:
        """Return ``pairwise(Q, P)`` given ``prepare(Q)``."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A metric that cannot be computed at every query."""

    def refuse_far(self, X: Float[np.ndarray, "m d"], name: str) -> None:
        """Raise ValueError for unsupported queries X, the argument called ``name``."""
        ...


@runtime_checkable
class MetricDraws(Protocol):
    """The interface of draws of a metric, such as a ``PosteriorMetric``."""

    def metrics(self) -> list[Dissimilarity]:
        """Return the draws."""
        ...

    def mean_metric(self) -> Metric:
        """Return the metric of mean dissimilarity over draws."""
        ...


@runtime_checkable
class Uncertain(Protocol):
    """A metric with draws or refits, from which neighbors have probabilities."""

    def point_metric(self) -> Dissimilarity:
        """Return the metric that orders neighbors."""
        ...

    def neighbor_draws(self, name: str) -> Sequence[Dissimilarity]:
        """Return metrics to count neighbors, or raise an error for the method name."""
        ...


def _repr(kind: str, values: Mapping[str, object]) -> str:
    words: list[str] = []
    for name, value in values.items():
        if (as_dict := getattr(value, "_asdict", None)) is not None:
            word = _repr(type(value).__name__, as_dict())
        elif isinstance(value, tuple) and value:
            word = f"{len(value)} of {type(value[0]).__name__}"
        elif isinstance(value, str):
            word = repr(value)
        else:
            word = np.shape(cast("ArrayLike", value)) or value
        words += [] if value is None else [f"{name}={word}"]
    return f"{kind}({', '.join(words)})"


def maps_of(metric: object) -> list[Array]:
    """Return the linear maps that a metric applies to differences before squaring."""
    return cast("Any", metric).maps() if hasattr(metric, "maps") else []


def check_metric(metric: object, what: str = "a metric") -> None:
    """Raise ValueError unless ``metric`` is a metric."""
    if isinstance(metric, Uncertain) and not isinstance(metric, MetricDraws):
        raise ValueError(
            f"metric must be {what}, got {type(metric).__name__}. Use its "
            "point_metric(), or neighbor_table."
        )
    if hasattr(metric, "pairwise") and not isinstance(metric, type):
        return
    kind = metric if isinstance(metric, type) else type(metric)
    remedy = ". Pass its get_metric()." if hasattr(metric, "get_metric") else ""
    raise ValueError(f"metric must be {what}, got {kind.__name__}{remedy}")


def check_features(metric: object, **points: ArrayLike) -> None:
    """Raise ValueError if points do not have the metric's number of features."""
    n_features = getattr(metric, "n_features", None)
    if n_features is None:
        return
    for name, X in points.items():
        shape = np.shape(X if hasattr(X, "shape") else real(X, name))
        if shape[-1:] != (n_features,):
            raise ValueError(
                f"{name} must have {n_features} features, as the metric, got "
                f"{shape[-1] if shape else 'a single number'}"
            )


def two_points(metric: object, u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return two points as arrays of shape (d,), or raise ValueError."""
    points = {"u": _in_floats("u", u), "v": _in_floats("v", v)}
    check_features(metric, **points)
    for name, x in points.items():
        _check_rank(name, x, "d")
    return points["u"], points["v"]


def measured[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a metric's method by ``numpy_in_numpy_out``, and check its arguments.

    All positional arguments except ``idx`` are points. The shape of points must match
    the annotation and the number of features. Lists and integers are converted to
    floats. A NumPy result with NaN or infinity raises ValueError.
    """
    return _checked(function, infinite=False)


def log_measured[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method by ``measured``, but allow infinite results (logarithms)."""
    return _checked(function, infinite=True)


def _checked[**P, R](function: Callable[P, R], *, infinite: bool) -> Callable[P, R]:
    inner: Callable[..., R] = numpy_in_numpy_out(function)
    _, *parameters = signature(function).parameters.values()
    axes = {
        p.name: _axes_of(p.annotation)
        for p in parameters
        if p.kind is not p.KEYWORD_ONLY and p.name != "idx"
    }

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        metric, *values = cast("tuple[Array, ...]", args)
        names = (p.name for p in parameters)
        arguments: dict[str, Any] = dict(zip(names, values, strict=False)) | kwargs
        points = {name: arguments[name] for name in axes if name in arguments}
        points = check_columns(metric, **points)
        points = {name: _in_floats(name, X) for name, X in points.items()}
        check_features(metric, **points)
        for name, X in points.items():
            _check_rank(name, X, axes[name])
        _check_rows(points, axes)
        arguments |= points
        result = inner(metric, **arguments)
        if isinstance(result, (np.ndarray, np.floating)):
            array = np.asarray(result)
            if not infinite or np.isnan(array).any():
                finite(array, function.__name__, *jax.tree.leaves(arguments))
        return result

    return wrapper


def _axes_of(annotation: Any) -> str:
    return (get_args(annotation) or (annotation,))[0].dim_str


def _check_rank(name: str, X: Array, axes: str) -> None:
    names = axes.split()
    if not axes.startswith("*") and np.ndim(X) != len(names):
        shape = ", ".join(names) + ("," if len(names) == 1 else "")
        raise ValueError(f"{name} must have shape ({shape}), got {np.shape(X)}")


def _check_rows(points: dict[str, Array], axes: dict[str, str]) -> None:
    names = list(points)
    if len(names) == 2 and axes[names[0]] == axes[names[1]]:
        first, second = (np.shape(points[name])[:-1] for name in names)
        if first == second:
            return
        try:
            np.broadcast_shapes(first, second)
        except ValueError:
            raise ValueError(
                f"{names[1]} must have as many rows as {names[0]} ({first}), or one "
                f"row, got {second}"
            ) from None


def _in_floats(name: str, value: ArrayLike) -> Array:
    """Return an array of floats."""
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
    plain = kind == "f" or (isinstance(value, jax.Array) and kind != "c")
    return value if plain else real(value, name)


class MetricBase:
    """The methods that the metrics of this package share."""

    is_distance: ClassVar[bool]
    __post_init__ = store_native

    def __repr__(self) -> str:
        names = [field.name for field in fields(cast("Any", self))]
        return _repr(type(self).__name__, {n: getattr(self, n) for n in names})

    @measured
    @one_program
    def dissimilarity(
        self, q: Float[Array, "d"], Y: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Return the dissimilarity of each row of Y from a query q."""
        metric = cast("Metric", self)
        return metric.pairwise(jnp.asarray(q)[None], jnp.asarray(Y))[0]

    def __call__(self, u: Float[Array, "d"], v: Float[Array, "d"]) -> float:
        """Return the distance (or dissimilarity) of v from a query u."""
        u, v = two_points(self, u, v)
        if self.is_distance:
            return float(cast("Any", self).distance(u[None], v[None])[0])
        return float(self.dissimilarity(u, v[None])[0])
