"""Sites with covariates, and what lives there: data for ``GDM``.

The files beside this one are plain CSV; the text of the same name says where each is
from, under which licence, and what was changed.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd


class Sites(NamedTuple):
    """Sites: their covariates (n, d) and the species counted there (n, S).

    Examples
    --------
    >>> from probmetric.datasets import Sites, biocrust
    >>> found = biocrust()
    >>> isinstance(found, Sites), list(found.covariates.index) == list(found[1].index)
    (True, True)
    """

    covariates: pd.DataFrame
    species: pd.DataFrame


def biocrust() -> Sites:
    """Return bacteria of desert soil crusts, 3 minutes to 49.5 hours after wetting.

    Four stages of succession of the crust, ``maturity`` 1 (early) to 4 (late), sampled
    at five ``hours`` after water was added in the laboratory; one of the 20 is
    missing. Species are reads of 466 bacteria (rplO genotypes), some 20 000 a sample.

    Returns
    -------
    Sites
        covariates (19, 2), float64; species (19, 466), whole numbers.

    References
    ----------
    Swenson, Karaoz, Swenson, Bowen and Northen, Nature Communications 9, 19 (2018).
    The table is that of scikit-bio 0.7.4 (BSD licence, in ``biocrust.txt``).

    Examples
    --------
    >>> from probmetric.datasets import biocrust
    >>> crust = biocrust()
    >>> crust.covariates.loc["3min_late"].tolist(), crust.species.shape
    ([0.05, 4.0], (19, 466))
    """
    path = Path(__file__).with_name("biocrust.csv")
    table: Any = pd.read_csv(path, index_col="sample")
    names = ["hours", "maturity"]
    return Sites(table[names].astype("float64"), table.drop(columns=names))
