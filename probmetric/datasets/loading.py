"""Load labeled data by name or by file as a ``Dataset``.

``X, y = load("wine")`` returns arrays. ``data = load("wine")`` also has the names of
features and classes, and ``data.frame`` is X as a DataFrame. Data sets of OpenML are
fetched by scikit-learn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sklearn.datasets
from jaxtyping import Float, Int

from probmetric.arguments import check_counts, check_number
from probmetric.data.factors import KEY, Factors
from probmetric.data.unlabeled import leave_out, warn_of_unlabeled
from probmetric.datasets.generators import GENERATORS
from probmetric.datasets.tables import (
    Table,
    check_no_text,
    chosen,
    codes,
    read_file,
    read_points,
    split_label,
)
from probmetric.names import AS_IS, STORED, Reading, existing, is_set


def fetch(name: str, label: str | None, otherwise: list[str]) -> pd.DataFrame:
    """Return a data set by name or number as a frame whose last column is ``label``."""
    number = int(name) if name.isdigit() else None
    try:
        bunch: Any = sklearn.datasets.fetch_openml(
            name=name if number is None else None,
            version=1 if number is None else "active",
            data_id=number,
            target_column="default-target" if label is None else label,
            as_frame=True,
            parser="auto",
        )
    except OSError as error:  # URLError, timeouts: all are OSErrors
        raise ValueError(
            f"data: {name} cannot be downloaded from OpenML ({error}). Check the "
            f"connection, or use a file or one of {', '.join(otherwise)}."
        ) from error
    return pd.DataFrame(bunch.data).assign(**{"label": np.asarray(bunch.target)})


BUILT_IN = {name: getattr(sklearn.datasets, f"load_{name}") for name in STORED}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labeled data set, which can be unpacked as ``X, y = dataset``.

    ``y`` are class codes 0..C-1, and ``target_names`` the names of the classes.
    ``groups`` are codes 0..G-1 of the source of each row. ``label`` is the name of the
    column of classes. ``factors`` has the levels (distinct values) of each column of
    text. X has a column of 0 and 1 for each level.

    Examples
    --------
    >>> import probmetric as pm
    >>> data = pm.datasets.load("iris")
    >>> X, y = data
    >>> X.shape, data.target_names
    ((150, 4), ('setosa', 'versicolor', 'virginica'))
    """

    X: Float[np.ndarray, "n d"]
    y: Int[np.ndarray, "n"]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    name: str
    groups: Int[np.ndarray, "n"] | None = None
    label: str | None = None
    factors: Factors | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y))

    @property
    def frame(self) -> pd.DataFrame:
        """X as a DataFrame, with feature names as columns."""
        return framed(self.X, self.feature_names, self.factors)

    @property
    def labels(self) -> np.ndarray:
        """Class name of every row, shape (n,)."""
        return np.asarray(self.target_names)[self.y]


class Unlabeled(NamedTuple):
    """Points X (n, d), float64, names of features, and labels and factors if any."""

    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None
    name: str
    factors: Factors | None = None


def framed(
    X: np.ndarray, names: Sequence[str], factors: Factors | None
) -> pd.DataFrame:
    """Return coded rows as a DataFrame that stores the factors, for learners."""
    frame = pd.DataFrame(X, columns=pd.Index(names))
    if factors:
        frame.attrs[KEY] = factors
    return frame


def names() -> list[str]:
    """Return the names of the data sets that need no file and no network."""
    return sorted([*BUILT_IN, *GENERATORS])


def _built_in(name: str) -> Dataset:
    bunch: Any = BUILT_IN[name]()
    return Dataset(
        np.asarray(bunch.data, np.float64),
        np.asarray(bunch.target, np.int64),
        tuple(str(feature) for feature in bunch.feature_names),
        tuple(str(target) for target in bunch.target_names),
        name,
    )


def _generated(name: str, n: int, seed: int) -> Dataset:
    (n,) = check_counts(n=n)
    seed = check_number("seed", seed, 0, whole=True)
    X, y = GENERATORS[name](n, seed)
    classes = 3 if name == "waveform" else 2
    return Dataset(
        X,
        y,
        tuple(f"x{k}" for k in range(X.shape[1])),
        tuple(str(c) for c in range(classes)),
        name,
    )


def _from_file(
    path: Path, label: str | None, groups: str | None, reading: Reading
) -> Dataset:
    table = _labeled(read_file(path, label, groups, reading), reading)
    y, classes = codes(table.labels, path.name)
    warn_of_unlabeled(reading.unlabeled, classes, "label", OPTION)
    names = table.target_names
    if names is not None:
        # target_names[k] is the name of the class y = k, which may have no rows.
        distinct = np.unique(np.asarray(table.labels))
        kind = distinct.dtype.kind
        if kind not in "biuf" or (kind == "f" and np.any(distinct % 1)):
            raise ValueError(
                "data: labels must be whole numbers if the file contains "
                f"target_names, got {distinct.dtype} in {path.name}"
            )
        present = [int(value) for value in distinct]
        if present[0] < 0 or present[-1] >= len(names):
            raise ValueError(
                f"data: labels must be 0 to {len(names) - 1}, the positions in "
                f"target_names, got {present[0]} to {present[-1]} in {path.name}"
            )
        classes = tuple(names[value] for value in present)
    members = None
    if groups is not None:
        members, sources = codes(table.groups, path.name, "groups")
        warn_of_unlabeled(reading.unlabeled, sources, "groups", OPTION)
    return Dataset(
        table.X,
        y,
        table.feature_names,
        classes,
        str(path),
        members,
        table.label,
        table.factors,
    )


OPTION = " (--unlabeled -1)"
"""The option of the command line in warnings."""


def _labeled(table: Table, reading: Reading) -> Table:
    X, labels, groups = table.X, table.labels, table.groups
    labels, X, groups = leave_out(reading.unlabeled, labels, X, groups, name="label")
    groups, X, labels = leave_out(reading.unlabeled, groups, X, labels, name="groups")
    return table._replace(X=X, labels=labels, groups=groups)


def _from_openml(name: str, label: str | None, reading: Reading) -> Dataset:
    source = f"openml:{name}"
    check_no_text(reading, source)
    table = split_label(fetch(name, label, names()), "label", source, reading=reading)
    table = _labeled(table, reading)
    y, classes = codes(table.labels, name)
    warn_of_unlabeled(reading.unlabeled, classes, "label", OPTION)
    names_of = table.feature_names
    return Dataset(table.X, y, names_of, classes, source, factors=table.factors)


def load(
    name_or_path: str | Path,
    *,
    label: str | None = None,
    groups: str | None = None,
    sep: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    na: Sequence[str] = (),
    thousands: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] = (),
    unlabeled: int | float | str | None = "warn",
    feature_names: Sequence[str] = (),
    handle_unknown: str = "error",
    n: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Load labeled data by name, from a file, or from a generator.

    Files are read into memory. For a text file the memory must be several times its
    size. For data that do not fit into memory use ``pm.open``.

    Parameters
    ----------
    name_or_path : str or Path
        - A data set of scikit-learn: breast_cancer, digits, iris or wine.
        - A generator: waveform, twonorm or ringnorm.
        - A file: .csv, .tsv, .csv.gz, .tsv.gz, .parquet, or .npz with arrays X and y.
        - ``"openml:NAME"`` or ``"openml:NUMBER"``, which requires a network connection.
    label : str, optional
        Column of classes. Default: the column ``groups`` if set, otherwise the last
        column that is not dropped (in an NPZ file, the array y).
    groups : str, optional
        Column with the source of each row. This column is not used as a feature.
    sep : str, optional
        Column separator of text files, such as ";" or "tab". Default: a tab for .tsv,
        otherwise a comma.
    decimal, encoding : str, default="." and "utf-8"
        Decimal point and encoding of text files.
    na : sequence of str, optional
        Texts ("?") or numbers ("-999") to read as missing in text files. The defaults
        of pandas (an empty field, NA, NaN, ...) are also missing.
    thousands : str, optional
        Thousands separator of text files. With "," the text 1,304.5 is read as 1304.5.
    drop : sequence of str, optional
        Columns to ignore.
    features : sequence of str, optional
        Feature columns, in this order. Default: all other columns.
    unlabeled : label, default="warn"
        Value that marks unlabeled rows in the label or group column of a file, such as
        -1, or NaN for missing labels. These rows are ignored. By default every label is
        a class, and -1 besides labels such as 0 and 1 causes a warning. None is the
        same without a warning.
    feature_names : sequence of str, optional
        Feature names of a fitted metric or learner. Columns of text are then coded as
        in its fit. Default: if ``label`` is set, each text value that occurs in a
        column becomes one feature of 0 and 1. A different text in each row raises an
        error.
    handle_unknown : "error" or "ignore", default="error"
        What to do with a text value that is not in ``feature_names``: raise an error,
        or give it the same distance from all values ("ignore"). A missing value becomes
        NaN with "error". With "ignore" it is treated as an unknown value.
    n, seed : int, optional
        Number of points from a generator (default: 1000), and its seed (default: 0).

    Returns
    -------
    Dataset
        Features are float64 and may contain NaN. Every row has a label.

    Examples
    --------
    >>> X, y = load("wine")
    >>> X.shape, y.shape
    ((178, 13), (178,))
    """
    name = str(name_or_path)
    reading = Reading(
        sep,
        decimal,
        encoding,
        _listed(drop),
        _listed(features),
        unlabeled=unlabeled,
        na=_listed(na),
        thousands=thousands,
        feature_names=feature_names,
        handle_unknown=handle_unknown,
    )
    if groups is not None and is_set(name):
        raise ValueError(
            f"groups must be None for the built-in data set {name!r}, got a column "
            "name. Load the table from a file."
        )
    if name in GENERATORS:
        return _with(_generated(name, 1000 if n is None else n, seed), reading)
    if n is not None:
        raise ValueError(
            f"n must be None for the built-in data set {name!r} (its size is fixed), "
            f"got {n}. Omit n."
        )
    if name in BUILT_IN:
        return _with(_built_in(name), reading)
    if name.startswith("openml:"):
        return _from_openml(name.removeprefix("openml:"), label, reading)
    return _from_file(existing(name), label, groups, reading)


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _with(data: Dataset, reading: Reading) -> Dataset:
    check_no_text(reading, data.name)
    places = chosen(data.feature_names, reading, data.name)
    names = tuple(data.feature_names[k] for k in places)
    return replace(data, X=data.X[:, places], feature_names=names)


def load_points(
    name_or_path: str | Path,
    n_features: int | None = None,
    *,
    label: str | None = None,
    how: Reading = AS_IS,
    bare: bool = False,
    names: Sequence[str] = (),
) -> Unlabeled:
    """Load points without labels, such as queries for neighbors.

    Parameters
    ----------
    name_or_path : str or Path
        Name or path, as in ``load``.
    n_features : int, optional
        Number d of features. A table with d columns has no labels. If it has d + 1
        columns, the last column is read as the label. Default: the number of columns
        other than ``label``.
    label : str, optional
        Column of classes.
    how : Reading
        The options ``sep``, ``decimal``, ``encoding``, ``na``, ``thousands``, ``drop``,
        ``features`` and ``unlabeled`` of ``load``, as a named tuple.
    bare : bool, default=False
        Whether the file may lack the label column and the columns to drop.
    names : sequence of str, default=()
        Names of the d features. A name such as ``soil=clay`` is a feature of 0 and 1,
        for the value clay in the text column soil.

    Examples
    --------
    >>> load_points("iris", 4).X.shape
    (150, 4)
    """
    name = str(name_or_path)
    how = how._replace(feature_names=names)
    options = how._asdict()
    if is_set(name):
        data = load(name, label=label, **options)
        return Unlabeled(data.X, data.feature_names, data.labels, name)
    table = read_points(existing(name), n_features, label, how, bare=bare, names=names)
    labels = table.labels
    if labels is not None:
        y, classes = codes(labels, name)
        labels = np.asarray(classes)[y]
    return Unlabeled(table.X, table.feature_names, labels, name, table.factors)
