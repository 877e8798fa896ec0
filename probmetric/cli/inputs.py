"""Inputs of the commands: data that can be used, settings, and the metric given.

Data are loaded, checked and described (where they are, shape, hash); ``name=value``
words become settings; a metric comes from a metric file or from draws.
"""

import ast
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probmetric.cli.files import note, noted
from probmetric.data.containers import Labelled
from probmetric.data.files import Rows
from probmetric.data.hash import data_hash, row_hashes
from probmetric.data.inputs import class_codes, not_finite, points
from probmetric.data.source import Source, n_rows
from probmetric.datasets import loading as datasets
from probmetric.datasets import rows as rows_in_parts
from probmetric.datasets.columns import doubtful_columns
from probmetric.datasets.overlap import ROWS, describe_overlap
from probmetric.datasets.rows import (
    is_large,
    last_column,
    named,
    open_rows,
    sample_of,
)
from probmetric.metric import Dissimilarity
from probmetric.metric.feature_names import difference
from probmetric.metric.protocol import MetricDraws
from probmetric.names import AS_IS, Reading, in_parts, path_of
from probmetric.registry import refuses_source, takes_groups
from probmetric.storage.draws_file import draws_feature_names, load_draws, posterior_of
from probmetric.storage.metric_file import read_metric


def parse_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings that ``name=value`` words give; values are Python literals.

    What is no literal (``pca``) is a string; ``none``, ``true`` and ``false`` may be
    written small.

    Raises
    ------
    ValueError
        For a word without a name and a value, and for a name given twice.
    """
    found: dict[str, Any] = {}
    small = {"none": None, "true": True, "false": False, "inf": float("inf")}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name.strip().isidentifier() or not text.strip():
            raise ValueError(f"--set: expected name=value, got {pair!r}")
        name, text = name.strip(), text.strip()
        if name == "unlabeled":
            raise ValueError("--set: unlabeled is an option, use --unlabeled TEXT")
        if name in found:
            raise ValueError(f"--set: expected each name once, got {name!r} twice")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = small.get(text.lower(), text)
    return found


def check_finite(data: datasets.Dataset) -> None:
    """Raise for points with NaN or infinity."""
    for missing, bad in ((True, np.isnan(data.X)), (False, np.isinf(data.X))):
        if bad.any():
            todo = f"mend {data.name}, or leave columns out by --drop"
            raise ValueError(not_finite(data.frame, missing, "data", todo))
    points(data.X)


def check_labelled(data: datasets.Dataset) -> None:
    """Raise for points and labels that no learner could take."""
    check_finite(data)
    class_codes(data.labels)
    alone = np.flatnonzero(np.bincount(data.y) == 1)
    if alone.size:
        raise ValueError(
            f"label: expected at least 2 rows of each class in {data.name}, got one of "
            f"{data.target_names[alone[0]]!r}"
        )


def labelled(
    source: str,
    label: str | None,
    groups: str | None = None,
    how: Reading = AS_IS,
) -> datasets.Dataset:
    """Load labelled data that a learner can take."""
    with noted():
        data = datasets.load(source, label=label, groups=groups, **how.of_load(source))
    last = label is None and groups is None and data.label is not None
    try:
        check_labelled(data)
    except ValueError as error:
        if last and str(error).startswith("label"):
            raise ValueError(
                f"{error}; the label is the last column, {data.label!r}, as no --label "
                "was given"
            ) from error
        raise
    if last:
        note(f"label: the last column, {data.label!r}, as no --label was given")
    for remark in doubtful_columns(data.X, data.feature_names):
        note(remark)
    return data


def streamed(
    estimator: Any,
    name: str,
    label: str | None,
    groups: str | None = None,
    how: Reading = AS_IS,
) -> Source | None:
    """Open data as a source, where they are read in parts; None where they are loaded.

    One large file is where the learner, with its settings, streams; it is loaded
    otherwise, and where its rows are grouped. Of rows in parts that are grouped the
    labels are the groups.

    Raises
    ------
    ValueError
        For rows in parts that the learner does not read, with its reason.
    """
    grouped, parts = takes_groups(estimator), in_parts(name)
    if not parts and (grouped or groups is not None or not is_large(name)):
        return None
    if groups is not None and not grouped:
        raise ValueError(
            f"--groups: expected none with {type(estimator).__name__}, which learns "
            f"from classes, got {groups!r}"
        )
    if groups is not None:
        source = open_rows(name, groups, _without(name, label, how))
    else:
        column = label if parts else label or last_column(name, how)
        source = open_rows(name, column, how)
    refused = refuses_source(estimator, source)
    if refused is not None and parts:
        raise ValueError(re.sub(r"such as (\w+=)", r"such as --set \1", refused))
    return source if refused is None else None


def _without(name: str, column: str | None, how: Reading) -> Reading:
    """Return how to read rows so that a column is no feature; of arrays it is none."""
    if column is None or name.lower().endswith(".npy"):
        return how
    return how._replace(drop=(*how.drop, column))


def looked_at(
    source: Source, name: str, label: str | None, groups: str | None, how: Reading
) -> Source:
    """Return the source whose labels are classes: that of the fit, but for groups."""
    if groups is None:
        return source
    return open_rows(name, label, _without(name, groups, how))


def rows_of(name: str, label: str | None, how: Reading = AS_IS) -> Source:
    """Open labelled data as a source, labels being names: in parts, or loaded."""
    if in_parts(name) or is_large(name):
        parts = in_parts(name)
        column = label if parts else label or last_column(name, how)
        return named(open_rows(name, column, how))
    data = labelled(name, label, None, how)
    return Rows(data.X, data.labels, names=data.feature_names)


def describe_rows(
    source: Source, name: str, label: str | None, how: Reading, most: int
) -> tuple[datasets.Dataset, dict[str, Any]]:
    """Return a sample of a source, and what a run keeps of it: as ``describe_data``.

    The hash is that of the sample.
    """
    data = sample_of(source, name, most)
    about = {
        # A pattern of files is no path: it may be longer than one.
        "source": os.path.abspath(os.path.expanduser(name)),
        "label": label,
        "groups": None,
        "reading": how._asdict(),
        "n": n_rows(source),
        "features": list(source.feature_names),
        "classes": rows_in_parts.counts(source),
        "hash": data_hash(Labelled(data.X, data.y)),
        "sampled": {"rows": len(data.X), "most": most},
    }
    return data, about


def describe_data(
    data: datasets.Dataset,
    label: str | None,
    groups: str | None = None,
    how: Reading = AS_IS,
) -> dict[str, Any]:
    """Return what a run keeps of its data: where they are, their shape and hash."""
    path = path_of(data.name)
    return {
        "source": str(path.resolve()) if path.is_file() else data.name,
        "label": data.label or label,
        "groups": groups,
        "reading": how._asdict(),
        "n": len(data.X),
        "features": list(data.feature_names),
        "classes": {
            name: int(count)
            for name, count in zip(data.target_names, np.bincount(data.y), strict=False)
        },
        "hash": data_hash(Labelled(data.X, data.y)),
    }


@contextmanager
def of_option(option: str, argument: str = "data") -> Generator[None]:
    """Name the option in errors of a block that blame an argument of Python."""
    try:
        yield
    except ValueError as error:
        message = re.sub(rf"^{argument}(?=:| )", option, str(error))
        if message == str(error):
            raise
        raise ValueError(message) from error


def check_features(
    wanted: Sequence[str] | None,
    found: Sequence[str],
    source: str,
    of: str = "the metric",
) -> None:
    """Raise for data whose features are not those of a metric, in its order.

    Raises
    ------
    ValueError
        Names what is missing, what is too much, or that the order differs.
    """
    if wanted is not None and (said := difference(wanted, found, of)):
        todo = "; --features chooses those" if set(wanted) <= set(found) else ""
        raise ValueError(f"data: expected in {source} the {said}{todo}")


class Given(NamedTuple):
    """A metric or draws of one, d, features' names, the data and learner it is of.

    ``rows`` are the hashes of the rows that it was learned from, if they are stored.
    """

    metric: Dissimilarity | MetricDraws
    n_features: int
    feature_names: Sequence[str] | None
    data_hash: str | None
    name: str
    n_metrics: int = 1
    learner: str | None = None
    rows: np.ndarray | None = None


def given(metric: Path | None, draws: Path | None, max_draws: int) -> Given:
    """Read the one file that was given.

    Raises
    ------
    ValueError
        For none or both, and for files that are not what they should be.
    """
    if (metric is None) == (draws is None):
        got = "neither" if metric is None else "both"
        raise ValueError(f"--metric, --draws: expected one of the two, got {got}")
    if draws is not None:
        with _taken_by("--draws", draws, "--metric", read_metric):
            tree = load_draws(draws)
        posterior = posterior_of(tree, max_draws=max_draws)
        return Given(
            posterior,
            posterior.n_features,
            draws_feature_names(tree),
            tree.attrs.get("labelled_hash"),
            f"{posterior.n_draws} draws of {draws.name}",
            posterior.n_draws,
            learner=tree.attrs.get("learner"),
            rows=_array(tree[ROWS].get(ROWS) if ROWS in tree.children else None),
        )
    assert metric is not None
    with _taken_by("--metric", metric, "--draws", load_draws):
        stored = read_metric(metric)
    seen = stored.provenance.get("data", {})
    own: Any = stored.metric  # Of this package, without ``kinds``: it knows its d.
    return Given(
        own,
        own.n_features,
        stored.feature_names,
        seen.get("hash") if isinstance(seen, dict) else None,
        metric.name,
        learner=stored.provenance.get("model"),
        rows=_array(stored.provenance.get(ROWS)),
    )


def _array(values: Any) -> np.ndarray | None:
    return None if values is None else np.asarray(values)


def where(metric: Path | None, draws: Path | None) -> dict[str, str | None]:
    """Return what a run keeps of the files that it was given."""
    return {
        "metric": None if metric is None else str(metric.resolve()),
        "draws_file": None if draws is None else str(draws.resolve()),
    }


def if_seen(
    use: Given,
    data: datasets.Dataset,
    otherwise: str = "--model refits on the other points",
    where: str = "of --data",
) -> list[str]:
    """Say when a metric was learned from the points that it is judged on, or some.

    A file without hashes of rows, as of 0.2, has only the hash of all.
    """
    was, its = ("was", "its") if use.n_metrics == 1 else ("were", "their")
    all_known = use.rows is not None and np.isin(row_hashes(data.X), use.rows).all()
    if all_known or describe_data(data, None)["hash"] == use.data_hash:
        return [
            f"{use.name} {was} learned from these very points: {its} figures are too "
            f"good; {otherwise}"
        ]
    if use.rows is None:
        return []
    todo = (
        f"that {use.name} {was} learned from: if they are the same objects, {its} "
        f"figures are too good; {otherwise}"
    )
    return describe_overlap(data.X, use.rows, SAME.format(where), todo)


def if_among(data: datasets.Dataset, hashes: np.ndarray, where: str) -> list[str]:
    """Say when points are also among those of --data, by their hashes."""
    todo = (
        "of --data: if they are the same objects, all figures are too good; leave them "
        "out of --test"
    )
    return describe_overlap(data.X, hashes, SAME.format(where), todo)


SAME = "rows {} have the features of rows"


@contextmanager
def _taken_by(
    option: str, path: Path, other: str, reads: Callable[[Path], object]
) -> Generator[None]:
    """Raise for a file that an option cannot read where another option takes it."""
    try:
        yield
    except ValueError as error:
        said = error
        with suppress(ValueError):
            reads(path)
            said = ValueError(
                f"{option}: expected another file, got {str(path)!r}, which {other} "
                "takes"
            )
        raise said from None


def points_for(
    source: str,
    label: str | None,
    how: Reading,
    use: Given,
    *,
    bare: bool = False,
) -> datasets.Unlabelled:
    """Return the points of a data set, of the features of a metric."""
    found = datasets.load_points(
        source,
        use.n_features,
        label=label,
        how=how,
        bare=bare,
        names=use.feature_names or (),
    )
    check_features(use.feature_names, found.feature_names, found.name)
    return found
