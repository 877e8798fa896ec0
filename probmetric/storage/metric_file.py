"""Metrics on disk: an NPZ archive of plain arrays with a JSON header.

The array ``header`` is JSON text with the format and format version, the class and the
fields of the metric, feature names, and provenance. ``describe`` converts a metric to a
description and named arrays, and ``rebuild`` converts them back. Files contain no code
and no pickle. Only classes in ``KINDS`` and classes passed by the caller are created.
Draws are stored as one array per field, with a leading axis of draws. So are a fit and
its refits.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import numpy as np

from probmetric import __version__
from probmetric.densities.classes import ClassDensities
from probmetric.files import Archive, replacing
from probmetric.metric import (
    ClassDistribution,
    Link,
    LocalFisher,
    LocalMahalanobis,
    LogLogisticLink,
    Mahalanobis,
    PairSimilarity,
    SplineCityBlock,
)
from probmetric.metric.feature_names import named, names_of, unknown_of
from probmetric.metric.link import IsotonicLink
from probmetric.metric.mean import MeanDissimilarity
from probmetric.metric.pair_similarity import Calibration
from probmetric.metric.protocol import Dissimilarity, Metric, check_metric
from probmetric.metric.splines import Coordinates
from probmetric.names import check_file
from probmetric.neighbors.voting import VotingMahalanobis
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import in_native_order

type Arrays = dict[str, np.ndarray]

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Calibration, ClassDensities, ClassDistribution, IsotonicLink, Link),
        *(LocalFisher, LocalMahalanobis, LogLogisticLink, Mahalanobis),
        *(MeanDissimilarity, PairSimilarity, SplineCityBlock, Coordinates),
        VotingMahalanobis,
    )
}
"""All classes that can be loaded without the argument ``kinds``."""

FORMAT = "probmetric-metric"
VERSION = 1
OWN, ABOUT = "own", "provenance."

SEVERAL: dict[str, tuple[str, ...]] = {
    "PosteriorMetric": ("purpose", "source", "pairs_independent", "credible"),
    "IntervalMetric": ("factor", "df", "about"),
}
"""Classes that are stored as several metrics, with their other fields."""


def describe(value: object, name: str) -> tuple[Any, Arrays]:
    """Return a JSON description of a value, and the named arrays of the value."""
    if hasattr(value, "dtype"):
        return {"array": name}, {name: _numbers(value, name)}
    if isinstance(value, float):
        _numbers(value, name)
        return {"float": value.hex()}, {}
    if value is None or isinstance(value, str | int):
        return value, {}
    kind, parts = type(value).__name__, dict[str, object]()
    if hasattr(value, "to_arrays") and hasattr(value, "from_arrays"):
        own = cast(Any, value).to_arrays()
        arrays = {f"{name}.{k}": _numbers(a, f"{name}.{k}") for k, a in own.items()}
        # The leading point keeps these names different from names of the format.
        spec = {at.removeprefix(name): {"array": at} for at in arrays}
        return {"kind": OWN, "class": kind, "parts": spec}, arrays
    if KINDS.get(kind) is type(value):
        parts = {key: getattr(value, key) for key in _fields(type(value))}
    elif type(value) is tuple:
        elements = cast("tuple[object, ...]", value)
        kind, parts = "tuple", {str(k): part for k, part in enumerate(elements)}
    else:
        raise ValueError(
            f"metric must be one of {', '.join([*sorted(KINDS), *SEVERAL])}, or "
            f"your own class with the methods to_arrays and from_arrays, got {kind}"
        )
    described = {key: describe(part, f"{name}.{key}") for key, part in parts.items()}
    arrays = {n: a for _, part in described.values() for n, a in part.items()}
    return {"kind": kind, "parts": {k: s for k, (s, _) in described.items()}}, arrays


def _numbers(values: object, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):
            if not (array.size and np.isnan(array.min())):
                return array
    content = "NaN" if array.dtype.kind in "biuf" else array.dtype
    raise ValueError(f"metric: arrays must be numeric, got {content} in {name}")


def _fields(kind: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind._fields)


def rebuild(
    spec: Any, arrays: Arrays, name: str = "metric", *, kinds: Sequence[type[Any]] = ()
) -> Any:
    """Create the value from its description, or raise ValueError for NaN."""
    if isinstance(spec, float):
        _numbers(spec, name)
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return _numbers(arrays[spec["array"]], spec["array"])
    if "float" in spec:
        value = float.fromhex(spec["float"])
        _numbers(value, name)
        return value
    parts = {
        key: rebuild(part, arrays, f"{name}.{key}", kinds=kinds)
        for key, part in spec["parts"].items()
    }
    if spec["kind"] == "tuple":
        return tuple(parts.values())
    if spec["kind"] == OWN:
        for kind in kinds:
            if kind.__name__ == spec["class"]:
                return kind.from_arrays({key[1:]: a for key, a in parts.items()})
        raise ValueError(
            f"kinds must contain {spec['class']}, the class of the metric in the file, "
            f"got {[kind.__name__ for kind in kinds]}. Use load_metric(path, "
            f"kinds=[{spec['class']}])."
        )
    if spec["kind"] not in KINDS:
        raise ValueError(
            "metric must have a kind that this version supports, got "
            f"{spec['kind']!r} in the file. Update probmetric, or save the metric "
            "again."
        )
    return KINDS[spec["kind"]](**parts)


class Stored(NamedTuple):
    """A stored metric, with feature names, provenance and version of the file."""

    metric: Dissimilarity | PosteriorMetric | IntervalMetric
    feature_names: tuple[str, ...] | None
    provenance: dict[str, Any]
    version: str


def save_metric(
    metric: object,
    path: "str | Path",
    *,
    feature_names: Sequence[str] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> None:
    """Store a metric of any kind, its draws, or its refits, for ``load_metric``.

    An existing file is replaced. If writing fails, the existing file is not changed.

    Parameters
    ----------
    metric : Metric, PosteriorMetric or IntervalMetric
        Metric of this package or of your own class, without NaN. Your own class should
        have a method ``to_arrays()``, which returns arrays of numbers by name, and a
        class method ``from_arrays(arrays)``. A metric of this package is not supported
        if its attribute ``link`` has your own class.
    path : str or Path
        File name, by convention with the suffix ``.npz``.
    feature_names : sequence of d str, optional
        Feature names to store. The loaded metric raises an error for a data frame with
        other columns. Default: the feature names of the training data, if any.
    provenance : mapping, optional
        Information about the origin of the metric: JSON values or arrays of numbers.

    Examples
    --------
    >>> import tempfile, numpy as np, probmetric as pm
    >>> path = Path(tempfile.mkdtemp()) / "metric.npz"
    >>> pm.save_metric(pm.Mahalanobis(np.eye(2)), path)
    >>> float(pm.load_metric(path)(np.zeros(2), np.array([3.0, 4.0])))
    5.0
    """
    if isinstance(metric, PosteriorMetric | IntervalMetric):
        spec, arrays = _describe_several(metric)
    else:
        check_metric(metric, "a metric or draws of one")
        spec, arrays = describe(metric, "metric")
    names = names_of(metric) if feature_names is None else feature_names
    about = dict(provenance or {})
    for name in [n for n, value in about.items() if isinstance(value, np.ndarray)]:
        arrays[f"{ABOUT}{name}"] = _numbers(about.pop(name), name)
    header = {
        "format": FORMAT,
        "format_version": VERSION,
        "probmetric_version": __version__,
        "metric": spec,
        "feature_names": None if names is None else list(names),
        "handle_unknown": unknown_of(metric),
        "provenance": about,
    }
    try:
        text = json.dumps(header)
    except TypeError as error:
        raise ValueError(
            f"provenance: values must be representable in JSON, got {error}"
        ) from error
    with replacing(Path(path)) as part, part.open("wb") as file:
        np.savez(file, header=np.array(text), **cast(Any, arrays))


def _describe_several(
    metric: PosteriorMetric | IntervalMetric,
) -> tuple[Any, Arrays]:
    if isinstance(metric, IntervalMetric):
        metrics = (metric.metric, *metric.left_out)
    else:
        metrics = metric.draws
    described = [describe(one, "draws") for one in metrics]
    spec, first = described[0]
    stacked = {name: np.stack([a[name] for _, a in described]) for name in first}
    kind = type(metric).__name__
    head = {"kind": kind, "n_draws": len(described), "draw": spec}
    return head | {name: getattr(metric, name) for name in SEVERAL[kind]}, stacked


@overload
def load_metric(path: "str | Path") -> Metric | PosteriorMetric | IntervalMetric: ...
@overload
def load_metric(
    path: "str | Path", *, kinds: Sequence[type]
) -> Dissimilarity | PosteriorMetric | IntervalMetric: ...
def load_metric(
    path: "str | Path", *, kinds: Sequence[type] = ()
) -> Dissimilarity | PosteriorMetric | IntervalMetric:
    """Load a metric, its draws, or its refits, stored by ``save_metric``.

    Parameters
    ----------
    path : str or Path
        File written by ``save_metric``. A file that is missing or damaged, or has a
        newer format version, raises ValueError.
    kinds : sequence of type, default=()
        Your own classes of metrics that the file contains. They must be passed here,
        because loading never imports a class by a name in the file.

    Returns
    -------
    Metric, PosteriorMetric or IntervalMetric
        Metric whose NumPy arrays are bit-identical to the stored arrays.

    Examples
    --------
    >>> import tempfile, numpy as np, probmetric as pm
    >>> path = Path(tempfile.mkdtemp()) / "metric.npz"
    >>> pm.save_metric(pm.Mahalanobis(np.eye(2)), path)
    >>> load_metric(path).n_features
    2
    """
    return read_metric(path, kinds=kinds).metric


def read_metric(path: "str | Path", *, kinds: Sequence[type] = ()) -> Stored:
    """Read a metric and its header. See ``load_metric``."""
    path = Path(path)
    check_file(path, "metric")
    arrays = Archive(
        path, f"metric must be a readable metric file, got {str(path)!r}"
    ).read()
    header = _header(arrays.pop("header", None), path)
    try:
        about: dict[str, Any] = {**header["provenance"]}
        for name in [name for name in arrays if name.startswith(ABOUT)]:
            about[name.removeprefix(ABOUT)] = _numbers(arrays.pop(name), name)
        metric = _metric(header["metric"], in_native_order(arrays), kinds)
        names = header["feature_names"]
        names = None if names is None else tuple(map(str, names))
        version = str(header["probmetric_version"])
        metric = named(metric, names, header.get("handle_unknown"))
        return Stored(metric, names, about, version)
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"metric: the file {str(path)!r} has missing or wrong fields "
            f"({type(error).__name__}: {error}). Save the metric again."
        ) from error


def _header(text: np.ndarray | None, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(str(text))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(
            "metric must be a file written by save_metric or `probmetric fit`, got "
            f"{str(path)!r} (its header is missing)"
        )
    version = header.get("format_version")
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(
            f"metric must have format version {VERSION} or older, got {version} in "
            f"{str(path)!r}, written by probmetric {header.get('probmetric_version')}. "
            f"Update probmetric (this is {__version__})."
        )
    return header


def _metric(spec: Any, arrays: Arrays, kinds: Sequence[type]) -> Any:
    if spec["kind"] not in SEVERAL:
        metric = rebuild(spec, arrays, kinds=kinds)
        check_metric(metric, "a metric")
        return metric
    draws = [
        rebuild(
            spec["draw"],
            {name: np.asarray(stacked[s]) for name, stacked in arrays.items()},
            kinds=kinds,
        )
        for s in range(spec["n_draws"])
    ]
    if spec["kind"] == "IntervalMetric":
        static = {name: spec[name] for name in SEVERAL["IntervalMetric"]}
        return IntervalMetric(draws[0], draws[1:], **static)
    static = {name: spec[name] for name in ("source", "pairs_independent")}
    static["credible"] = spec.get("credible", False)  # Files of 0.2 have none.
    return PosteriorMetric(draws, spec["purpose"], **static)
