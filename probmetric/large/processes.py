"""Several processes as one run: join them, gather results, exit if a process is lost.

The engine is JAX's multi-controller runtime (gloo on CPUs, NCCL on GPUs). This module
does not depend on learners. A process computes its share of a pass. ``gather`` sends
the results of all processes to each process, in the order of their ranks, and each
continues from equal bits. ``gather`` transfers bytes, hence the network affects neither
dtypes nor the order of sums.

If one process dies, all exit, and the run is started again from its checkpoint (exit
code 75, "restart me"). The behavior of JAX 0.12 was measured, and is handled as
follows:

* If another process was killed, the collective raises an error. The process prints the
  error and leaves with exit code 75. With an ordinary exit it would wait for the
  heartbeat and be aborted.
* If only one process raises an exception, that process would wait at its end for a
  barrier, up to 300 s, and the other processes would wait in the collective.
  ``distributed`` prints the exception and leaves at once.
* If another process is alive but stuck, JAX does not detect it. A process that waits in
  a gather for longer than max(patience, 20 × its own share of the pass) leaves with 75.

A single process does not use JAX's runtime. A process leaves by ``os._exit``, hence
code after the block and exit handlers do not run.
"""

import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

RESTART = 75
"""Exit code of a process that lost another: restart all, from the checkpoint."""

PATIENCE = 60.0
"""Least number of seconds in a gather before the other processes count as stuck."""

HEARTBEAT = 10
"""Least number of seconds without a heartbeat before JAX treats a process as dead."""

SLOWER = 20
"""A process waits for the others this many times as long as its own share took."""

COORDINATOR = "PROBMETRIC_COORDINATOR"
SIZES = (
    "PROBMETRIC_PROCESSES",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
)
RANKS = (
    "PROBMETRIC_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "JOB_COMPLETION_INDEX",
)
"""Environment variables with the number of processes and the rank; the first that is
set is used."""

HEADER = struct.Struct("<QQ16s16s")
"""Header of gathered bytes: number of the gather, size, hashes of form and values."""


class Together(NamedTuple):
    """Rank of this process, and the number of processes."""

    rank: int
    size: int


class _State:
    """State of the membership; each process has at most one."""

    together = Together(0, 1)
    patience = PATIENCE
    gathers = 0
    since = 0.0
    forms: ClassVar[set[bytes]] = set()


def together() -> Together:
    """Return the rank and the number of processes; (0, 1) outside a block."""
    return _State.together


def leave(code: int, why: str = "") -> NoReturn:
    """End this process at once, without waiting for others."""
    if why:
        print(f"probmetric: {why}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _first(names: tuple[str, ...]) -> int | None:
    """Return the whole number of the first variable that is set."""
    for name in names:
        if text := os.environ.get(name):
            if not text.isdecimal():
                raise ValueError(f"{name} must be a whole number, got {text!r}.")
            return int(text)
    return None


def _found(
    coordinator: str | None, size: int | None, rank: int | None
) -> dict[str, Any] | None:
    """Return arguments for JAX, or None if there is one process.

    Without a coordinator, JAX itself detects Slurm's srun and Open MPI before 5.
    """
    coordinator = coordinator or os.environ.get(COORDINATOR)
    if coordinator is None:
        if size is not None or rank is not None:
            raise ValueError(
                "coordinator must be host:port of process 0 if processes or rank is "
                "given, got None."
            )
        step = "SLURM_STEP_NODELIST" in os.environ
        mpi = "OMPI_COMM_WORLD_SIZE" in os.environ
        several = (_first(SIZES) or 1) > 1
        return {"local_device_ids": None} if several and (step or mpi) else None
    size = _first(SIZES) if size is None else size
    rank = _first(RANKS) if rank is None else rank
    if size is None or rank is None or not 0 <= rank < size:
        raise ValueError(
            f"rank must satisfy 0 ≤ rank < processes if coordinator is {coordinator}, "
            f"got rank {rank} and processes {size}."
        )
    if not coordinator.rpartition(":")[2].isdecimal():
        raise ValueError(f"coordinator must be host:port, got {coordinator!r}.")
    if size == 1:
        return None
    return {
        "coordinator_address": coordinator,
        "num_processes": size,
        "process_id": rank,
        "cluster_detection_method": "deactivate",
    }


@contextmanager
def distributed(
    coordinator: str | None = None,
    processes: int | None = None,
    rank: int | None = None,
    *,
    patience: int | float = PATIENCE,
) -> Generator[Together]:
    """Join the processes that were started together; do nothing with one process.

    Within the block, processes share each pass over a ``Source``. Every process reads
    its own parts of the data, and all end with the same result. The result equals that
    of one process bit for bit if that process has as many cores as each of these.
    With another number of cores results agree to 1e-12, because threads affect the
    rounding of matrix products.

    Parameters
    ----------
    coordinator : str, optional
        host:port of process 0, which the other processes must reach. The default is the
        variable PROBMETRIC_COORDINATOR. Without the variable, JAX detects Slurm's srun
        and Open MPI's mpirun (Open MPI from version 5 needs mpi4py or a coordinator).
        Otherwise there is one process.
    processes, rank : int, optional
        Number of processes, and number of this process, from 0. The defaults are
        PROBMETRIC_PROCESSES and PROBMETRIC_RANK, or the variables of Open MPI, PMI,
        Slurm or a Kubernetes job.
    patience : float > 0, default=60
        Least number of seconds that a process waits for the others in a pass. It waits
        20 times as long as its own share took, if that is longer. The others then count
        as stuck, and the process leaves with exit code 75.

    Yields
    ------
    Together
        ``rank`` and ``size``.

    Raises
    ------
    ValueError
        If arguments or environment variables contradict each other.

    Notes
    -----
    * Enter the block once per process, before JAX computes anything.
    * Every process must run the same code in the same order. Equal bits also require
      the same kind of processor.
    * With several processes, a process whose block raises prints the error and leaves
      at once, with exit code 1 or the code of SystemExit. Code after the block does not
      run.
    * A process that loses another process leaves with exit code 75.
    * Proxy variables of the environment may prevent processes from connecting. Unset
      them.

    Examples
    --------
    >>> import probmetric as pm
    >>> with pm.distributed() as together:  # One process has nothing to join.
    ...     together
    Together(rank=0, size=1)
    """
    if not patience > 0:
        raise ValueError(f"patience must be above 0 seconds, got {patience}.")
    joined = "jax" in sys.modules and _initialized()
    arguments = None if joined else _found(coordinator, processes, rank)
    if _State.together.size > 1 or not (joined or arguments):
        yield _State.together
        return
    if arguments is not None:
        _join(arguments, int(patience))
    _enter(patience)
    try:
        yield _State.together
    except BaseException as error:
        _leave_by(error)
    _exchanged(np.zeros(HEADER.size, np.uint8))  # Wait for the others, however long.
    _State.together = Together(0, 1)
    _State.forms.clear()
    if arguments is not None:
        import jax

        jax.distributed.shutdown()


def _initialized() -> bool:
    """Check whether the program or its launcher has joined JAX's runtime already."""
    import jax

    return jax.distributed.is_initialized()


def _join(arguments: dict[str, Any], patience: int) -> None:
    import jax

    beat = max(HEARTBEAT, patience // 2)
    try:
        jax.distributed.initialize(
            **arguments,
            initialization_timeout=max(60, patience),
            heartbeat_timeout_seconds=beat,
            shutdown_timeout_seconds=beat,
        )
    except jax.errors.JaxRuntimeError as error:
        leave(RESTART, f"the processes did not meet ({_line(error)})")


def _enter(patience: float) -> None:
    import jax

    _State.together = Together(jax.process_index(), jax.process_count())
    _State.patience, _State.since = patience, time.monotonic()


def _leave_by(error: BaseException) -> NoReturn:
    """Leave with the exit code of an error, after printing the error."""
    if isinstance(error, SystemExit):
        code = error.code
        leave(code if isinstance(code, int) else int(code is not None))
    if isinstance(error, KeyboardInterrupt):
        leave(130, "interrupted")
    sys.excepthook(type(error), error, error.__traceback__)
    leave(1)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


@lru_cache
def _mesh() -> Any:
    """Return one device of every process, in the order of the processes."""
    import jax

    first: dict[int, Any] = {}
    for device in jax.devices():
        first.setdefault(device.process_index, device)
    return jax.sharding.Mesh(np.array([first[i] for i in sorted(first)]), ("process",))


@lru_cache
def _copy_to_all(mesh: Any) -> Callable[[Any], Any]:
    """Compile the all-gather of one row per process."""
    import jax

    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.jit(lambda rows: rows, out_shardings=everywhere)


def _exchanged(row: np.ndarray) -> np.ndarray:
    """Return the bytes of all processes, one row each; leave if a process is lost."""
    import jax

    mesh = _mesh()
    mine = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("process"))
    try:
        whole = jax.make_array_from_process_local_data(mine, row[None])
        return np.asarray(_copy_to_all(mesh)(whole).addressable_data(0))
    except (RuntimeError, ValueError) as error:  # JAX raises either.
        gathers = _State.gathers
        leave(RESTART, f"a process was lost after gather {gathers} ({_line(error)})")


def gather(tree: Any, agree: Any = None) -> Any:
    """Gather the arrays of all processes along a new first axis.

    This is one collective operation, and one more before the first gather of arrays of
    this form. All processes must call it with arrays of the same shapes and dtypes.

    Parameters
    ----------
    tree : pytree of arrays
    agree : pytree of arrays, optional
        Parameters that must have the same bits on every process.

    Returns
    -------
    pytree of NumPy arrays
        The length of the first axis is the number of processes. Every process gets the
        same bits.

    Raises
    ------
    RuntimeError
        If ``agree`` or the form of ``tree`` differs between processes.
    """
    import jax

    leaves, form = jax.tree.flatten(jax.tree.map(np.asarray, tree))
    if _State.together.size == 1:
        return jax.tree.unflatten(form, [leaf[None] for leaf in leaves])
    kinds = " ".join(f"{leaf.dtype}{leaf.shape}" for leaf in leaves)
    shape = _digest([f"{form} {kinds}".encode()])
    values = _digest([np.asarray(x).tobytes() for x in jax.tree.leaves(agree)])
    size = sum(leaf.nbytes for leaf in leaves)
    _State.gathers += 1
    header = HEADER.pack(_State.gathers, size, shape, values)
    head = np.frombuffer(header, np.uint8)
    with _watched():
        if shape not in _State.forms:
            _check(_exchanged(head))
            _State.forms.add(shape)
        parts = [head, *(np.frombuffer(a.tobytes(), np.uint8) for a in leaves)]
        rows = _exchanged(np.concatenate(parts))
    _check(rows)
    return jax.tree.unflatten(form, list(_unpacked(rows, leaves)))


def _unpacked(rows: np.ndarray, like: list[np.ndarray]) -> Generator[np.ndarray]:
    """Yield arrays with a leading axis of processes from rows of bytes."""
    at = HEADER.size
    for leaf in like:
        cut = np.ascontiguousarray(rows[:, at : at + leaf.nbytes])
        yield cut.view(leaf.dtype).reshape((len(rows), *leaf.shape))
        at += leaf.nbytes


def _digest(parts: list[bytes]) -> bytes:
    found = blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


def _check(rows: np.ndarray) -> None:
    """Raise if processes are at different gathers or have different values."""
    heads = [HEADER.unpack(bytes(row[: HEADER.size])) for row in rows]
    for name, column in zip(
        ("pass", "size", "kind of sums", "parameters"),
        zip(*heads, strict=True),
        strict=True,
    ):
        if len(set(column)) > 1:
            raise RuntimeError(
                f"processes must have the same {name}, got different values. Use the "
                "same program, data, settings and versions on each."
            )


@contextmanager
def _watched() -> Generator[None]:
    """Leave if the other processes take much longer than this process did."""
    own = time.monotonic() - _State.since
    limit = max(_State.patience, SLOWER * own)
    said = f"no process came within {limit:.0f} s to gather {_State.gathers}"
    timer = threading.Timer(limit, leave, (RESTART, said))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _State.since = time.monotonic()
