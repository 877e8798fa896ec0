"""The command line: ``python -m probmetric``, and the command ``probmetric``."""

from probmetric.cli.__main__ import main

if __name__ == "__main__":
    main()
