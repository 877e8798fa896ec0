"""Run the command line; Ctrl-C ends it with exit code 130.

Python raises KeyboardInterrupt wherever the code is. Files stay whole because they are
written under a temporary name and then moved into place (``files.replacing``).
"""

import sys
from collections.abc import Callable
from typing import NoReturn


def run_command(command: Callable[[], object]) -> NoReturn:
    """Run a command line, which imports its modules; exit with 130 after Ctrl-C."""
    try:
        command()
    except KeyboardInterrupt:
        sys.stderr.write("probmetric: interrupted\n")
        sys.exit(130)
    sys.exit(0)
