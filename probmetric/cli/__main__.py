"""``python -m probmetric.cli`` is the command."""

from probmetric.cli.app import main

if __name__ == "__main__":
    main()
