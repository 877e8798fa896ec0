"""``progress_bar``: a bar in terminals and notebooks, silence elsewhere."""

import sys
from collections.abc import Iterable
from typing import Any


def progress_bar(items: Iterable[Any], label: str, show: bool | None) -> Any:
    """Wrap an iterable in a progress bar where someone may be watching.

    Parameters
    ----------
    items : iterable
        What is gone through.
    label : str
        Shown before the bar.
    show : bool or None
        None shows it in terminals and notebooks and is silent elsewhere.
    """
    # The shell of a notebook is there exactly if IPython has been loaded.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    watched = sys.stderr.isatty() or hasattr(shell, "kernel")
    if not (watched if show is None else show):
        return items
    from tqdm.auto import tqdm

    # Unless asked for, what is done within a second needs no bar.
    return tqdm(items, desc=label, leave=False, delay=0 if show else 1)
