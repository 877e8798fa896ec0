"""Run the command line; Ctrl-C ends it with exit code 130.

Python raises KeyboardInterrupt wherever the code is. Files stay whole because they are
written under a temporary name and then moved into place (``files.replacing``).
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn

noticed = deferred = nullcontext
"""Without effect, as is ``check``: KeyboardInterrupt is no longer deferred."""


def check() -> None:
    """Do nothing. Kept for callers until they drop it."""


def run_command(command: Callable[[], object]) -> NoReturn:
    """Run a command line and exit, with code 130 after Ctrl-C.

    Parameters
    ----------
    command : callable
        Function to run. It should import its modules itself, so that these imports
        can be interrupted.
    """
    try:
        command()
    except KeyboardInterrupt:
        sys.stderr.write("probmetric: interrupted\n")
        sys.exit(130)
    sys.exit(0)
