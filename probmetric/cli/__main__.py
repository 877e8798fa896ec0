"""The command line: ``python -m probmetric.cli``."""

import sys

from probmetric.interrupts import run_command
from probmetric.provenance import need


def _command() -> None:
    try:
        need("probmetric", "cli", "typer", "jinja2", "matplotlib")
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    from probmetric.cli.app import app  # Here, so that an interrupt of it is noticed.

    app(prog_name="probmetric")


def main() -> None:
    """Run the command line."""
    run_command(_command)


if __name__ == "__main__":
    main()
