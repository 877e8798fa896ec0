"""The command line: ``python -m probmetric``, and the command ``probmetric``."""

from probmetric.interrupts import run_command

__all__ = ["main"]


def _command() -> None:
    from probmetric.cli.app import app

    app(prog_name="probmetric")


def main() -> None:
    """Run the command line."""
    run_command(_command)


if __name__ == "__main__":
    main()
