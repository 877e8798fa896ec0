"""``--processes N``: start N copies of a command on this machine, as one run.

This is a launcher for one machine. Across hosts Slurm, mpirun, Kubernetes or Ray start
the same command, and ``distributed`` joins the copies. Each copy gets a number, the
port of process 0 on the loopback (the kernel's choice), a set of cores of its own, and
no proxy variables, which may keep JAX's processes from meeting.

When a copy dies the others are ended, by process group. An error of the command itself
(exit code 1, 2 or 130) is the run's code; a copy that was killed, or left with 75 as it
lost the others, has all started again, from the checkpoint if there is one.

A copy also ends when this process does: it holds the other end of a pipe, which the
system closes. The first copy speaks for all on standard output; of the others only the
last lines of standard error are shown, of the one that ended the run.
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

from probmetric.processes.distributed import (
    COORDINATOR,
    PATIENCE,
    RANKS,
    RESTART,
    SIZES,
    distributed,
    leave,
)

GRACE = 5.0
"""Seconds that the others have to say why they end, once one has ended."""

LAUNCHED = "PROBMETRIC_LAUNCHED"
"""Set in copies that this file started: they end with it."""

TAIL = 40
"""Lines of a copy's standard error that are kept to be shown."""

NOISE = b"[Gloo]"
"""How lines begin that a library writes to standard output."""

OWN = {1: 1, 2: 0, 130: 2}
"""Exit codes that are the command's own answer; of several the higher value tells."""


class Copy(NamedTuple):
    """A process started here, its last lines, and the threads that read them."""

    process: "subprocess.Popen[bytes]"
    tail: "deque[bytes]"
    readers: list[threading.Thread]


def is_copy() -> bool:
    """Say whether this process was started as one of several by ``launch``."""
    return LAUNCHED in os.environ


def free_port() -> int:
    """Return a port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cores_of(rank: int, size: int) -> set[int]:
    """Return the cores of one of several copies; one each where there are too few."""
    if not hasattr(os, "sched_getaffinity"):
        return set()
    cores = sorted(os.sched_getaffinity(0))
    if size > len(cores):
        return {cores[rank % len(cores)]}
    return set(cores[rank * len(cores) // size : (rank + 1) * len(cores) // size])


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """Return the variables of one copy."""
    plain = {k: v for k, v in os.environ.items() if "_proxy" not in k.lower()}
    return plain | {
        COORDINATOR: f"127.0.0.1:{port}",
        SIZES[0]: str(size),
        RANKS[0]: str(rank),
        LAUNCHED: "1",
    }


def launch(words: list[str], size: int, restarts: int, *, resume: bool) -> int:
    """Run a command in several processes; return the exit code of the whole.

    Parameters
    ----------
    words : list of str
        The command, executable first.
    size : int
        Processes.
    restarts : int
        How often all are started again, at most, when one was lost.
    resume : bool
        Whether the command keeps a checkpoint: it is then given ``--resume``.

    Returns
    -------
    int
        0, the command's own 1, 2 or 130, or 75 where no restart helped.
    """
    for attempt in range(restarts + 1):
        again = resume and attempt > 0 and "--resume" not in words
        code = _once([*words, "--resume"] if again else words, size)
        if code != RESTART:
            return code
        left = restarts - attempt
        typer.echo(
            f"probmetric: a process was lost; {left} restarts left"
            + (", going on from the checkpoint" if resume and left else ""),
            err=True,
        )
    return RESTART


def _once(words: list[str], size: int) -> int:
    """Start all copies, wait for them, and end what is left of them."""
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
    """Return the code of the whole, and the process that gave it.

    Of one that stopped with 1 and the rest that lost it, 1 is the answer.
    """
    bad = {rank: code for rank, code in codes.items() if code}
    own = {rank: code for rank, code in bad.items() if code in OWN}
    if own:
        rank = max(own, key=lambda r: (OWN[own[r]], -r))
        return own[rank], rank
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
            pass  # It has ended already, which is seen when it is waited for.
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
    """Show what a copy writes, line by line, and keep the last lines."""
    for line in lines:
        if tail is not None:
            tail.append(line)
        if to is not None and not line.startswith(NOISE):
            to.write(line.decode(errors="replace"))
            to.flush()


def _wait(copies: list[Copy]) -> dict[int, int]:
    """Return the exit codes of the copies that ended by themselves."""
    deadline = float("inf")
    while True:
        found = {rank: copy.process.poll() for rank, copy in enumerate(copies)}
        codes = {rank: code for rank, code in found.items() if code is not None}
        if len(codes) == len(copies) or time.monotonic() > deadline:
            return codes
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
        time.sleep(0.05)


def _end(copy: Copy) -> None:
    """Kill what is left of a copy and of what it started; wait for its last lines."""
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
    """Let SIGTERM end the copies too."""

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
    """Join the other processes, if there are any, and do a command's work with them.

    Parameters
    ----------
    work : callable
        Calls ``run``, and turns its errors into exit codes: ``files.exit_code``.
    run : callable
        Returns the exit code of a command that ended well. The others do the same then,
        and are waited for; after an error they are not.
    patience : float
        Of ``distributed``.
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
    """Wait for the end of who started this process, and end with it."""
    while os.read(0, 1):  # Not by sys.stdin, whose lock Python wants at its end.
        pass
    leave(RESTART)
