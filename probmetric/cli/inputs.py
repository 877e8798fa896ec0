"""Inputs of the commands: data, settings, and stored metrics."""

import ast
import json
import os
import re
import shlex
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from probmetric.cli.files import note, noted, refuse
from probmetric.cli.options import DataSpec, Next, UseOptions
from probmetric.data.containers import Labeled
from probmetric.data.hash import data_hash, row_hashes
from probmetric.data.inputs import class_codes, not_finite, points
from probmetric.datasets import loading as datasets
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.loading import Dataset
from probmetric.large import rows as rows_in_parts
from probmetric.large.files import Rows
from probmetric.large.learners import refusal
from probmetric.large.overlap import ROWS, describe_overlap
from probmetric.large.rows import (
    is_large,
    last_column,
    named,
    open_rows,
    sample_of,
)
from probmetric.large.source import Source, n_rows
from probmetric.metric import Dissimilarity
from probmetric.metric.feature_names import difference, unknown_of
from probmetric.metric.protocol import MetricDraws
from probmetric.names import AS_IS, Reading, in_parts, path_of
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.registry import takes_groups
from probmetric.storage.draws_file import draws_feature_names, load_draws, posterior_of
from probmetric.storage.metric_file import read_metric

SAME = "rows {} have the same features as rows"


@runtime_checkable
class Learner(Protocol):
    """A learner of one metric."""

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102

    def set_params(self, **params: object) -> object: ...  # noqa: D102

    def get_metric(self) -> Dissimilarity: ...  # noqa: D102


def parse_settings(pairs: Sequence[str] | None) -> dict[str, object]:
    """Parse ``name=value`` words. Values that are not Python literals are strings."""
    settings: dict[str, object] = {}
    words = {"none": None, "true": True, "false": False, "inf": float("inf")}
    for pair in pairs or ():
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not name.isidentifier() or not text:
            raise ValueError(f"--set must be NAME=VALUE, got {pair!r}.")
        if name == "unlabeled":
            raise ValueError("--set cannot set unlabeled. Use --unlabeled TEXT.")
        if name in settings:
            raise ValueError(f"--set must name each argument once, got {name!r} twice.")
        try:
            settings[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name] = words.get(text.lower(), text)
    return settings


def load(spec: DataSpec) -> Dataset:
    """Load a dataset, with warnings as notes."""
    how = spec.how._asdict()
    with noted():
        return datasets.load(spec.name, label=spec.label, groups=spec.groups, **how)


def coded_as(
    spec: DataSpec, learned: object, names: Sequence[str] | None = ()
) -> DataSpec:
    """Read columns of text as a learner or a metric with these features does."""
    features, unknown = tuple(names or ()), unknown_of(learned)
    how = spec.how._replace(feature_names=features, handle_unknown=unknown)
    return spec._replace(how=how)


def check_finite(data: Dataset) -> None:
    """Raise for points with NaN or infinity."""
    for missing, bad in ((True, np.isnan(data.X)), (False, np.isinf(data.X))):
        if bad.any():
            todo = f"Correct {data.name}, or omit columns with --drop"
            raise ValueError(not_finite(data.frame, missing, "data", todo))
    points(data.X)


def labeled(spec: DataSpec) -> Dataset:
    """Load labeled data, check it, and note doubtful columns."""
    data = load(spec)
    last = spec.label is None and spec.groups is None and data.label is not None
    default = f"he last column, {data.label!r}, is the label (--label is not set)"
    try:
        check_finite(data)
        class_codes(data.labels)
        single = np.flatnonzero(np.bincount(data.y) == 1)
        if single.size:
            raise ValueError(
                f"label: each class must have at least 2 rows in {data.name}, got 1 "
                f"row of class {data.target_names[single[0]]!r}. Check that --label "
                "is the column of the class."
            )
    except ValueError as error:
        if last and str(error).startswith("label"):
            raise ValueError(f"{str(error).rstrip('.')}. T{default}.") from error
        raise
    remarks = doubtful_columns(data.X, data.feature_names)
    remarks += [
        f"column {name!r} is text with {len(levels)} different values, used as a "
        f"factor. If it is not a feature, use --drop {shlex.quote(name)}"
        for name, levels in (data.factors or {}).items()
    ]
    for remark in [f"t{default}"] * last + remarks:
        note(remark)
    return data


def streamed(estimator: Learner, spec: DataSpec) -> Source | None:
    """Open data that is read in chunks; None if all rows are loaded.

    A single large file is read in chunks if the learner with its settings supports this
    and no groups are used. With ``groups`` the labels are the groups.
    """
    name, label, groups, how = spec
    grouped, parts = takes_groups(estimator), in_parts(name)
    if not parts and (grouped or groups is not None or not is_large(name)):
        return None
    if not grouped:
        learner = type(estimator).__name__
        refuse({"--groups": groups}, f"{learner} (it learns from classes)")
    if groups is not None:
        source = open_rows(name, groups, _without(spec, label))
    else:
        column = label if parts else label or last_column(name, how)
        source = open_rows(name, column, how)
    refused = refusal(estimator, source)
    if refused is not None and parts:
        raise ValueError(re.sub(r"such as (\w+=)", r"such as --set \1", refused))
    return source if refused is None else None


def _without(spec: DataSpec, column: str | None) -> Reading:
    how = spec.how
    if column is None or spec.name.lower().endswith(".npy"):
        return how
    return how._replace(drop=(*how.drop, column))


def looked_at(source: Source, spec: DataSpec) -> Source:
    """Dataset on disk with classes as labels, also for a fit with groups."""
    if spec.groups is None:
        return source
    return open_rows(spec.name, spec.label, _without(spec, spec.groups))


def rows_of(spec: DataSpec) -> Source:
    """Open labeled data, with class names as labels: in chunks, or loaded."""
    if in_parts(spec.name) or is_large(spec.name):
        label = spec.label
        if not in_parts(spec.name):
            label = label or last_column(spec.name, spec.how)
        return named(open_rows(spec.name, label, spec.how))
    data = labeled(spec._replace(groups=None))
    return Rows(data.X, data.labels, names=data.feature_names)


def describe(
    spec: DataSpec,
    source: str,
    n: int,
    features: Iterable[str],
    classes: Mapping[str, int],
    content: object,
) -> dict[str, Any]:
    """Describe data for summary.json: place, columns, reading, sizes and hash."""
    reading = spec.how._asdict()
    for name in ("feature_names", "handle_unknown"):
        if reading[name] == getattr(AS_IS, name):
            del reading[name]
    return {
        "source": source,
        "label": spec.label,
        "groups": spec.groups,
        "reading": reading,
        "n": n,
        "features": list(features),
        "classes": classes,
        "hash": data_hash(content),
    }


def describe_rows(
    source: Source, spec: DataSpec, most: int
) -> tuple[Dataset, dict[str, Any]]:
    """Sample a dataset on disk, and describe it with a hash of the sample."""
    data = sample_of(source, spec.name, most)
    # A pattern of files may be longer than a path.
    place = os.path.abspath(os.path.expanduser(spec.name))
    classes, content = rows_in_parts.counts(source), Labeled(data.X, data.y)
    features = source.feature_names
    about = describe(spec, place, n_rows(source), features, classes, content)
    return data, {**about, "sampled": {"rows": len(data.X), "most": most}}


def describe_data(data: Dataset, spec: DataSpec) -> dict[str, Any]:
    """Describe loaded data for summary.json."""
    path = path_of(data.name)
    place = str(path.resolve()) if path.is_file() else data.name
    counts = np.bincount(data.y).tolist()
    classes = dict(zip(data.target_names, counts, strict=False))
    spec = spec._replace(label=data.label or spec.label)
    content = Labeled(data.X, data.y)
    return describe(spec, place, len(data.X), data.feature_names, classes, content)


@contextmanager
def of_option(option: str, argument: str = "data") -> Generator[None]:
    """Replace the name of a Python argument by the option in errors of a block."""
    try:
        yield
    except ValueError as error:
        message = re.sub(rf"^{argument}(?=:| )", option, str(error))
        message = re.sub(r"\bmeasure='(\w+)'", r"--measure \1", message)
        if message == str(error):
            raise
        raise ValueError(message) from error


def check_features(
    wanted: Sequence[str] | None,
    features: Sequence[str],
    source: str,
    of: str = "the metric",
) -> None:
    """Raise if the features of data differ from a metric's, also in their order."""
    if wanted is not None and (text := difference(wanted, features, of)):
        todo = f". Select the columns with --features, in the order of {of}."
        level = next((name for name in wanted if "=" in name), None)
        if level is not None:
            column = level.partition("=")[0]
            todo += f" If {level!r} is a level of a factor, select {column!r}."
        todo = todo if set(wanted) <= set(features) else ""
        raise ValueError(f"data in {source} must have the {text}{todo}")


class StoredMetric(NamedTuple):
    """A stored metric or draws; ``rows`` are hashes of the training rows, if stored.

    ``refits`` are the metric and its refits, from ``fit --intervals``.
    """

    metric: Dissimilarity | MetricDraws
    n_features: int
    feature_names: Sequence[str] | None
    data_hash: str | None
    name: str
    n_metrics: int = 1
    learner: str | None = None
    rows: np.ndarray | None = None
    lapse_rate: float = 0.0
    refits: IntervalMetric | None = None


def load_stored(options: UseOptions | Next) -> StoredMetric:
    """Read the file of --metric or --draws."""
    path, draws = getattr(options, "metric", None), options.draws
    if (path is None) == (draws is None):
        given = "neither" if path is None else "both"
        raise ValueError(
            f"Exactly one of --metric and --draws is required, got {given}."
        )
    if draws is not None:
        with _kind_checked("--draws", draws, "--metric", read_metric):
            tree = load_draws(draws)
        posterior = posterior_of(tree, max_draws=options.max_draws)
        return StoredMetric(
            posterior,
            posterior.n_features,
            draws_feature_names(tree),
            tree.attrs.get("labelled_hash"),
            f"{posterior.n_draws} draws of {draws.name}",
            posterior.n_draws,
            learner=tree.attrs.get("learner"),
            rows=tree[ROWS][ROWS].to_numpy() if ROWS in tree.children else None,
            lapse_rate=_lapse_rate(json.loads(tree.attrs.get("model_arguments", "{}"))),
        )
    assert path is not None
    return load_metric(path)


def load_metric(path: Path) -> StoredMetric:
    """Read the file of --metric."""
    with _kind_checked("--metric", path, "--draws", load_draws):
        stored = read_metric(path)
    data, hashes = stored.provenance.get("data", {}), stored.provenance.get(ROWS)
    refits = stored.metric if isinstance(stored.metric, IntervalMetric) else None
    # Kinds of this package have n_features.
    metric: Any = stored.metric if refits is None else refits.point_metric()
    return StoredMetric(
        metric,
        metric.n_features,
        stored.feature_names,
        data.get("hash") if isinstance(data, dict) else None,
        path.name,
        learner=stored.provenance.get("model"),
        rows=None if hashes is None else np.asarray(hashes),
        lapse_rate=_lapse_rate(stored.provenance),
        refits=refits,
    )


def _lapse_rate(about: Mapping[str, Any]) -> float:
    """Return the fitted lapse rate, or the fixed rate in files of earlier versions."""
    arguments = about.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    return float(about.get("lapse_rate", arguments.get("lapse_rate", 0.0)))


@contextmanager
def _kind_checked(
    option: str, path: Path, other: str, reads: Callable[[Path], object]
) -> Generator[None]:
    """Explain a file that cannot be read here, if the other option can read it."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        with suppress(ValueError):
            reads(path)
            message = (
                f"{option} cannot read {str(path)!r}. Use the option {other} for this "
                "file."
            )
        raise ValueError(message) from None


def paths_of(options: UseOptions) -> dict[str, str | None]:
    """Describe the files of --metric and --draws for summary.json."""
    paths = {"metric": options.metric, "draws_file": options.draws}
    return {
        k: None if path is None else str(path.resolve()) for k, path in paths.items()
    }


def if_seen(
    stored: StoredMetric,
    data: Dataset,
    otherwise: str = "Use --model, which is fitted without the evaluated points",
    where: str = "of --data",
) -> list[str]:
    """Note that a metric was fitted to some or all of the points to evaluate on."""
    was, its = ("was", "its") if stored.n_metrics == 1 else ("were", "their")
    name, biased = stored.name, f"{its} scores are too optimistic. {otherwise}"
    learned = stored.rows
    if (learned is not None and np.isin(row_hashes(data.X), learned).all()) or (
        data_hash(Labeled(data.X, data.y)) == stored.data_hash
    ):
        return [f"{name} {was} learned from the same points, so {biased}"]
    if learned is None:
        return []
    todo = f"that {name} {was} learned from. If they are the same objects, {biased}"
    return describe_overlap(data.X, learned, SAME.format(where), todo)


def if_among(data: Dataset, hashes: np.ndarray, where: str) -> list[str]:
    """Note test points that are also in --data."""
    todo = "of --data. If they are the same objects, all scores are too optimistic"
    todo = f"{todo}. Remove them from --test"
    return describe_overlap(data.X, hashes, SAME.format(where), todo)


def points_for(
    spec: DataSpec, stored: StoredMetric, *, bare: bool = False
) -> datasets.Unlabeled:
    """Load points with the features of a metric, with or without labels."""
    data = datasets.load_points(
        spec.name,
        stored.n_features,
        label=spec.label,
        how=coded_as(spec, stored.metric).how,
        bare=bare,
        names=stored.feature_names or (),
    )
    check_features(stored.feature_names, data.feature_names, data.name)
    return data
