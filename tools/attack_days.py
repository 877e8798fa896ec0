"""Hostile days: full disks, signals, two writers, forks; and memory of every reader.

Each is a real process of ``probmetric fit lda`` or of Python. ``memory`` is measured in
a process of its own for each file, against the arrays that the reader returns.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
sys.argv[0] = "probmetric"
from probmetric.cli.app import main
main()
"""
FORKED = """
import multiprocessing, sys, warnings
import numpy as np
import probmetric as pm
X = np.random.default_rng(0).normal(size=(20, 2))
def work(_):
    return pm.nearest(pm.Mahalanobis(np.eye(2)), X, X, 2)[1].sum()
if __name__ == "__main__":
    work(0)
    with warnings.catch_warnings(record=True, action="always") as seen:
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            pool.map_async(work if sys.argv[1] == "spawn" else abs, [1]).get(60)
    said = [str(w.message) for w in seen if "spawn" in str(w.message)]
    sys.exit(0 if bool(said) == (sys.argv[1] == "fork") else 3)
"""
Day = tuple[str, str, str]
"""What was done, what became of it, and why."""


def _fit(out: Path, *more: str, prefix: tuple[str, ...] = ()) -> list[str]:
    start = prefix or ("-m", "probmetric")
    words = ("fit", "lda", "--data", "iris", "--out", str(out), *more)
    return [sys.executable, *start, *words]


def _heard() -> None:
    """Let SIGINT be heard: what a shell starts in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _whole(out: Path) -> str:
    """Return what is wrong with a folder, or nothing."""
    if (out / "summary.json").exists():
        json.loads((out / "summary.json").read_text())
    for path in out.rglob("*.npz"):
        with np.load(path) as arrays:
            dict(arrays)
    left = [path.name for path in out.rglob("*") if ".part" in path.name]
    return f"left behind: {left}" if left else ""


def _judged(
    text: str, code: int, said: str, allowed: tuple[int, ...], out: Path
) -> Day:
    if "Traceback" in said or "Exception ignored" in said:
        return text, "TRACEBACK", said[-500:]
    if code not in allowed:
        return text, "EXIT CODE", f"{code}: {said[-300:]}"
    if code == 2 and not re.search(r"^probmetric: ", said, re.MULTILINE):
        return text, "UNNAMED", said[-300:]
    if wrong := _whole(out):
        return text, "SILENT", wrong
    return text, "refused" if code else "answered", ""


def days(seed: int, share: float) -> Iterator[Day]:
    """Make hostile days; of each sort at least one."""
    rng = np.random.default_rng(seed)

    def times(n: int) -> range:
        return range(max(1, round(n * share)))

    with tempfile.TemporaryDirectory() as folder:
        for k in times(10):
            size, out = int(rng.integers(1, 200_000)), Path(folder, f"disk{k}")
            command = _fit(out, prefix=("-c", LIMITED, str(size)))
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            text = f"files of at most {size} bytes"
            yield _judged(text, done.returncode, done.stderr, (0, 2), out)
        for k in times(20):
            out, after = Path(folder, f"signal{k}"), float(rng.uniform(0.3, 6))
            sent = (signal.SIGINT, signal.SIGTERM)[int(rng.random() < 0.3)]
            process = subprocess.Popen(
                _fit(out), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=_heard,
            )  # fmt: skip
            time.sleep(after)
            process.send_signal(sent)
            said = process.communicate(timeout=120)[1]
            ends = (0, 130, -signal.SIGINT) if sent == signal.SIGINT else (0, -sent)
            text = f"{sent.name} after {after:.2f} s"
            yield _judged(text, process.returncode, said, ends, out)
        for k in times(5):
            out = Path(folder, f"writers{k}")
            both = [
                subprocess.Popen(_fit(out), stderr=subprocess.PIPE, text=True,
                                 stdout=subprocess.DEVNULL)
                for _ in range(2)
            ]  # fmt: skip
            said = [process.communicate(timeout=300)[1] for process in both]
            codes = sorted(process.returncode for process in both)
            day = _judged("two writers", codes[1], "".join(said), (2,), out)
            yield day if codes[0] == 0 else ("two writers", "EXIT CODE", str(codes))
        for how in ("fork", "spawn"):
            path = Path(folder, "forked.py")
            path.write_text(FORKED)
            done = subprocess.run(
                [sys.executable, str(path), how], capture_output=True, text=True,
                timeout=300, env={**os.environ},
            )  # fmt: skip
            text = f"{how} after use"
            yield _judged(text, done.returncode, done.stderr, (0,), Path(folder, "no"))
