"""``--processes N``: start N copies of a command on this machine, as one run.

Across hosts use Slurm, mpirun, Kubernetes or Ray to start the same command;
``distributed`` joins the copies. Each copy gets a number, the port of process 0 on the
loopback (chosen by the kernel), a separate set of cores, and no proxy variables, which
can prevent JAX's processes from connecting.

If a copy dies, the others are killed by process group. An error of the command (exit
code 1, 2 or 130) is the code of the run. If a copy was killed, or exited with 75
because it lost the others, all copies are started again, from the checkpoint if there
is one.

If this process ends, the system closes its pipes to the copies, which then end, too.
The standard output of the first copy is shown. The last lines of standard error are
shown for the copy that ended the run.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import IO, NamedTuple

import typer

from probmetric.large.processes import (
    COORDINATOR,
    PATIENCE,
    RANKS,
    RESTART,
    SIZES,
    distributed,
    leave,
)

GRACE = 5.0
"""Seconds for the other copies to report their error after one has ended."""

LAUNCHED = "PROBMETRIC_LAUNCHED"
"""Variable that is set in copies started by this file."""

TAIL = 40
"""Maximum number of lines of a copy's standard error to show."""

NOISE = b"[Gloo]"
"""Prefix of lines that a library writes to standard output."""

ERRORS = {1: 1, 2: 0, 130: 2}
"""Exit codes of the command, with their priority."""


class Copy(NamedTuple):
    """A process, its last lines, and the threads that read them."""

    process: "subprocess.Popen[bytes]"
    tail: "deque[bytes]"
    readers: list[threading.Thread]


def is_copy() -> bool:
    """Whether this process was started by ``launch``."""
    return LAUNCHED in os.environ


def free_port() -> int:
    """Find a free port of the loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cores_of(rank: int, size: int) -> set[int]:
    """Choose the cores of a copy; one each if there are too few."""
    if not hasattr(os, "sched_getaffinity"):
        return set()
    cores = sorted(os.sched_getaffinity(0))
    if size > len(cores):
        return {cores[rank % len(cores)]}
    return set(cores[rank * len(cores) // size : (rank + 1) * len(cores) // size])


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """Make the environment variables of one copy."""
    plain = {k: v for k, v in os.environ.items() if "_proxy" not in k.lower()}
    return plain | {
        COORDINATOR: f"127.0.0.1:{port}",
        SIZES[0]: str(size),
        RANKS[0]: str(rank),
        LAUNCHED: "1",
    }


def launch(words: list[str], size: int, restarts: int, *, resume: bool) -> int:
    """Run a command (executable first) in ``size`` processes.

    After a lost process, all processes are started again, at most ``restarts`` times.
    ``resume`` adds ``--resume`` to the restarted command. The exit code is 0, an error
    1, 2 or 130 of the command, or 75 if a process was lost after all restarts.
    """
    for attempt in range(restarts + 1):
        again = resume and attempt > 0 and "--resume" not in words
        code = _once([*words, "--resume"] if again else words, size)
        if code != RESTART:
            return code
        left = restarts - attempt
        typer.echo(
            f"probmetric: a process was lost; {left} restarts left"
            + (", continuing from the checkpoint" if resume and left else ""),
            err=True,
        )
    return RESTART


def _once(words: list[str], size: int) -> int:
    """Start all copies, wait for them, and kill the rest."""
    port = free_port()
    copies: list[Copy] = []
    with _ended_by_signal():
        try:
            for rank in range(size):
                copies.append(_start(words, rank, size, port))
            codes = _wait(copies)
        finally:
            for copy in copies:
                _end(copy)
    code, rank = verdict(codes)
    if code and rank:
        for line in copies[rank].tail:
            sys.stderr.write(f"[{rank}] {line.decode(errors='replace')}")
    return code


def verdict(codes: Mapping[int, int]) -> tuple[int, int]:
    """Return the exit code of the run, and the process that caused it.

    An error of the command takes precedence over lost processes.
    """
    bad = {rank: code for rank, code in codes.items() if code}
    errors = {rank: code for rank, code in bad.items() if code in ERRORS}
    if errors:
        rank = max(errors, key=lambda r: (ERRORS[errors[r]], -r))
        return errors[rank], rank
    return (RESTART, min(bad)) if bad else (0, 0)


def _start(words: list[str], rank: int, size: int, port: int) -> Copy:
    process = subprocess.Popen(
        words,
        env=environment(rank, size, port),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    cores = cores_of(rank, size)
    if cores:
        try:
            os.sched_setaffinity(process.pid, cores)
        except ProcessLookupError:
            pass  # It has ended already; ``_wait`` returns its code.
    tail: deque[bytes] = deque(maxlen=TAIL)
    out, err = process.stdout, process.stderr
    assert err is not None
    shown = sys.stderr if rank == 0 else None
    threads = [threading.Thread(target=_pass_on, args=(err, shown, tail))]
    if out is not None:
        threads.append(threading.Thread(target=_pass_on, args=(out, sys.stdout, None)))
    for thread in threads:
        thread.daemon = True
        thread.start()
    return Copy(process, tail, threads)


def _pass_on(lines: IO[bytes], to: IO[str] | None, tail: "deque[bytes] | None") -> None:
    """Show the lines of a copy, and store the last ones."""
    for line in lines:
        if tail is not None:
            tail.append(line)
        if to is not None and not line.startswith(NOISE):
            to.write(line.decode(errors="replace"))
            to.flush()


def _wait(copies: list[Copy]) -> dict[int, int]:
    """Wait for the copies; return the exit codes of those that ended."""
    deadline = float("inf")
    while True:
        polled = {rank: copy.process.poll() for rank, copy in enumerate(copies)}
        codes = {rank: code for rank, code in polled.items() if code is not None}
        if len(codes) == len(copies) or time.monotonic() > deadline:
            return codes
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
        time.sleep(0.05)


def _end(copy: Copy) -> None:
    """Kill a copy with its children; wait for its last lines."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(copy.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif copy.process.poll() is None:
        copy.process.kill()
    copy.process.wait()
    for thread in copy.readers:
        thread.join(1.0)
    for stream in (copy.process.stdin, copy.process.stdout, copy.process.stderr):
        if stream is not None:
            stream.close()


@contextmanager
def _ended_by_signal() -> Generator[None]:
    """Convert SIGTERM to SystemExit, which ends the copies."""

    def stop(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def work_together(
    work: Callable[[Callable[[], int]], int],
    run: Callable[[], int],
    patience: float = PATIENCE,
) -> int:
    """Join the other processes, if any, and run a command with them.

    ``work`` calls ``run`` and converts its errors to exit codes (``files.exit_code``).
    Other processes are waited for unless ``run`` raised an error. ``patience`` is an
    argument of ``distributed``.
    """
    ended: list[int] = []

    def noted() -> int:
        ended.append(run())
        return ended[0]

    if is_copy():
        threading.Thread(target=_end_with_launcher, daemon=True).start()
    with distributed(patience=patience) as together:
        code = work(noted)
        if together.size > 1 and not ended:
            leave(code)
    return code


def _end_with_launcher() -> None:
    """End this process when its parent ends."""
    while os.read(0, 1):  # sys.stdin has a lock that Python needs at exit.
        pass
    leave(RESTART)
