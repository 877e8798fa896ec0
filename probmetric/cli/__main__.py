"""The command line: ``python -m probmetric.cli``."""

from probmetric.interrupts import run_command


def _command() -> None:
    from probmetric.cli.app import app  # Here, so that an interrupt of it is noticed.

    app(prog_name="probmetric")


def main() -> None:
    """Run the command line."""
    run_command(_command)


if __name__ == "__main__":
    main()
