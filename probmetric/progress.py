"""``progress_bar``: a bar in terminals and notebooks, lines in a log."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

EVERY = 10.0
"""Seconds between two lines of a log."""


class _State:
    """Whether bars without an explicit ``show`` are hidden."""

    silent = False


@contextmanager
def silent() -> Generator[None]:
    """Show no bar in a block, unless its ``show`` is True."""
    before, _State.silent = _State.silent, True
    try:
        yield
    finally:
        _State.silent = before


def is_silent() -> bool:
    """Whether bars, and notes of commands, are hidden."""
    return _State.silent


class _Lines:
    def __init__(
        self,
        items: Iterable[Any],
        label: str,
        unit: str,
        write: Callable[[str], None],
        every: float,
        width: int = 0,
    ) -> None:
        self.items, self.label, self.unit, self.note = items, label, unit, ""
        self.write, self.every, self.width = write, every, width

    def set_postfix_str(self, text: str) -> None:
        self.note = f", {text}"

    def __iter__(self) -> Iterator[Any]:
        began = due = time.monotonic()
        for done, item in enumerate(self.items):
            now = time.monotonic()
            if now >= due + self.every:
                due = now
                self.write(self._line(done, now - began))
            yield item

    def _line(self, done: int, seconds: float) -> str:
        bar = total = ""
        if isinstance(self.items, Sized):
            total, full = f" of {len(self.items)}", self.width * done
            filled = "█" * (full // max(1, len(self.items)))
            bar = f"{filled:░<{self.width}} " if self.width else ""
        counted = f"{done}{total} {self.unit}s in {seconds:.0f} s"
        return f"{self.label}: {bar}{counted}{self.note}"


def _to_log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _InNotebook(_Lines):
    def __iter__(self) -> Iterator[Any]:
        from IPython.display import DisplayHandle

        handle = DisplayHandle()
        shown: list[str] = []

        def write(line: str) -> None:
            show = handle.update if shown else handle.display
            shown.append(line)
            show({"text/plain": line}, raw=True)

        self.write = write
        try:
            yield from super().__iter__()
        finally:
            if shown:
                handle.update({}, raw=True)


def progress_bar(
    items: Iterable[Any], label: str, show: bool | None, unit: str = "step"
) -> Any:
    """Wrap an iterable in a progress bar, with a method ``set_postfix_str`` for a text.

    ``show=True`` shows a bar at once, and ``show=False`` shows no bar. If ``show`` is
    None, terminals and notebooks show a bar after one second and remove it at the end.
    Elsewhere (in a log) a line is printed every 10 s. ``unit`` is the name of one item.
    """
    if show is False or (show is None and _State.silent):
        return items
    # A notebook has loaded IPython.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if hasattr(shell, "kernel"):
        return _InNotebook(items, label, unit, _to_log, 0.0 if show else 1.0, 20)
    if not (show or sys.stderr.isatty()):
        return _Lines(items, label, unit, _to_log, EVERY)
    from tqdm import tqdm

    class Bar(tqdm):  # Defined here, because tqdm is loaded only for a terminal.
        def refresh(self, *args: Any, **kwargs: Any) -> None:
            """Draw only after the delay, because ``close`` removes no earlier bar."""
            if not self.delay or time.time() >= self.start_t + self.delay:
                self.last_print_t = time.time()
                super().refresh(*args, **kwargs)

    # Work of less than a second needs no bar.
    return Bar(items, desc=label, unit=unit, leave=False, delay=0 if show else 1)
