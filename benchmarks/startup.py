"""How long a user waits: import, ``--help``, and the default fit on Wine once warm.

    python benchmarks/startup.py

Each time is the smallest of several runs, in seconds, and as a multiple of starting
this Python with NumPy, measured in the same run: the multiple is what compares
between machines. Aims: 0.3 s, 0.5 s, 0.3 s on a quiet two-core machine.
"""

import subprocess
import sys
import time
from pathlib import Path

import probmetric as pm

RUNS = 5


def smallest(command: list[str]) -> float:
    """Return the smallest wall time of some runs of a command."""
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def warm_fit() -> float:
    """Return the smallest time of the default fit on Wine, once compiled."""
    X, y = pm.datasets.load("wine")
    pm.LCA().fit(X, y)
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        pm.LCA().fit(X, y)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    python = sys.executable
    floor = smallest([python, "-c", "import numpy"])
    rows = [
        ("python -c 'import numpy' (the unit)", floor, None),
        ("import probmetric", smallest([python, "-c", "import probmetric"]), 0.3),
        (
            "probmetric --help",
            smallest([str(Path(python).with_name("probmetric")), "--help"]),
            0.5,
        ),
        ("LCA().fit on wine, warm", warm_fit(), 0.3),
    ]
    print(f"{'':38s}{'seconds':>9s}{'multiple':>10s}{'aim, s':>8s}")
    for name, seconds, aim in rows:
        wanted = "" if aim is None else f"{aim:.1f}"
        print(f"{name:38s}{seconds:9.3f}{seconds / floor:10.2f}{wanted:>8s}")


if __name__ == "__main__":
    main()
