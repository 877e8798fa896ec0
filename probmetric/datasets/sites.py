"""Load sites with covariates and counts of species: data for ``GDM``.

``load_sites`` joins a table of sites and a table of species, wide or long. ``encode``
replaces factors by columns of 0 and 1.

The CSV files are in this folder. The text file of the same name states the origin, the
license and the changes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probmetric.datasets.tables import as_numbers, chosen, read_content
from probmetric.names import AS_IS, Reading, existing


class Sites(NamedTuple):
    """Covariates of sites (n, d) and counts of their species (n, S)."""

    covariates: pd.DataFrame
    species: pd.DataFrame


def biocrust() -> Sites:
    """Load counts of bacteria in desert soil crusts after wetting, with covariates.

    Crusts of four stages of succession were sampled five times, from 3 minutes to 49.5
    hours after water was added. One of the 20 samples is missing. The covariates are
    ``hours``, and the stage ``maturity`` from 1 (early) to 4 (late). Counts are reads
    of 466 bacteria (rplO genotypes).

    Returns
    -------
    Sites
        ``covariates`` (19, 2) in float64, and ``species`` (19, 466) as integers.

    References
    ----------
    Swenson, Karaoz, Swenson, Bowen and Northen, Nature Communications 9, 19 (2018).
    The table is from scikit-bio 0.7.4 (BSD license, in ``biocrust.txt``).

    Examples
    --------
    >>> from probmetric.datasets import biocrust
    >>> covariates, species = biocrust()
    >>> covariates.loc["3min_late"].tolist(), species.shape
    ([0.05, 4.0], (19, 466))
    """
    path = Path(__file__).with_name("biocrust.csv")
    table: Any = pd.read_csv(path, index_col="sample")
    names = ["hours", "maturity"]
    return Sites(table[names].astype("float64"), table.drop(columns=names))


def load_sites(
    sites: str, species: str, id: str | None = None, how: Reading = AS_IS
) -> Sites:
    """Join a table of sites and a table of species by the names of the sites.

    Parameters
    ----------
    sites, species : str
        Files. The table of species is wide (a column for each species) or long (a
        column of species names, and optionally a column of amounts). The order of rows
        does not matter.
    id : str, optional
        Column of the names of sites. Default: the column that both tables share, if
        there is only one. A first column without a name, as R writes row names, is
        called "site".
    how : Reading
        Options to read text files. ``drop`` applies to both tables, and ``features``
        only to the table of sites.
    """
    tables = [
        _read(name, what, how, id)
        for name, what in ((sites, "sites"), (species, "species"))
    ]
    X, community = tables
    id = _common(id, X, community)
    X = X.assign(**{id: _labels(X[id], id, "sites")}).drop_duplicates()
    if how.features:
        absent = [name for name in how.features if name not in X]
        if absent:
            raise ValueError(
                f"features must be columns of sites ({', '.join(X)}), got {absent[0]!r}"
            )
        X = X[[id, *how.features]]
    _check_once(X[id], "sites", "with different covariates")
    X = X.set_index(id)
    X = pd.DataFrame({name: _covariate(X[name], how) for name in X}, index=X.index)
    community = _wide(community, id, how)
    for first, second, words in (
        (X, community, "species must have a row for every site of the sites table"),
        (community, X, "sites must have a row for every site of the species table"),
    ):
        lacking = [label for label in first.index if label not in second.index]
        if lacking:
            more = f" and {len(lacking) - 1} more" * (len(lacking) > 1)
            raise ValueError(
                f"{words}, got none for {lacking[0]!r}{more}. Add rows, or remove "
                "these sites from both tables"
            )
    return Sites(X, community.loc[X.index])


def _read(name: str, what: str, how: Reading, id: str | None) -> Any:
    path = existing(name, what)
    frame, _ = read_content(path, how)
    if not isinstance(frame, pd.DataFrame) or not len(frame):
        raise ValueError(f"{what} must be a table with rows, got {path.name!r}")
    frame.columns = [str(name) for name in frame.columns]
    if id is None and "site" not in frame:
        frame = frame.rename(columns={"Unnamed: 0": "site"})
    frame = frame.drop(columns=[name for name in how.drop if name in frame])
    places = chosen(list(frame.columns), how._replace(drop=(), features=()), path.name)
    return frame.iloc[:, places]


def _common(id: str | None, X: pd.DataFrame, community: pd.DataFrame) -> str:
    both = [name for name in X if name in community]
    if id is None and len(both) == 1:
        return str(both[0])
    if id is None or id not in both:
        listed = f", one of {', '.join(map(repr, both))}" if both else ""
        raise ValueError(
            f"id must be a column of both the sites and the species table{listed}, got "
            f"{id!r}. The sites table has the columns {', '.join(X)}"
        )
    return id


def _labels(values: pd.Series, id: str, what: str) -> pd.Series:
    if values.isna().any():
        row = int(np.argmax(values.isna()))
        raise ValueError(
            f"{what}: column {id!r} must have a name in every row, got none in row "
            f"{row}"
        )
    whole = values.dtype.kind == "f" and (values % 1 == 0).all()
    return (values.astype(int) if whole else values).astype(str).str.strip()


def _check_once(labels: pd.Series, what: str, how: str) -> None:
    twice = list(labels[labels.duplicated()])
    if twice:
        raise ValueError(
            f"{what} must contain each site once, got {twice[0]!r} more than once {how}"
        )


def _covariate(values: pd.Series, how: Reading) -> pd.Series:
    """Return a column as numbers, or as text if it is a factor."""
    if not _is_factor(values):
        return values
    numbers = as_numbers(values, how.decimal, how.thousands)
    words = sorted({str(v) for v in values[numbers.isna() & values.notna()]})
    if not words:
        return numbers
    if numbers.notna().any() or len(words) > len(values) / 2:
        kind = "among numbers" if numbers.notna().any() else "text that hardly repeats"
        raise ValueError(
            f"sites: columns must be numeric or categorical, got {words[0]!r} in "
            f"column {values.name!r}, {kind}. Correct the file, or omit the column "
            f"with --drop {values.name!r}"
        )
    return values


def _wide(table: Any, id: str, how: Reading) -> pd.DataFrame:
    table = table.assign(**{id: _labels(table[id], id, "species")})
    rest = [name for name in table if name != id]
    numbers = {
        name: as_numbers(table[name], how.decimal, how.thousands) for name in rest
    }
    text = [name for name in rest if (numbers[name].isna() & table[name].notna()).any()]
    if len(text) == 1 and len(rest) <= 2:
        amounts = [name for name in rest if name not in text]
        amount: Any = numbers[amounts[0]] if amounts else pd.Series(1, table.index)
        if amount.isna().any() or (amount < 0).any():
            row = int(np.argmax(amount.isna() | (amount < 0)))
            raise ValueError(
                f"species must be numbers of at least 0, got {amount.iloc[row]:g} for "
                f"species {table[text[0]].iloc[row]!r} at site {table[id].iloc[row]!r}"
            )
        names = table[text[0]].astype(str)
        return amount.groupby([table[id], names]).sum().unstack(fill_value=0)
    if text:
        (row, *_), name = np.flatnonzero(numbers[text[0]].isna()), text[0]
        raise ValueError(
            "species must be numbers in a wide table, got "
            f"{table[name].iloc[row]!r} in column {name!r}. A long table must have the "
            f"column {id!r}, a column of species names, and optionally a column of "
            "amounts. Omit other columns with --drop"
        )
    _check_once(table[id], "species", "(a long table has a column of species names)")
    return pd.DataFrame(numbers).set_index(table[id])


def _is_factor(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.CategoricalDtype | pd.StringDtype):
        return True
    return values.dtype == object and all(isinstance(v, str) for v in values.dropna())
