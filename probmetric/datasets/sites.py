"""Load sites with covariates and counts of species: data for ``GDM``.

The CSV files are in this folder. The text file of the same name states the origin, the
license and the changes.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd


class Sites(NamedTuple):
    """Covariates of sites (n, d) and counts of their species (n, S)."""

    covariates: pd.DataFrame
    species: pd.DataFrame


def biocrust() -> Sites:
    """Load bacteria of desert soil crusts, 3 minutes to 49.5 hours after wetting.

    Crusts of four stages of succession, ``maturity`` 1 (early) to 4 (late), were
    sampled at five ``hours`` after water was added. One of the 20 samples is missing.
    Counts are reads of 466 bacteria (rplO genotypes).

    Returns
    -------
    Sites
        covariates (19, 2) in float64, and species (19, 466), integers.

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
