"""Data sets of OpenML, fetched through scikit-learn's own client."""

from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets

__all__ = ["fetch"]


def fetch(name: str, label: str | None, otherwise: list[str]) -> pd.DataFrame:
    """Return a data set by name or number as a frame whose last column is ``label``.

    Raises
    ------
    ValueError
        Without a connection, naming what there is ``otherwise``; and as scikit-learn.
    """
    which: dict[str, Any] = (
        {"data_id": int(name)} if name.isdigit() else {"name": name, "version": 1}
    )
    target = "default-target" if label is None else label
    try:
        bunch: Any = sklearn.datasets.fetch_openml(
            **which, target_column=target, as_frame=True, parser="auto"
        )
    except OSError as error:  # URLError, timeouts: all are OSErrors
        raise ValueError(
            f"data: wanted {name!r} from OpenML, got no connection ({error}); use a "
            f"file, or one of {', '.join(otherwise)}"
        ) from error
    return pd.DataFrame(bunch.data).assign(**{"label": np.asarray(bunch.target)})
