"""One small metric of every kind, on three features, for tests that hold for all."""

from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from probmetric import metric as kinds
from probmetric.densities.classes import ClassDensities
from probmetric.metric import (
    ClassDistribution,
    Link,
    LocalFisher,
    LocalMahalanobis,
    Mahalanobis,
    PairSimilarity,
    SplineCityBlock,
)
from probmetric.metric.mean import MeanDissimilarity

D = 3


def _mahalanobis(rng):
    return Mahalanobis(rng.normal(size=(2, D)), Link(np.array(0.1), np.array(0.5)))


def _densities(rng):
    factor = np.tril(rng.normal(size=(2, 1, D, D)), -1) * 0.3 + np.eye(D)
    return ClassDensities(
        np.log(np.full(2, 0.5)),
        np.zeros((2, 1)),
        2 * rng.normal(size=(2, 1, D)),
        factor,
        np.zeros((2, 1)),
    )


def _local_mahalanobis(rng):
    frame = np.eye(D) + 0.1 * rng.normal(size=(D, D))
    return LocalMahalanobis(_densities(rng), frame, np.zeros(D), np.array(0.5))


def _pair_similarity(rng):
    A = rng.normal(size=(2, D, D))
    return PairSimilarity(
        np.log(np.array([0.4, 0.6])),
        2 * rng.normal(size=(2, D)),
        A @ np.swapaxes(A, 1, 2) + np.eye(D),
        np.broadcast_to(0.3 * np.eye(D), (2, D, D)).copy(),
    )


def _spline_city_block(rng):
    knots = np.sort(3 * rng.normal(size=(D, 3)), 1)
    link = Link(np.array(0.1), np.array(1.0))
    return SplineCityBlock(knots, rng.exponential(size=(D, 3)), link)


def _class_parts(rng):
    return (
        rng.normal(size=(2, D)),
        np.log(np.full((3, 2), 1 / 6)),
        2 * rng.normal(size=(3, 2, 2)),
        np.broadcast_to(np.eye(2), (3, 1, 2, 2)).copy(),
    )


BUILDERS = {
    "Mahalanobis": _mahalanobis,
    "LocalMahalanobis": _local_mahalanobis,
    "PairSimilarity": _pair_similarity,
    "SplineCityBlock": _spline_city_block,
    "ClassDistribution": lambda rng: ClassDistribution(*_class_parts(rng)),
    "LocalFisher": lambda rng: LocalFisher(*_class_parts(rng)),
}

# Links are dataclasses too, but measure nothing.
NAMES = sorted(
    name
    for name in kinds.__all__
    if is_dataclass(kind := getattr(kinds, name)) and hasattr(kind, "pairwise")
)


def build(name, seed=0):
    """Return a metric of a kind; a kind without a builder is an error by name."""
    if name not in BUILDERS:
        raise KeyError(f"tests/metric_kinds.py builds no {name}: add it to BUILDERS")
    return BUILDERS[name](np.random.default_rng(seed))


def in_units(metric, scale):
    """Return the same metric for points times a scale."""
    if isinstance(metric, MeanDissimilarity):
        return MeanDissimilarity(tuple(in_units(m, scale) for m in metric.draws))
    if isinstance(metric, Mahalanobis):
        return replace(metric, factor=metric.factor / scale)
    if isinstance(metric, SplineCityBlock):
        return replace(metric, knots=metric.knots * scale)
    if isinstance(metric, LocalMahalanobis):
        return metric.rescaled(np.full(D, scale), np.zeros(D))
    if isinstance(metric, PairSimilarity):
        with np.errstate(over="ignore"):
            parts = {"means": metric.means * scale}
            for name in ("between", "noise"):
                parts[name] = getattr(metric, name) * scale * scale
        return replace(metric, **parts)
    return replace(metric, A=metric.A / scale)


def largest_intermediate(function, *args):
    """Return the number of elements of the largest value that a trace computes."""

    def inner(value):
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            for item in value:
                yield from inner(item)

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            for out in equation.outvars:
                yield int(np.prod(out.aval.shape))
            for value in equation.params.values():
                for part in inner(value):
                    yield from walk(part)

    with jax.enable_x64(True):
        return max(walk(jax.make_jaxpr(function)(*args).jaxpr))


def as_distances(metric, D):
    """Return distances of what ``pairwise`` gives: its root where it is squared."""
    squared = metric.is_distance and not isinstance(metric, SplineCityBlock)
    return np.sqrt(D) if squared else np.asarray(D)


def build_euclid(d=2):
    """Return Euclid's distance."""
    return Mahalanobis(np.eye(d))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wrapped:
    """A kind that no library serves: squared distances plus a shift per query."""

    inner: Any
    shift: Any = 0.0
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    def dissimilarity(self, q, Y):
        return self.inner.dissimilarity(q, Y) + self.shift * jnp.sum(q)

    def pairwise(self, Q, P):
        return jax.vmap(lambda q: self.dissimilarity(q, P))(Q)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coarse:
    """A kind whose pairwise cancels (a product form) and whose refine does not."""

    offset: Any
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    def dissimilarity(self, q, Y):
        return jnp.sum((Y - q) ** 2, -1)

    def pairwise(self, Q, P):
        Q, P = Q + self.offset, P + self.offset
        return jnp.sum(Q**2, 1)[:, None] + jnp.sum(P**2, 1) - 2 * Q @ P.T

    def refine(self, Q, P, idx):
        return np.sum((P[idx] - Q[:, None]) ** 2, -1)
