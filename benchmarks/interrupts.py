"""Commands interrupted at random moments: exit code 130, and whole files, every time?

    python benchmarks/interrupts.py [--commands fit] [--count 25] [--seed 0] [--out F]

A child process runs ``probmetric`` on Iris. A run that is left alone says how long it
takes until its files are written; every other is sent SIGINT at a moment drawn
uniformly over that time, start-up of Python included, into a folder that holds the
files of a former run (``--force``). A run that had said "Wrote" before the signal was
done; another takes its place, and the table counts it. Python itself dies of a SIGINT
that comes before it has read the first line of this package, which a shell also shows
as 130; the table counts these apart. Then: the metric (or draws) and the summary must
be readable and of one run, the report whole, every block of draws readable, no
unfinished file left, and no lock held.
"""

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

COMMANDS = {
    "fit": ["fit", "lca", "--data", "iris"],
    "sample": ["sample", "lca", "--data", "iris", "--draws", "50", "--chains", "1"],
}
PATIENCE = 120
"""Seconds that a run may take to end once it is told to; then it is killed."""


class Outcome(NamedTuple):
    """Of one command: interrupts by how the run ended, and what was left behind."""

    command: str
    seconds: float
    interrupts: int
    code_130: int
    python_start: int
    other: int
    not_whole: int
    done_before: int
    slowest: float

    @property
    def sound(self) -> bool:
        """Every run ended as interrupted and left whole files."""
        ended = self.code_130 + self.python_start
        return ended == self.interrupts and not self.other and not self.not_whole


class Ended(NamedTuple):
    """How a run ended; ``wrote`` is when it said that it had written, or None."""

    code: int
    wrote: float | None
    after: float
    errors: str


def run(command: str, out: Path, cache: Path, seed: int, moment: float | None) -> Ended:
    """Run a command; send SIGINT after ``moment`` seconds, if any."""
    words = [*COMMANDS[command], "--out", str(out), "--seed", str(seed), "--force"]
    if command == "sample":
        words += ["--checkpoint", str(out / f"blocks_{seed}")]
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONUNBUFFERED": "1",
    }
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "probmetric", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    wrote: list[float] = []

    def listen() -> None:
        for line in process.stdout:
            if line.startswith("Wrote"):
                wrote.append(time.perf_counter() - started)

    errors: list[str] = []
    threads = [
        threading.Thread(target=listen),
        threading.Thread(target=lambda: errors.append(process.stderr.read())),
    ]
    for thread in threads:
        thread.start()
    if moment is not None:
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    asked = time.perf_counter()
    try:
        code = process.wait(None if moment is None else PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    for thread in threads:
        thread.join()
    process.stdout.close()
    process.stderr.close()
    after = time.perf_counter() - asked
    return Ended(code, wrote[0] if wrote else None, after, errors[0])


def whole(command: str, out: Path, seeds: set[int]) -> str:
    """Return what is wrong with a folder, or nothing."""
    from probmetric.storage import load_draws, read_metric

    said = json.loads((out / "summary.json").read_text())
    if command == "fit":
        seed = read_metric(out / "metric.npz").provenance["seed"]
    else:
        seed = int(load_draws(out / "draws.nc").attrs["seed"])
    if seed != said["seed"] or seed not in seeds:
        return f"results of seed {seed} beside a summary of {said['seed']}"
    if not (out / "report.html").read_text().rstrip().endswith("</html>"):
        return "half a report"
    for block in out.rglob("block_*.npz"):
        with np.load(block) as arrays:
            dict(arrays)
    parts = [path.name for path in out.rglob("*") if ".part" in path.name]
    if parts:
        return f"left behind: {', '.join(parts)}"
    folders = [out, *(path for path in out.iterdir() if path.is_dir())]
    for lock in (folder / ".probmetric.lock" for folder in folders):
        if lock.exists():
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return ""


def interrupt(command: str, count: int, seed: int, scratch: Path) -> Outcome:
    """Interrupt a command ``count`` times."""
    # A shell starts what runs in the background, and its children, with it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(seed)
    out, cache = scratch / command, scratch / "compiled"
    alone = [run(command, out, cache, k, None) for k in range(2)]
    if any(end.code not in (0, 1) or end.wrote is None for end in alone):
        raise RuntimeError(f"{command}: left alone, it ended with {alone}")
    seconds = alone[-1].wrote or 0.0  # the first has compiled
    codes: list[int] = []
    not_whole = done_before = 0
    slowest = 0.0
    number = 2
    while len(codes) < count:
        moment = float(rng.uniform(0, seconds))
        end = run(command, out, cache, number, moment)
        if end.wrote is not None and end.wrote < moment:
            done_before += 1
        else:
            codes.append(end.code)
            slowest = max(slowest, end.after)
            if end.code != 130:
                print(f"{command}, {moment:.2f} s: {end}", file=sys.stderr)
        wrong = whole(command, out, set(range(number + 1)))
        if wrong:
            not_whole += 1
            print(f"{command}, {moment:.2f} s: {wrong}", file=sys.stderr)
        number += 1
    n_130, n_start = codes.count(130), codes.count(-signal.SIGINT)
    return Outcome(
        command,
        seconds,
        count,
        n_130,
        n_start,
        count - n_130 - n_start,
        not_whole,
        done_before,
        slowest,
    )


def table(outcomes: list[Outcome]) -> str:
    """Write the outcomes as a Markdown table."""
    heads = [
        "command", "seconds left alone", "interrupts", "exit code 130",
        "ended by the signal itself (a shell shows 130)", "other exit codes",
        "files not whole", "done before the signal, drawn again",
        "slowest end, seconds",
    ]  # fmt: skip
    rows = [
        [f"{part:.1f}" if isinstance(part, float) else str(part) for part in o]
        for o in outcomes
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Print the table; exit 1 if an interrupt was lost or a file is not whole."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--count", type=int, default=25, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = [
            interrupt(command, given.count, given.seed, Path(scratch))
            for command in given.commands
        ]
    print(table(outcomes))
    if given.out is not None:
        given.out.write_text(
            "# Interrupted\n\n"
            f"`python benchmarks/interrupts.py --commands {' '.join(given.commands)} "
            f"--count {given.count} --seed {given.seed}`: LCA on Iris, SIGINT at "
            "moments uniform over the time of a run that is left alone, over the files "
            f"of a former run.\n\n{table(outcomes)}\n"
        )
    return int(not all(outcome.sound for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
