"""Learned metrics as files: arrays and a header that says what they are.

The file is an NPZ archive of plain arrays. Its array ``header`` is JSON text: format
and version, the kind of metric with its parts by name, the features' names, and where
it came from. ``describe`` turns a metric into such text and named arrays, ``rebuild``
turns them back. Nothing in it is code or pickle: reading builds only the kinds listed
in ``storage.metric_file.KINDS``, and classes that the caller hands in, and the
archive's checksums find a bit that was flipped.

A class of one's own has two methods: ``to_arrays()`` gives arrays by name, and the
class method ``from_arrays(arrays)`` makes a metric of them.

Draws of a metric are kept stacked, one array a part with a leading axis of draws.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, overload

import numpy as np

from probmetric import __version__
from probmetric.densities.classes import ClassDensities
from probmetric.files import Archive, Form, parsed, replacing
from probmetric.metric import (
    ClassDistribution,
    IsotonicLink,
    Link,
    LocalFisher,
    LocalMahalanobis,
    LogLogisticLink,
    Mahalanobis,
    PairSimilarity,
    SplineCityBlock,
)
from probmetric.metric.feature_names import named, names_of
from probmetric.metric.mean import MeanDissimilarity
from probmetric.metric.protocol import Dissimilarity, Metric, check_metric
from probmetric.names import kind_of
from probmetric.posterior.metric import PosteriorMetric
from probmetric.precision import in_native_order
from probmetric.storage.kinds import check_parts

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        ClassDensities,
        ClassDistribution,
        IsotonicLink,
        Link,
        LocalFisher,
        LocalMahalanobis,
        LogLogisticLink,
        Mahalanobis,
        MeanDissimilarity,
        PairSimilarity,
        SplineCityBlock,
    )
}
"""All that a file can make; whatever else it names is an error."""


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
    if hasattr(value, "to_arrays") and hasattr(value, "from_arrays"):
        arrays = {f"{name}.{k}": np.asarray(a) for k, a in value.to_arrays().items()}
        arrays = {at: _numbers(array, at) for at, array in arrays.items()}
        # With a point, no name of the user's is one of this format.
        parts = {at.removeprefix(name): {"array": at} for at in arrays}
        return {"kind": OWN, "class": kind, "parts": parts}, arrays
    if KINDS.get(kind) is type(value):
        parts = {key: getattr(value, key) for key in _fields(type(value))}
    elif type(value) is tuple:
        kind, parts = "tuple", {str(k): part for k, part in enumerate(value)}
    else:
        raise ValueError(
            f"metric: expected one of {', '.join(sorted(KINDS))} or PosteriorMetric, "
            f"or a class of your own with to_arrays and from_arrays, got {kind}"
        )
    found = {key: describe(part, f"{name}.{key}") for key, part in parts.items()}
    arrays = {n: a for _, held in found.values() for n, a in held.items()}
    return {"kind": kind, "parts": {k: spec for k, (spec, _) in found.items()}}, arrays


def _numbers(array: np.ndarray, name: str) -> np.ndarray:
    """Return an array of numbers; NaN is none."""
    if array.dtype.kind not in "biuf" or _has_nan(array):
        raise ValueError(f"metric: expected numbers in {name}, got {array.dtype}/NaN")
    return array


def _has_nan(array: np.ndarray) -> bool:
    """Say whether an array has NaN, without an array of its size."""
    with np.errstate(invalid="ignore"):
        return bool(array.size and np.isnan(array.min()))


def _fields(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind._fields)


def rebuild(
    spec: Any,
    arrays: dict[str, np.ndarray],
    name: str = "metric",
    *,
    kinds: Sequence[type] = (),
) -> Any:
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
    if spec["kind"] == OWN:
        for kind in kinds:
            if kind.__name__ == spec["class"]:
                own: Any = kind
                held = spec["parts"].items()
                return own.from_arrays({k[1:]: rebuild(v, arrays) for k, v in held})
        raise ValueError(
            f"kinds: expected the class {spec['class']}, of which the file holds a "
            f"metric, as load_metric(path, kinds=[{spec['class']}]), got "
            f"{[kind.__name__ for kind in kinds]}"
        )
    parts = {
        key: rebuild(part, arrays, f"{name}.{key}", kinds=kinds)
        for key, part in spec["parts"].items()
    }
    if spec["kind"] == "tuple":
        return tuple(parts.values())
    if spec["kind"] not in KINDS:
        raise ValueError(
            f"metric: expected one of {', '.join(sorted(KINDS))}, got {spec['kind']!r}"
        )
    return KINDS[spec["kind"]](**parts)


FORMAT = "probmetric-metric"
VERSION = 1
POSTERIOR, OWN, ABOUT = "PosteriorMetric", "own", "provenance."
SMALL_HEADER = 1 << 20
"""Bytes of a header that is read whatever the file's size; a larger one is no larger
than the file, as ``save_metric`` does not compress."""


class Stored(NamedTuple):
    """A metric as it was stored, and what its header says of it.

    Attributes
    ----------
    metric : Metric or PosteriorMetric
    feature_names : tuple of d str, or None
    provenance : dict
        What ``save_metric`` was given.
    version : str
        Of the package that wrote the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.storage import read_metric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/metric.npz"
    ...     pm.save_metric(pm.Mahalanobis(np.eye(2)), path, feature_names=["x", "y"])
    ...     metric, feature_names, provenance, version = read_metric(path)
    >>> metric.n_features, feature_names, provenance
    (2, ('x', 'y'), {})
    """

    metric: Dissimilarity | PosteriorMetric
    feature_names: tuple[str, ...] | None
    provenance: dict[str, Any]
    version: str


def save_metric(
    metric: Any,
    path: "str | Path",
    *,
    feature_names: Sequence[str] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a metric of any kind, or draws of one; ``load_metric`` reads it.

    The file appears whole or not at all; one that stands is replaced.

    Parameters
    ----------
    metric : Metric or PosteriorMetric
        Of this package, or of a class of your own that has ``to_arrays()``, which
        returns arrays of numbers by name, and the class method ``from_arrays(arrays)``.
        An ``IntervalMetric`` has no such file: ``pickle`` keeps it.
    path : str or Path
        Conventionally ending in ``.npz``.
    feature_names : sequence of d str, optional
        Kept with the metric, which refuses frames of other columns once it is loaded,
        as the commands do. Default: those that the metric was learned with, if any.
    provenance : mapping, optional
        What JSON can hold (the data's hash, arguments, ...), and arrays of numbers.

    Raises
    ------
    ValueError
        For what is no metric of this package, one whose link is a class of your own
        (make the metric one too), NaN, or provenance JSON cannot hold.

    Examples
    --------
    >>> import tempfile, numpy as np, probmetric as pm
    >>> path = Path(tempfile.mkdtemp()) / "metric.npz"
    >>> pm.save_metric(pm.Mahalanobis(np.eye(2)), path)
    >>> float(pm.load_metric(path)(np.zeros(2), np.array([3.0, 4.0])))
    5.0
    """
    check_metric(metric, "a metric or draws of one")
    # What could not be read again is not written.
    one = metric.draws[0] if isinstance(metric, PosteriorMetric) else metric
    check_parts(one, "metric")
    spec, arrays = _posterior_spec(metric) or describe(metric, "metric")
    names = names_of(metric) if feature_names is None else feature_names
    about = dict(provenance or {})
    for name in [name for name, held in about.items() if isinstance(held, np.ndarray)]:
        arrays[f"{ABOUT}{name}"] = _numbers(about.pop(name), name)
    header = {
        "format": FORMAT,
        "format_version": VERSION,
        "probmetric_version": __version__,
        "metric": spec,
        "feature_names": None if names is None else list(names),
        "provenance": about,
    }
    try:
        text = json.dumps(header)
    except TypeError as error:
        raise ValueError(
            f"provenance: expected what JSON holds, got {error}"
        ) from error
    with replacing(Path(path)) as part, part.open("wb") as file:
        np.savez(file, header=np.array(text), **cast(Any, arrays))


@overload
def load_metric(path: "str | Path") -> Metric | PosteriorMetric: ...
@overload
def load_metric(
    path: "str | Path", *, kinds: Sequence[type]
) -> Dissimilarity | PosteriorMetric: ...
def load_metric(
    path: "str | Path", *, kinds: Sequence[type] = ()
) -> Dissimilarity | PosteriorMetric:
    """Read a metric, or draws of one, that ``save_metric`` wrote.

    Parameters
    ----------
    path : str or Path
    kinds : sequence of type, default=()
        Classes of your own that the file may hold. None is imported by a name in a
        file: whoever reads it says what may be made of it.

    Returns
    -------
    Metric or PosteriorMetric
        Of NumPy arrays, bit for bit those that were stored. With ``kinds`` a type
        checker knows of a metric what a ``Dissimilarity`` has.

    Raises
    ------
    ValueError
        For a file that is missing, damaged, no metric, or of a newer version; and for
        one of a class that is not among ``kinds``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import probmetric as pm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pm.save_metric(pm.Mahalanobis(np.eye(2)), f"{folder}/metric.npz")
    ...     load_metric(f"{folder}/metric.npz").n_features
    2
    """
    return read_metric(path, kinds=kinds).metric


def read_metric(path: "str | Path", *, kinds: Sequence[type] = ()) -> Stored:
    """Read a metric with its header; arguments and errors as ``load_metric``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.storage import read_metric
    >>> metric = pm.Mahalanobis(np.diag([1.0, 2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pm.save_metric(metric, f"{folder}/m.npz", provenance={"by": "hand"})
    ...     stored = read_metric(f"{folder}/m.npz")
    >>> stored.provenance, stored.metric.factor.tolist()
    ({'by': 'hand'}, [[1.0, 0.0], [0.0, 2.0]])
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(
            f"metric: expected a file, got {kind_of(path)} at {str(path)!r}"
        )
    if not path.is_file():
        raise ValueError(f"metric: expected a file that exists, got {str(path)!r}")
    archive = Archive(
        path, f"metric: expected a readable metric file, got {str(path)!r}"
    )
    header = _header(archive, path)
    try:
        spec = header["metric"]
        _check_forms(spec, archive)
        arrays = in_native_order(archive.read(sorted(_arrays_of(spec))))
        metric = _metric(spec, arrays, kinds)
        names, provenance = header["feature_names"], header["provenance"]
        if not isinstance(provenance, dict):
            raise TypeError("provenance is no mapping")
        for name in [name for name in archive if name.startswith(ABOUT)]:
            provenance[name.removeprefix(ABOUT)] = _numbers(archive[name], name)
        if names is not None:
            names = tuple(map(str, names))
            if len(names) != getattr(metric, "n_features", len(names)):
                raise ValueError(
                    f"metric: expected {metric.n_features} feature_names in "
                    f"{str(path)!r}, got {len(names)}"
                )
        version = str(header["probmetric_version"])
        return Stored(named(metric, names), names, provenance, version)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
    ) as error:
        raise ValueError(
            f"metric: expected a whole metric in {str(path)!r}, got one without its "
            f"parts ({type(error).__name__}: {error})"
        ) from error


def _header(archive: Archive, path: Path) -> dict[str, Any]:
    """Return the header, or say what kind of file this is instead."""
    header: Any = None
    if "header" in archive and _is_text(archive.form("header"), path):
        text = str(archive["header"])
        try:
            header = parsed(text, path.stat().st_size)
        except (ValueError, RecursionError):
            pass
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(
            f"metric: expected a file of save_metric or `probmetric fit`, got "
            f"{str(path)!r}, which has no such header"
        )
    found = header.get("format_version")
    if not isinstance(found, int) or found > VERSION:
        raise ValueError(
            f"metric: expected format version {VERSION} or older in {str(path)!r}, got "
            f"{found}, written by probmetric {header.get('probmetric_version')}; "
            f"this is {__version__}"
        )
    return header


def _is_text(form: Form, path: Path) -> bool:
    """Say whether an array is one text of a length that a header has."""
    size = max(SMALL_HEADER, path.stat().st_size)
    return form.dtype.kind == "U" and not form.shape and form.dtype.itemsize <= size


def _check_forms(spec: Any, archive: Archive) -> None:
    """Raise for arrays of other shapes than the metric's kind declares, unread.

    What stands for them is zeros of their shapes that take no memory. A class of the
    user's is left out: it checks its own arrays.
    """
    one = spec["draw"] if spec["kind"] == POSTERIOR else spec
    if OWN in _kinds_of(one):
        return
    axes = 1 if one is not spec else 0
    forms = archive.forms(sorted(_arrays_of(spec)))
    for name, form in forms.items():
        _numbers(np.zeros((), form.dtype), name)
    if axes:
        _check_draws(spec["n_draws"], {(*form.shape, 0)[0] for form in forms.values()})
    stand_ins: dict[str, Any] = {
        name: np.broadcast_to(np.zeros((), form.dtype), form.shape[axes:])
        for name, form in forms.items()
    }
    _check(rebuild(one, stand_ins))


def _check_draws(n_draws: Any, lengths: set[int]) -> None:
    if type(n_draws) is not int or lengths != {n_draws}:
        raise ValueError(
            f"metric: expected {n_draws} draws of each array, got {sorted(lengths)}"
        )


def _posterior_spec(metric: Any) -> tuple[Any, dict[str, np.ndarray]] | None:
    """Describe draws: one description for all, every array stacked over draws."""
    if not isinstance(metric, PosteriorMetric):
        return None
    found = [describe(draw, "draws") for draw in metric.draws]
    stacked = {name: np.stack([a[name] for _, a in found]) for name in found[0][1]}
    static = {n: getattr(metric, n) for n in ("purpose", "source", "pairs_independent")}
    spec = {"kind": POSTERIOR, "n_draws": len(found), "draw": found[0][0], **static}
    return spec, stacked


def _metric(
    spec: Any, arrays: dict[str, np.ndarray], kinds: Sequence[type] = ()
) -> Any:
    """Rebuild a metric, or draws of one."""
    if spec["kind"] != POSTERIOR:
        metric = rebuild(spec, arrays, kinds=kinds)
        _check(metric)
        return metric
    n_draws = spec["n_draws"]
    _check_draws(n_draws, {len(arrays[name]) for name in _arrays_of(spec["draw"])})
    draws = [
        rebuild(
            spec["draw"],
            {name: np.asarray(a[s]) for name, a in arrays.items()},
            kinds=kinds,
        )
        for s in range(n_draws)
    ]
    for draw in draws[:1]:
        _check(draw)
    return PosteriorMetric(
        draws,
        spec["purpose"],
        source=spec["source"],
        pairs_independent=spec["pairs_independent"],
    )


def _check(metric: Any) -> None:
    """Raise for what is no metric, or has parts of other kinds than it declares."""
    if not hasattr(metric, "pairwise"):
        raise ValueError(f"metric: expected a metric, got {type(metric).__name__}")
    check_parts(metric, "metric")


def _arrays_of(spec: Any) -> set[str]:
    """Return the names of the arrays that a description refers to."""
    if not isinstance(spec, dict):
        return set()
    if "array" in spec:
        return {spec["array"]}
    return set().union(*map(_arrays_of, spec.values()))


def _kinds_of(spec: Any) -> set[Any]:
    """Return the kinds that a description names, those of its parts included."""
    if not isinstance(spec, dict) or "kind" not in spec:
        return set()
    return {spec["kind"]}.union(*map(_kinds_of, spec["parts"].values()))
