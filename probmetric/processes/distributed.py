"""Several processes as one: how they join, gather once a pass, and leave when one dies.

The engine is JAX's multi-controller runtime (gloo on processors, NCCL on GPUs). Nothing
here knows a learner: a process computes its share of a pass, ``gather`` hands every
process what all have computed, in the order of their numbers, and each goes on from
equal bits. Bytes are gathered, so that no dtype and no order of a sum is the network's.

All die when one does, and the run is started again from its checkpoint (exit code 75,
"restart me"). What was measured of JAX 0.12 and what is done about it:

* a peer that was killed gives an error in the collective: said, and left with 75; left
  in the ordinary way a process waits for the heartbeat, and is aborted;
* an exception in one process alone would wait at its end for a barrier, up to 300 s,
  and the others in the collective: ``distributed`` prints it and leaves at once;
* a peer that lives and is stuck is noticed by nobody: whoever waits in a gather longer
  than max(patience, 20 × its own share of the pass) leaves with 75.

On one process nothing of JAX is touched. A process leaves by ``os._exit``: what the
program would do after the block, or at its end, is then not done.
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
"""Exit code of a process that lost its peers: start all again, from the checkpoint."""

PATIENCE = 60.0
"""Seconds in a gather, at least, before the others are taken to be stuck."""

HEARTBEAT = 10
"""Seconds without a sign of life, at least, after which JAX takes one for dead."""

SLOWER = 20
"""Times its own share of a pass that a process waits for the others."""

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
"""Variables that say how many processes there are, and which this is; the first set."""

HEADER = struct.Struct("<QQ16s16s")
"""Of what is gathered: the number of the gather, bytes, hashes of form and values."""


class Together(NamedTuple):
    """Which process this is, and how many there are."""

    rank: int
    size: int


class _State:
    """What this process is among others: there is one membership a process."""

    together = Together(0, 1)
    patience = PATIENCE
    gathers = 0
    since = 0.0
    forms: ClassVar[set[bytes]] = set()


def together() -> Together:
    """Return which process this is, and how many there are; (0, 1) outside a block."""
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
                raise ValueError(f"{name}: expected a whole number, got {text!r}")
            return int(text)
    return None


def _found(
    coordinator: str | None, size: int | None, rank: int | None
) -> dict[str, Any] | None:
    """Return arguments for JAX, or None where there is one process.

    Without a coordinator, Slurm's srun and Open MPI before 5 are JAX's to find.
    """
    coordinator = coordinator or os.environ.get(COORDINATOR)
    if coordinator is None:
        if size is not None or rank is not None:
            raise ValueError(
                "coordinator: expected host:port of process 0 beside processes and "
                "rank, got none"
            )
        step = "SLURM_STEP_NODELIST" in os.environ
        mpi = "OMPI_COMM_WORLD_SIZE" in os.environ
        several = (_first(SIZES) or 1) > 1
        return {"local_device_ids": None} if several and (step or mpi) else None
    size = _first(SIZES) if size is None else size
    rank = _first(RANKS) if rank is None else rank
    if size is None or rank is None or not 0 <= rank < size:
        raise ValueError(
            f"processes, rank: expected 0 ≤ rank < processes beside the coordinator "
            f"{coordinator}, got rank {rank} of {size}"
        )
    if not coordinator.rpartition(":")[2].isdecimal():
        raise ValueError(f"coordinator: expected host:port, got {coordinator!r}")
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
    """Join the processes that were started together; on one process do nothing.

    Within the block a pass over a ``Source`` is shared: every process reads its own
    parts, and each ends with the same result, bit for bit that of one process with as
    many cores as each of these has (products round by their threads; else 1e-12).

    Parameters
    ----------
    coordinator : str, optional
        host:port of process 0, where it can be reached by the others. Default: the
        variable PROBMETRIC_COORDINATOR; without it what JAX finds under Slurm's srun
        and Open MPI's mpirun (from version 5 on mpi4py is needed, or a coordinator);
        else there is one process.
    processes, rank : int, optional
        How many there are, and which this is, from 0. Default: PROBMETRIC_PROCESSES
        and PROBMETRIC_RANK, or the variables of Open MPI, PMI, Slurm or a Kubernetes
        job.
    patience : float > 0, default=60
        Seconds that a process waits for the others in a pass, at least; it waits
        twenty times as long as its own share took where that is more. Then they are
        taken to be stuck, and the process leaves with exit code 75.

    Yields
    ------
    Together
        ``rank`` and ``size``.

    Raises
    ------
    ValueError
        For arguments or variables that do not fit together.

    Notes
    -----
    Of several processes, one whose block raises prints the error and leaves at once,
    with exit code 1 or that of SystemExit: code after the block does not see it. A
    process whose peer is lost leaves with 75. It must be entered before anything is
    computed by JAX, and once a process. Every process has to do the same in the same
    order; equal bits also need the same kind of processor. Proxy variables of the
    environment can keep processes from meeting: unset them.

    Examples
    --------
    >>> import probmetric as pm
    >>> with pm.distributed() as together:  # One process: nothing to join.
    ...     together
    Together(rank=0, size=1)
    """
    if not patience > 0:
        raise ValueError(f"patience: expected seconds above 0, got {patience}")
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
    """Say whether the program, or who started it, has joined JAX's runtime itself."""
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
    """Leave with the code of an error, which is printed."""
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
    """Return the compiled all-gather of rows that lie one a process."""
    import jax

    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.jit(lambda rows: rows, out_shardings=everywhere)


def _exchanged(row: np.ndarray) -> np.ndarray:
    """Return the bytes of all processes, one row each; leave where one is lost."""
    import jax

    mesh = _mesh()
    mine = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("process"))
    try:
        whole = jax.make_array_from_process_local_data(mine, row[None])
        return np.asarray(_copy_to_all(mesh)(whole).addressable_data(0))
    except (RuntimeError, ValueError) as error:  # JAX raises the one or the other.
        gathers = _State.gathers
        leave(RESTART, f"a process was lost after gather {gathers} ({_line(error)})")


def gather(tree: Any, agree: Any = None) -> Any:
    """Return a tree with the arrays of every process, along a new first axis.

    One collective; once before it where arrays of this form were not gathered yet. All
    processes have to call it with arrays of the same shapes and dtypes.

    Parameters
    ----------
    tree : pytree of arrays
    agree : pytree of arrays, optional
        What must be the same, bit for bit, on every process: parameters.

    Returns
    -------
    pytree of NumPy arrays
        With a first axis as long as there are processes; the same bits in each.

    Raises
    ------
    RuntimeError
        Where ``agree``, or the form of the tree, is not the same on every process.
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
    """Yield arrays of one more axis from rows of bytes."""
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
    """Raise where processes are at other gathers, or do not hold the same."""
    heads = [HEADER.unpack(bytes(row[: HEADER.size])) for row in rows]
    for name, column in zip(
        ("pass", "size", "kind of sums", "parameters"),
        zip(*heads, strict=True),
        strict=True,
    ):
        if len(set(column)) > 1:
            raise RuntimeError(
                f"processes: expected the same {name} on each, got others: they need "
                "the same program, data, settings and versions"
            )


@contextmanager
def _watched() -> Generator[None]:
    """Leave where the others take much longer than this process did."""
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
