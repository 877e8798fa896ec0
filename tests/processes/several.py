"""A small fit of ten passes in several processes, with faults to order; and its guard.

Run as a script it is one copy of the fit: its words are OUT, CHECKPOINT and, to order
faults, FAULT:RANK:PASS,...; ``--resume`` is a run after a fault.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PASSES = 10
BINS = 64
LIMIT = 60
"""Seconds until a test takes a run to hang: a guard, and no measurement."""


def fit(out, checkpoint, faults, resume):
    from probmetric.large.bins import over_processes
    from probmetric.large.passes import Pass, checkpointed, kept
    from probmetric.large.processes import together

    bins = np.random.default_rng(0).normal(size=(BINS, 5))
    rank, size = together()
    owner = np.arange(BINS) * size // BINS
    slow = np.random.default_rng()

    def one_pass(index, x):
        for fault in faults:
            suffer(fault, rank, index, Path(checkpoint))
        time.sleep(slow.uniform(0, 0.05))
        # Bins 20 to 40 have no rows: of four processes one has few.
        mine = np.flatnonzero((owner == rank) & (abs(np.arange(BINS) - 30) > 10))
        agree = x if faults[0][0] != "disagree" else x + rank
        sums = ((int(b), np.sin(bins[b] + x)) for b in mine)
        return over_processes(np.add, sums, lambda: np.zeros(5), agree)

    x = np.zeros(5)
    with checkpointed(checkpoint, resume=resume):
        for index in range(PASSES):
            which = Pass("sines", "no parts", x)
            x = x / 2 + kept(which, lambda x=x: x, lambda i=index, x=x: one_pass(i, x))
    if rank == 0:
        np.save(out, x)
    return 0


def suffer(fault, rank, index, checkpoint):
    """Do what was ordered, once in the life of a checkpoint."""
    name, *at = fault
    done = checkpoint.parent / "-".join(["suffered", *fault])
    if [rank, index] != [int(n) for n in at] or done.exists():
        return
    done.touch()
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if name in ("stuck", "held"):
        time.sleep(10 * LIMIT)
    if name == "raise":
        raise RuntimeError("as planned")
    if name == "full":
        import resource

        # Files may grow no further: as on a disk that is full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def copy(words):
    from probmetric.cli.files import bad_input, exit_code
    from probmetric.cli.launch import work_together

    out, checkpoint = Path(words[0]), words[1]
    faults = [fault.split(":") for fault in words[2].split(",")]
    (out.parent / f"pid-{os.getpid()}").touch()

    def run():
        with bad_input():
            return fit(out, checkpoint, faults, "--resume" in words)

    # Of a run that is held nobody is to notice that it is stuck.
    patience = 10.0 * LIMIT if faults[0][0] == "held" else 5.0
    return work_together(exit_code, run, patience=patience)


def alive(pid):
    """Say whether a process runs, or is stopped; one that ended is not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def suffered(folder):
    """Return the faults that happened to a run in a folder."""
    return sorted(path.name.split("-", 1)[1] for path in folder.glob("suffered-*"))


def survivors(folder):
    """Return the copies that still run, of those that left their number in a folder."""
    numbers = [int(path.name.split("-")[1]) for path in folder.glob("pid-*")]
    return [number for number in numbers if alive(number)]


LAUNCH = "\n".join(
    [
        "import sys",
        "from probmetric.cli import launch as launcher",
        "from probmetric.cli.launch import launch",
        "launcher.GRACE = 1.0",  # Of processes that are stuck none says why it ends.
        "size, restarts, *words = sys.argv[1:]",
        "words = [sys.executable, *words]",
        "sys.exit(launch(words, int(size), int(restarts), resume=True))",
    ]
)


@contextmanager
def no_process_left(folder):
    """Kill at the end of a block, by number, every copy that left its own in folder."""
    try:
        yield
    finally:
        for number in survivors(folder):
            os.kill(number, signal.SIGKILL)


def started(folder, size=2, fault="none", *, restarts=1, words=()):
    """Start a run that leaves ``out.npy`` and the checkpoint ``ck`` in a folder."""
    command = [sys.executable, "-c", LAUNCH, str(size), str(restarts), __file__]
    command += [str(folder / "out.npy"), str(folder / "ck"), fault, *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(folder, size=2, fault="none", *, restarts=1, words=()):
    """Run to the end; return the exit code and what was said on standard error.

    A run that hangs, or leaves a process, is an AssertionError.
    """
    with no_process_left(folder):
        launcher = started(folder, size, fault, restarts=restarts, words=words)
        try:
            said = launcher.communicate(timeout=LIMIT * max(1, restarts))[1]
        except subprocess.TimeoutExpired:
            launcher.kill()
            said = launcher.communicate()[1]
            raise AssertionError(f"hangs: {said}") from None
        assert not survivors(folder)
    return launcher.returncode, said


if __name__ == "__main__":
    sys.exit(copy(sys.argv[1:]))
