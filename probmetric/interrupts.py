"""Run the command line; Ctrl-C ends it with exit code 130.

Python may raise KeyboardInterrupt at any point of the code. Files are never incomplete,
because they are written under a temporary name and then renamed (``files.replacing``).
While XLA compiles or runs a program, Python does not raise KeyboardInterrupt. Therefore
a thread ends the process one second after the signal.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130
LIMIT = 1.0
"""Seconds from Ctrl-C to the end of the process."""


def run_command(command: Callable[[], object]) -> NoReturn:
    """Run a command, and exit with code 130 after Ctrl-C, also during imports."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)  # Receives each signal's number at once.

    def end() -> None:
        while os.read(reader, 1)[0] != signal.SIGINT:
            pass
        time.sleep(LIMIT)
        _leave("probmetric: interrupted\n")

    threading.Thread(target=end, daemon=True).start()
    try:
        command()
    except KeyboardInterrupt:
        _leave("probmetric: interrupted\n")
    except SystemExit as error:
        if error.code != INTERRUPTED:
            raise
        _leave()
    sys.exit(0)


def _leave(message: str = "") -> NoReturn:
    """Exit at once. A normal exit would wait for the programs that XLA runs."""
    try:
        sys.stderr.write(message)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # Also if Ctrl-C has ended the reader of a pipe.
        os._exit(INTERRUPTED)
