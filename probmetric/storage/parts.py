"""What a metric is made of, as JSON text and named arrays, and back again."""

import dataclasses
from typing import Any

import numpy as np

from probmetric.densities.classes import ClassDensities
from probmetric.metric import (
    ClassDistribution,
    Link,
    LocalFisher,
    LocalMahalanobis,
    Mahalanobis,
    PairSimilarity,
)
from probmetric.posterior.stack import MeanDissimilarity

__all__ = ["KINDS", "describe", "rebuild"]

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        ClassDensities,
        ClassDistribution,
        Link,
        LocalFisher,
        LocalMahalanobis,
        Mahalanobis,
        MeanDissimilarity,
        PairSimilarity,
    )
}
"""All that a file can make; whatever else it names is refused."""


def describe(value: Any, name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what JSON can hold of a value, and the arrays it refers to by name."""
    if hasattr(value, "dtype"):
        return {"array": name}, {name: _numbers(np.asarray(value), name)}
    if isinstance(value, float):
        _numbers(np.asarray(value), name)
        return {"float": value.hex()}, {}
    if value is None or isinstance(value, str | int):
        return value, {}
    kind = type(value).__name__
    if KINDS.get(kind) is type(value):
        parts = {key: getattr(value, key) for key in _fields(type(value))}
    elif type(value) is tuple:
        kind, parts = "tuple", {str(k): part for k, part in enumerate(value)}
    else:
        raise ValueError(
            f"metric: wanted one of {', '.join(sorted(KINDS))} or PosteriorMetric, got "
            f"{kind}"
        )
    found = {key: describe(part, f"{name}.{key}") for key, part in parts.items()}
    arrays = {n: a for _, held in found.values() for n, a in held.items()}
    return {"kind": kind, "parts": {k: spec for k, (spec, _) in found.items()}}, arrays


def _numbers(array: np.ndarray, name: str) -> np.ndarray:
    """Return an array of numbers; NaN is none."""
    if array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise ValueError(f"metric: wanted numbers in {name}, got {array.dtype}/NaN")
    return array


def _fields(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind._fields)


def rebuild(spec: Any, arrays: dict[str, np.ndarray], name: str = "metric") -> Any:
    """Rebuild what ``describe`` described; NaN is refused, as there."""
    if isinstance(spec, float):
        _numbers(np.asarray(spec), name)
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return _numbers(arrays[spec["array"]], spec["array"])
    if "float" in spec:
        value = float.fromhex(spec["float"])
        _numbers(np.asarray(value), name)
        return value
    parts = {
        key: rebuild(part, arrays, f"{name}.{key}")
        for key, part in spec["parts"].items()
    }
    if spec["kind"] == "tuple":
        return tuple(parts.values())
    if spec["kind"] not in KINDS:
        raise ValueError(
            f"metric: wanted one of {', '.join(sorted(KINDS))}, got {spec['kind']!r}"
        )
    return KINDS[spec["kind"]](**parts)
