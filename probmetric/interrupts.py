"""A SIGINT (Ctrl-C) is never lost, and never cuts in two what is being written.

Python drops a KeyboardInterrupt that is raised in a callback of the garbage collector
(JAX has one) or in ``__del__``, and libraries turn it into errors of their own; the run
then goes on as if nobody had asked. Within ``noticed`` the request is therefore also
remembered: one that Python drops is raised again, ``check`` asks for it between steps,
and the block cannot end without it. While an extension module is loaded it waits: an
exception there ends the process in some (jaxlib aborts, matplotlib's are not valid).
"""

import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any, NoReturn

AGAIN = 0.02
"""Seconds until a KeyboardInterrupt that was dropped, or had to wait, is raised."""

LOADING = (
    ExtensionFileLoader.create_module.__code__,
    ExtensionFileLoader.exec_module.__code__,
)
"""What runs the C code of an extension module that is imported."""


class _State:
    """What the process was asked; there is one SIGINT a process."""

    installed = False
    asked = 0
    dropped = False
    waiting = False
    deferring = 0


def _handle(_: int, frame: FrameType | None) -> None:
    if _State.dropped:
        _State.dropped = False  # The same request once more.
    else:
        _State.asked += 1
    if _loading(frame):
        _soon()
    elif not _State.deferring or _State.asked > 1:
        _State.waiting = False
        raise KeyboardInterrupt


def _loading(frame: FrameType | None) -> bool:
    """Whether the code at work was called by an extension module being loaded."""
    while frame is not None and frame.f_code not in LOADING:
        frame = frame.f_back
    return frame is not None


def _soon() -> None:
    """Ask for the same interrupt again in ``AGAIN`` seconds, if none is raised before.

    One request must not raise twice, the second time in what cleans up.
    """

    def again() -> None:
        if _State.installed and _State.asked and _State.waiting:
            _State.dropped = True
            interrupt_main()

    _State.waiting = True
    timer = threading.Timer(AGAIN, again)
    timer.daemon = True
    timer.start()


def check() -> None:
    """Raise KeyboardInterrupt if one was asked for, in a scope of ``noticed``."""
    if _State.asked and threading.current_thread() is threading.main_thread():
        _State.waiting = False
        raise KeyboardInterrupt


@contextmanager
def deferred() -> Generator[None]:
    """Let an interrupt wait for the end of a short block; a second one does not wait.

    Where nothing is installed, and in other threads, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.deferring += 1
    try:
        yield
    finally:
        _State.deferring -= 1
        if not _State.deferring:
            check()


@contextmanager
def noticed(then: Any = signal.default_int_handler) -> Generator[None]:
    """Remember SIGINT in this block; raise KeyboardInterrupt at its end if it was lost.

    An inner block of the same kind ends in the same way. Where SIGINT has a handler of
    another's, and outside the main thread, nothing is changed.

    Parameters
    ----------
    then : signal handler
        Of SIGINT after the outermost block.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours and not (main and _State.installed):
        yield
        return
    hook = sys.unraisablehook
    if ours:
        _State.installed, _State.asked = True, 0
        _State.dropped = _State.waiting = False
        sys.unraisablehook = _raised_again(hook)
        signal.signal(signal.SIGINT, _handle)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, then)
            sys.unraisablehook = hook
            _State.installed = False
        asked, _State.asked = _State.asked, 0
        if asked and not isinstance(sys.exception(), KeyboardInterrupt):
            raise KeyboardInterrupt


def _raised_again(hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a hook of dropped exceptions that raises KeyboardInterrupt again."""

    def note(dropped: Any) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _soon()
        else:
            hook(dropped)

    return note


def run_command(command: Callable[[], object]) -> NoReturn:
    """Run a command line and leave the process; a SIGINT gives exit code 130.

    Once the command is done, the code stands, and a SIGINT ends the process at once.

    Parameters
    ----------
    command : callable
        Its imports are best made in it: an interrupt of them is noticed too.
    """
    code: Any = 130
    try:
        with noticed(then=signal.SIG_DFL):
            command()
            code = 0
    except KeyboardInterrupt:
        sys.stderr.write("probmetric: interrupted\n")
        code = 130
    except SystemExit as left:
        code = left.code
    # After a KeyboardInterrupt in a string that is run (dataclasses do so) Python dies
    # by the signal at its end, whatever the code, until another string was run well.
    eval("0")
    sys.exit(code)
