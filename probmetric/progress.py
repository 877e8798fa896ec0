"""``progress_bar``: a bar in terminals and notebooks, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any

EVERY = 10.0
"""Seconds between two lines where no bar can be drawn."""


class _Lines:
    """The items, with a line to standard error every ``EVERY`` seconds."""

    def __init__(self, items: Iterable[Any], label: str, unit: str) -> None:
        self.items, self.label, self.unit, self.note = items, label, unit, ""

    def set_postfix_str(self, text: str) -> None:
        self.note = f", {text}"

    def __iter__(self) -> Iterator[Any]:
        total = f" of {len(self.items)}" if isinstance(self.items, Sized) else ""
        began = due = time.monotonic()
        for done, item in enumerate(self.items):
            now = time.monotonic()
            if now >= due + EVERY:
                due, taken = now, f"{self.unit}s in {now - began:.0f} s"
                line = f"{self.label}: {done}{total} {taken}{self.note}"
                print(line, file=sys.stderr, flush=True)
            yield item


def progress_bar(
    items: Iterable[Any], label: str, show: bool | None, unit: str = "step"
) -> Any:
    """Wrap an iterable in a progress bar.

    Parameters
    ----------
    items : iterable
        What is gone through.
    label : str
        What is being done, shown before the bar.
    show : bool or None
        None draws a bar in terminals and notebooks after one second, removes it at
        the end, and elsewhere, as in a log, writes a line every 10 s. True shows the
        bar at once; False is silence.
    unit : str, default="step"
        What is counted.

    Returns
    -------
    iterable
        The items, or with ``show=False`` what was given; of a bar
        ``set_postfix_str`` says what is under way.
    """
    if show is False:
        return items
    # The shell of a notebook is there exactly if IPython has been loaded.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if not (show or sys.stderr.isatty() or hasattr(shell, "kernel")):
        return _Lines(items, label, unit)
    from tqdm.auto import tqdm

    # Unless asked for, what is done within a second needs no bar.
    return tqdm(items, desc=label, unit=unit, leave=False, delay=0 if show else 1)
