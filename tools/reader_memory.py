"""Measure the memory that each reader of files takes, beside the arrays it returns.

    python tools/reader_memory.py                 a table, and exit 1 beyond the limits
    python tools/reader_memory.py --megabytes 80 --kinds csv npz
    python tools/reader_memory.py --only "csv.gz: one"     of what is so called
    python tools/reader_memory.py --break         a negative control: must exit 1

Each file is read in a process of its own, which has read a small one of its kind
before, so that what a library loads at its first use is not counted. Peak is the
largest resident set while the file is read less that before, by Linux's VmHWM, which
is set back in between. Its limit is ``SLACK`` megabytes and ``TIMES`` times the arrays
that are returned, or, of a file that is refused, ``TIMES`` times the file's own bytes.

Whole files hold ``--megabytes`` of float64 (``whole_files``); hostile ones promise as
much, or much more, and hold little (``hostile_files``). With ``--break`` every reader
keeps what it reads four times. Table: benchmarks/results/reader_memory.md.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from hostile_files import KINDS, Hostile, hostile_files, whole_file

SLACK = 16.0
"""Megabytes that may be taken whatever is read: pages, and lines of text."""

TIMES = 3.0
"""Of the arrays returned, or the bytes refused, the largest peak."""


class Case(NamedTuple):
    """A file to read: what it is, its reader, and a small one of its kind."""

    name: str
    reader: str
    path: Path
    small: Path


class Measured(NamedTuple):
    """What a reader took and returned in MB, and what it said."""

    peak: float
    arrays: float
    said: str


def _resident(key: str) -> float:
    """Return a figure of this process in MB: VmRSS now, or VmHWM at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {key} in /proc/self/status: this needs Linux")


def array_bytes(value: Any) -> int:
    """Return the bytes of the arrays that a value holds."""
    if isinstance(value, tuple | list):
        return sum(map(array_bytes, value))
    if hasattr(value, "subtree"):  # A tree of draws.
        return sum(node.ds.nbytes for node in value.subtree)
    if hasattr(value, "nbytes"):  # Also of what stands for arrays that are gone.
        return int(value.nbytes)
    ours = type(value).__module__.startswith("probmetric")
    return array_bytes([*vars(value).values()]) if ours else 0


def _labelled(path: Path) -> Any:
    import probmetric as pm

    return pm.datasets.load(path)


def _rows(path: Path) -> Any:
    """Read a source part by part; return the blocks of the largest part.

    ``pm.open`` is for rows that need not fit in memory: those of one part are kept, of
    Parquet a row group, the least that can be read of it.
    """
    import probmetric as pm

    source, largest = pm.open(path), 0
    for part in source.parts:
        blocks = [block.X for block in source.read(part, 1 << 13)]
        largest = max(largest, array_bytes(blocks))
        del blocks
    return np.broadcast_to(np.uint8(0), largest)


def _metric(path: Path) -> Any:
    import probmetric as pm

    return pm.load_metric(path)


def _draws(path: Path) -> Any:
    import probmetric as pm

    return pm.load_draws(path)


READERS: dict[str, Callable[[Path], Any]] = {
    "labelled": _labelled,
    "rows": _rows,
    "metric": _metric,
    "draws": _draws,
}


def read(reader: str, path: Path, small: Path, times: int = 0) -> Measured:
    """Read in this process, and copy what is returned so many times."""
    use = READERS[reader]
    use(small)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again.
    said, size = "read", 0.0
    try:
        size = array_bytes(use(path)) / 2**20
    except ValueError as error:
        said = f"refused: {' '.join(str(error).split())}"
    copies = np.ones(int(times * max(size * 2**20, path.stat().st_size, 2**23)), "u1")
    peak = _resident("VmHWM") - before
    del copies
    return Measured(peak, size, said)


def measured(case: Case, times: int = 0) -> Measured:
    """Read in a process of its own."""
    words = [case.reader, str(case.path), str(case.small), str(times)]
    done = subprocess.run(
        [sys.executable, __file__, "--read", *words], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{case.name}: {done.stderr[-2000:]}")
    peak, size, said = done.stdout.strip().splitlines()[-1].split(" ", 2)
    return Measured(float(peak), float(size), said)


def most(case: Case, found: Measured) -> float:
    """Return the limit of a peak in MB."""
    held = found.arrays or case.path.stat().st_size / 2**20
    return SLACK + TIMES * held


def cases(folder: Path, megabytes: float, kinds: list[str]) -> Iterator[Case]:
    """Write whole files of each kind, then hostile ones, each gone when measured."""
    rows = max(64, int(megabytes * 2**20 / 160)) // 4 * 4
    small = {kind: whole_file(folder, 64, kind) for kind in KINDS}
    made = [Hostile(kind, kind, kind) for kind in KINDS if kind in kinds]
    for name, kind, _ in made:
        path = whole_file(folder, rows, kind)
        yield Case(name, KINDS[kind], path, small[kind])
        path.unlink()
    if "hostile" in kinds:
        for name, kind, path in hostile_files(folder, small, rows):
            yield Case(name, KINDS[kind], Path(path), small[kind])
            Path(path).unlink()


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 1 where a peak is beyond its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=40.0)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, "hostile"])
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument("--break", dest="spoilt", action="store_true")
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.read:
        reader, path, small, times = given.read
        print(*read(reader, Path(path), Path(small), int(times)))
        return 0
    wrong = 0
    print("| file | MB | arrays MB | peak MB | peak / arrays | limit MB | |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), given.megabytes, given.kinds):
            if given.only not in case.name:
                continue
            found = measured(case, 4 * given.spoilt)
            size, limit = case.path.stat().st_size / 2**20, most(case, found)
            wrong += found.peak > limit
            ratio = f"{found.peak / found.arrays:.2f}" if found.arrays > 1 else ""
            said = found.said[:60].replace("|", " ").replace(folder, "")
            said = "BEYOND " * (found.peak > limit) + said
            print(
                f"| {case.name} | {size:.1f} | {found.arrays:.1f} | {found.peak:.1f} | "
                f"{ratio} | {limit:.1f} | {said} |",
                flush=True,
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
